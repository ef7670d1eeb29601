#!/usr/bin/env bash
# git: a history of commits, packed, cloned, checked; many processes that live for a moment.
source "$(dirname "$0")/common.sh"

about() {
    command -v git > /dev/null || absent git
    printf 'version: %s\n' "$(git --version | sed 's/ version//')"
    echo 'what: a repository of generated commits imported, repacked, searched, blamed, cloned' \
        'and checked'
}

prepare() {
    awk -v count="$(amount 1500 60)" 'BEGIN {
        for (at = 1; at <= count; at++) {
            text = ""
            for (line = 0; line < 60; line++)
                text = text "line " line " of " at % 40 ": " (line % 9 == at % 9 ? at : line) "\n"
            print "commit refs/heads/main\ncommitter q <q@example.org> " 1700000000 + at " +0000"
            printf "data %d\n%s\nM 100644 inline d%d/f%d\ndata %d\n%s\n", length("turn " at),
                "turn " at, at % 7, at % 40, length(text), text
        }
    }' > "$folder/stream"
}

run() {
    local at=$folder/bare
    rm -rf "$at" "$folder/clone"
    export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
    git init -q --bare "$at"
    git -C "$at" fast-import --quiet < "$folder/stream"
    git -C "$at" -c pack.threads=2 repack -q -a -d -f --depth=50 --window=50
    git -C "$at" log --stat --format=%s main | md5sum
    git -C "$at" grep -c 'line 5' main | md5sum
    git clone -q --no-local -b main "$at" "$folder/clone"
    git -C "$folder/clone" blame -s d3/f3 | md5sum
    git -C "$folder/clone" rev-parse HEAD
    git -C "$folder/clone" fsck --strict 2>&1
}

drive "$@"
