#!/usr/bin/env bash
# jq: a document of JSON grouped, sorted, rewritten and put together again.
source "$(dirname "$0")/common.sh"

about() {
    command -v jq > /dev/null || absent jq
    printf 'version: %s\n' "$(jq --version | tr - ' ')"
    echo 'what: a generated document of 12,000 objects grouped, sorted, rewritten, searched'
}

prepare() {
    awk -v count="$(amount 12000 500)" 'BEGIN {
        for (at = 0; at < count; at++)
            printf "{\"id\":%d,\"name\":\"stone %d\",\"tags\":[\"t%d\",\"t%d\"],\"at\":{\"x\":%d," \
                "\"y\":%.2f}}\n", at, at * 7919 % 10007, at % 13, at % 29, at, at / 7
    }' > "$folder/stones"
}

run() {
    local in=$folder/stones
    jq -s -c 'group_by(.tags[0]) | map({tag: .[0].tags[0], n: length, x: (map(.at.x) | add)})' "$in"
    jq -s -c 'sort_by(.name, -.id) | map(.name |= ascii_upcase | .all = (.tags | join("-")))' \
        "$in" | md5sum
    jq -c '[paths(scalars) as $p | {($p | join("/")): getpath($p)}] | add' "$in" | md5sum
    jq -r 'select(.name | test("7+8")) | [.id, .name, .at.y] | @csv' "$in" | md5sum
}

drive "$@"
