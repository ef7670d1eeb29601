#!/usr/bin/env bash
# TBB's allocator beside the preloaded one: a program linked with TBB's proxy, one that uses only
# its scalable functions, and one with the proxy preloaded after the allocator. Each object must
# come back to the allocator that gave it. A proxy that is preloaded first takes some operators of
# C++ and leaves those of C++14 to the next object: jemalloc crashes then, and Quarry aborts.
source "$(dirname "$0")/common.sh"

find_proxy() {
    proxy=$(PATH=$PATH:/sbin ldconfig -p | awk '/libtbbmalloc_proxy\.so\.2 / { print $NF }')
    [[ $proxy ]] && command -v g++ > /dev/null && [[ -e /usr/include/tbb/scalable_allocator.h ]] \
        || absent libtbbmalloc2 libtbb-dev g++
}

about() {
    find_proxy
    printf 'version: tbbmalloc %s\n' "$(readlink -f "$proxy" | sed 's/.*\.so\.//')"
    echo 'what: C++ strings, maps, aligned blocks and realloc on two threads, scalable_malloc' \
        'beside them: alone, with the proxy linked, and with it preloaded after'
    echo 'malloc: own'
}

prepare() {
    find_proxy
    g++ -O1 -std=c++17 -pthread -o "$folder/plain" "$(dirname "$0")/blocks.cc" -ltbbmalloc
    g++ -O1 -std=c++17 -pthread -o "$folder/linked" "$(dirname "$0")/blocks.cc" \
        -Wl,--no-as-needed -ltbbmalloc_proxy -ltbbmalloc
}

run() {
    find_proxy
    local first=${LD_PRELOAD:-} count
    count=$(amount 120000 5000)
    "$folder/plain" "$count"
    "$folder/linked" "$count"
    LD_PRELOAD=${first:+$first:}$proxy "$folder/plain" "$count"
}

drive "$@"
