#!/usr/bin/env bash
# ltrace on a program linked lazily: every call of malloc's functions passes its breakpoints.
source "$(dirname "$0")/common.sh"

about() {
    command -v ltrace gcc > /dev/null || absent ltrace gcc
    printf 'version: %s\n' "$(ltrace --version | sed -n '1s/ version / /p' | tr -d .,)"
    echo 'what: a C program whose calls of malloc, calloc, realloc and free are all traced and' \
        'counted'
}

prepare() {
    cat > "$folder/calls.c" << 'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
    char *kept[64] = {0};
    unsigned long sum = 0;
    int turns = atoi(argv[argc - 1]);
    for (int turn = 0; turn < turns; turn++) {
        int at = turn * 37 % 64;
        free(kept[at]);
        kept[at] = turn % 3 ? malloc(turn % 900 + 1) : calloc(turn % 50 + 1, 7);
        if (turn % 5 == 0) kept[at] = realloc(kept[at], 5000 + turn);
        memset(kept[at], turn & 63, 1);
        sum += kept[turn % 64] ? kept[turn % 64][0] : 0;
    }
    printf("%lu\n", sum);
}
END
    gcc -O1 -fno-builtin -no-pie -Wl,-z,lazy -o "$folder/calls" "$folder/calls.c"
}

run() {
    ltrace -f -e malloc+calloc+realloc+free -o "$folder/trace" "$folder/calls" "$(amount 9000 100)"
    grep -oE '\b(malloc|calloc|realloc|free)\(' "$folder/trace" | sort | uniq -c
}

drive "$@"
