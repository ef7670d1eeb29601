#!/usr/bin/env bash
# Libraries in a second namespace (dlmopen): they have a C library of their own, whose malloc no
# preloaded library replaces. Threads, callbacks and the loader itself cross the border.
source "$(dirname "$0")/common.sh"

about() {
    command -v gcc ldconfig > /dev/null && [[ $(ldconfig -p) == *libsqlite3.so.0* ]] \
        || absent gcc libsqlite3-0
    printf 'version: %s\n' "$(getconf GNU_LIBC_VERSION)"
    echo 'what: sqlite and zlib in namespaces of their own beside those of the program, on two' \
        'threads, opened and closed again and again'
}

prepare() { gcc -O1 -pthread -o "$folder/spaces" "$(dirname "$0")/spaces.c" -ldl; }

run() { "$folder/spaces" "$(amount 24 2)"; }

drive "$@"
