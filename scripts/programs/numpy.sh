#!/usr/bin/env bash
# numpy's own tests of arrays, indices and functions, and its regression tests.
source "$(dirname "$0")/common.sh"
source "$(dirname "$0")/python.inc"

about() {
    find_python 'numpy, pytest, hypothesis' 'pip install numpy pytest hypothesis'
    printf 'version: numpy %s\n' "$("$python" -c 'import numpy; print(numpy.__version__)')"
    echo 'what: a part of its own tests, with PYTHONMALLOC=malloc: every test ends as on glibc'
    echo 'rounds: 3'
}

prepare() { :; }

run() {
    find_python numpy ''
    local tests=(numpy/_core/tests/test_indexing.py)
    [[ $size == quick ]] || tests+=(numpy/_core/tests/test_regression.py
        numpy/lib/tests/test_arraypad.py)
    cd "$("$python" -c 'import numpy, os; print(os.path.dirname(os.path.dirname(numpy.__file__)))')"
    PYTHONMALLOC=malloc PYTHONDONTWRITEBYTECODE=1 OPENBLAS_NUM_THREADS=1 "$python" -m pytest -q \
        -rA -p no:cacheprovider --basetemp "$folder/tests" "${tests[@]}" > "$folder/log" 2>&1 \
        || true
    grep -E '^(PASSED|FAILED|ERROR|XFAIL|XPASS)' "$folder/log" | cut -d' ' -f1,2 | LC_ALL=C sort \
        > "$folder/results"
    cut -d' ' -f1 "$folder/results" | uniq -c
    grep -E '^(FAILED|ERROR)' "$folder/results" || true
    md5sum < "$folder/results"
}

drive "$@"
