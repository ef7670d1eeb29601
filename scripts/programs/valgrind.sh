#!/usr/bin/env bash
# valgrind on programs with the allocator preloaded: memcheck replaces the functions of malloc by
# its own, callgrind keeps them and so runs them in its emulation, which has no rseq.
source "$(dirname "$0")/common.sh"

about() {
    command -v valgrind jq > /dev/null || absent valgrind jq
    printf 'version: %s\n' "$(valgrind --version | tr - ' ')"
    echo 'what: jq under memcheck, which must find nothing, and callgrind; sort under helgrind'
    echo 'malloc: own'
}

prepare() {
    awk -v count="$(amount 300 20)" 'BEGIN {
        for (at = 0; at < count; at++) printf "{\"id\":%d,\"name\":\"s%d\"}\n", at, at * 7919 % 1009
    }' > "$folder/stones"
}

run() {
    local tool options
    for tool in memcheck none callgrind; do
        options=()
        [[ $tool != memcheck ]] \
            || options=(--error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite)
        [[ $tool != callgrind ]] || options=("--callgrind-out-file=$folder/calls")
        valgrind --quiet "--tool=$tool" "${options[@]}" jq -s -c \
            'group_by(.id % 7) | map(map(.name) | sort | join("-")) | sort' "$folder/stones" \
            2> "$folder/errors" | md5sum \
            || wrong "$tool: $(tail -n1 "$folder/errors")"
    done
    valgrind --quiet --tool=helgrind --error-exitcode=9 sort --parallel=2 "$folder/stones" \
        2> "$folder/errors" | md5sum || wrong "helgrind: $(tail -n1 "$folder/errors")"
}

drive "$@"
