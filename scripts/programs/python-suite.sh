#!/usr/bin/env bash
# CPython's own tests of what has to do with memory, with PYTHONMALLOC=malloc.
source "$(dirname "$0")/common.sh"

find_suite() {
    python=/usr/bin/python3
    "$python" -c 'import test.test_dict' 2> /dev/null \
        || absent "$("$python" -c 'import sys; print("libpython%d.%d-testsuite" %
            sys.version_info[:2])')"
}

about() {
    find_suite
    printf 'version: %s\n' "$("$python" --version)"
    echo 'what: a part of its own tests, with PYTHONMALLOC=malloc: every test ends as on glibc'
    echo 'rounds: 3'
}

prepare() { :; }

run() {
    find_suite
    local tests=(test_list test_dict test_set test_array test_re test_json test_sort
        test_deque test_heapq test_mmap test_xml_etree test_memoryview
        test_ctypes test_struct)
    [[ $size == full ]] || tests=(test_list test_array)
    cd "$folder"
    PYTHONMALLOC=malloc "$python" -m test -v --tempdir "$folder" "${tests[@]}" > log 2>&1 || true
    grep -E ' \.\.\. (ok|skipped|FAIL|ERROR|expected failure)' log \
        | sed -E "s/ \.\.\. (ok|skipped|FAIL|ERROR|expected failure).*/ \1/" | sort > results
    awk '{ count[$NF]++ } END { for (end in count) print end, count[end] }' results | sort
    grep -E ' (FAIL|ERROR)$' results || true
    md5sum < results
    grep -E '^[0-9]+ tests? (OK|failed|skipped)|^(All [0-9]+ tests|Result)' log || true
}

drive "$@"
