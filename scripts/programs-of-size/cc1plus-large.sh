#!/usr/bin/env bash
# GCC's C++ compiler on one large file with templates of the standard library.
source "$(dirname "$0")/../programs/common.sh"

about() {
    command -v g++ > /dev/null || absent g++
    printf 'version: g++ %s\n' "$(g++ -dumpfullversion)"
    echo 'what: g++ -O1 -g -S on generated functions with maps, strings, sorting and lambdas'
}

# The file of the driver of clang, several times in namespaces of their own.
prepare() {
    bash "$(dirname "$0")/../programs/clang.sh" prepare "$folder" "$size"
    {
        grep '^#include' "$folder/f.cc"
        for ((at = 0; at < $(amount 5 1); at++)); do
            printf 'namespace n%d {\n' "$at"
            grep -v '^#include' "$folder/f.cc"
            echo '}'
        done
    } > "$folder/large.cc"
}

run() {
    cd "$folder"
    g++ -std=c++17 -O1 -g -S -o - large.cc | md5sum
}

drive "$@"
