#!/usr/bin/env bash
# Archives: tar with gzip, bzip2, and xz on two threads.
source "$(dirname "$0")/common.sh"

about() {
    command -v tar xz gzip bzip2 > /dev/null || absent tar xz-utils bzip2
    printf 'version: %s, %s\n' "$(tar --version | sed -n '1s/.*(GNU \(.*\)) /\1 /p')" \
        "$(xz --version | sed -n '1s/ (XZ Utils)//p')"
    echo 'what: 160 generated files into archives of three kinds and out of them again'
}

prepare() {
    mkdir "$folder/files"
    awk -v count="$(amount 160 20)" -v folder="$folder/files" 'BEGIN {
        for (at = 0; at < count; at++) {
            file = folder "/f" at
            for (line = 0; line < 900; line++)
                print line * at % 1009, "stone", (line * 7919 + at) % 65537 > file
            close(file)
        }
    }'
}

run() {
    local kind
    cd "$folder"
    for kind in gz bz2 xz; do
        rm -rf out
        mkdir out
        XZ_OPT='-T2 -6' tar --sort=name --mtime=@1700000000 -caf "files.tar.$kind" files
        tar -xaf "files.tar.$kind" -C out
        diff -r files out/files
        md5sum < "files.tar.$kind"
    done
}

drive "$@"
