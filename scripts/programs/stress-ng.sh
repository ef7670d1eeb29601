#!/usr/bin/env bash
# stress-ng, which checks what it writes (--verify), with a fixed number of its operations each. Its
# part brk is left out: it counts nothing where malloc has not moved the break, as on jemalloc.
source "$(dirname "$0")/common.sh"

about() {
    command -v stress-ng > /dev/null || absent stress-ng
    printf 'version: %s\n' "$(stress-ng --version | sed 's/.*version \([0-9.]*\).*/stress-ng \1/')"
    echo 'what: malloc, also by threads, mmap, mremap, vm, fork, clone, pthread, sigsegv,' \
        'bsearch, tsearch, madvise; two workers each'
}

prepare() { :; }

run() {
    local divisor part
    divisor=$(amount 1 10)
    cd "$folder"
    for part in 'malloc 40000 --malloc-bytes 4M' 'malloc 20000 --malloc-pthreads 2' 'mmap 1' \
        'mremap 4' 'vm 40000 --vm-bytes 8M' 'fork 1500' 'clone 100' 'pthread 2000' \
        'sigsegv 4000' 'bsearch 40' 'tsearch 10' 'madvise 10'; do
        # shellcheck disable=SC2086 # a name, a number and options
        set -- $part
        stress-ng --verify --oomable --no-rand-seed --temp-path "$folder" "--$1" 2 \
            "--$1-ops" $((($2 + divisor - 1) / divisor)) "${@:3}" --timeout 60 > log 2>&1 \
            || wrong "$1: $(grep -E 'fail|error' log | head -n1)"
        printf '%s %s\n' "$1" "$(grep -c 'successful run completed' log)"
    done
}

drive "$@"
