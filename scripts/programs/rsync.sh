#!/usr/bin/env bash
# rsync: a tree copied, changed, copied again by differences, checked by sums, pruned.
source "$(dirname "$0")/common.sh"

about() {
    command -v rsync > /dev/null || absent rsync
    printf 'version: %s\n' "$(rsync --version | sed -n '1s/ *version \([^ ]*\).*/ \1/p')"
    echo 'what: 6,000 generated files copied, changed, copied by differences, compared by sums,' \
        'some deleted'
}

prepare() {
    awk -v count="$(amount 6000 100)" -v folder="$folder/source" 'BEGIN {
        for (at = 0; at < 60; at++) system("mkdir -p " folder "/d" at)
        for (at = 0; at < count; at++) {
            file = folder "/d" at % 60 "/f" at
            for (line = 0; line < 200; line++) print line, at, line * at % 1009 > file
            close(file)
        }
    }'
}

run() {
    local at
    cd "$folder"
    rm -rf copy work
    cp -r source work
    rsync -a work/ copy/
    for ((at = 0; at < 60; at++)); do
        echo more >> "work/d$at/f$at"
        sed -i 7,9d "work/d$at/f$at"
    done
    rm -rf work/d7
    rsync -a --no-whole-file --checksum --delete --stats work/ copy/ \
        | grep -E 'Number of (regular files transferred|deleted)|Matched data'
    rsync -a --no-whole-file -z --ignore-times work/ copy/
    diff -r work copy
    echo the same
}

drive "$@"
