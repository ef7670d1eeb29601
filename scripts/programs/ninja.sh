#!/usr/bin/env bash
# A build by cmake, ninja, gcc, ar and ld: many short processes.
source "$(dirname "$0")/common.sh"

about() {
    command -v cmake ninja cc > /dev/null || absent cmake ninja-build gcc
    printf 'version: cmake %s, ninja %s\n' "$(cmake --version | sed -n '1s/.* //p')" \
        "$(ninja --version)"
    echo 'what: a generated project of 60 C files in 6 libraries configured, built by two jobs,' \
        'run, changed and built again'
}

prepare() {
    local library file
    mkdir "$folder/source"
    {
        echo 'cmake_minimum_required(VERSION 3.13)'
        echo 'project(stones C)'
        echo 'add_executable(stones main.c)'
        for ((library = 0; library < 6; library++)); do
            echo "add_library(l$library STATIC"
            for ((file = 0; file < $(amount 10 1); file++)); do
                echo "f${library}_$file.c"
                printf '#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n' \
                    > "$folder/source/f${library}_$file.c"
                printf 'int f%d_%d(int n) { char b[9]; return snprintf(b, 9, "%%d", n * %d); }\n' \
                    $library $file $((file + library)) >> "$folder/source/f${library}_$file.c"
            done
            echo ')'
            echo "target_link_libraries(stones l$library)"
        done
    } > "$folder/source/CMakeLists.txt"
    {
        echo '#include <stdio.h>'
        printf 'int f%d_0(int);\n' 0 1 2 3 4 5
        echo 'int main(void) { printf("%d\n", f0_0(1) + f1_0(22) + f2_0(333) + f3_0(4) +'
        echo 'f4_0(5) + f5_0(6)); }'
    } > "$folder/source/main.c"
}

run() {
    rm -rf "$folder/build"
    cmake -S "$folder/source" -B "$folder/build" -G Ninja > "$folder/log" \
        || wrong "$(tail -n1 "$folder/log")"
    ninja -C "$folder/build" -j2 | tail -n1 | sed 's/ Linking.*//'
    "$folder/build/stones"
    touch "$folder/source/f3_0.c"
    ninja -C "$folder/build" -j2 | tail -n1 | sed 's/ Linking.*//'
    ninja -C "$folder/build" -t commands all | wc -l
}

drive "$@"
