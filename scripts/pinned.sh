#!/usr/bin/env bash
# Which call site of an engine pins memory. redis gets 400,000 keys, one in 50 of them a hash that
# stays, and deletes the rest. Prints what redis says of its allocator, on the jemalloc that it was
# built with and on libquarry.so, and then the profile of pinned memory, which must name the command
# that makes the hashes, and agree with redis's own figure within a factor of 2.
#
#   scripts/pinned.sh
#
# Needs `make build` and redis. Exit status 77: there is no redis.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v redis-server > /dev/null || { echo "skipped: pinned: no redis-server"; exit 77; }

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
quarry=$target/tools/quarry library=$target/release/libquarry.so
folder=$(mktemp -d)
server=
leave() { [ -z "$server" ] || kill "$server" || true; rm -rf "$folder"; }
trap leave EXIT
ask() { redis-cli -s "$folder/socket" "$@"; }

# rows set|del: sends these commands.
rows() {
    awk -v what="$1" 'BEGIN {
        value = sprintf("%400s", ""); gsub(" ", "v", value); srand(7)
        for (row = 0; row < 400000; row++) {
            size = 40 + int(rand() * 360)
            if (what == "del") { if (row % 50) printf "DEL row:%d\r\n", row }
            else if (row % 50) printf "SET row:%d %s\r\n", row, substr(value, 1, size)
            else printf "HSET state:%d owner %d note %s\r\n", row, row, substr(value, 1, 40)
        }
    }' | ask --pipe | tail -n 1
}

# figures NAME: what redis says.
figures() {
    ask info memory | tr -d '\r' | awk -F: -v name="$1" '
        { of[$1] = $2 }
        END {
            printf "%-8s used %5.1f MiB, resident %5.1f, free inside the allocator %5.1f\n", name,
                of["used_memory"] / 2^20, of["used_memory_rss"] / 2^20,
                of["allocator_frag_bytes"] / 2^20
        }'
}

# play NAME [PRELOAD]
play() {
    LD_PRELOAD=${2:-} redis-server --port 0 --unixsocket "$folder/socket" --save '' \
        > "$folder/$1.log" 2>&1 &
    server=$!
    until ask ping > /dev/null 2>&1; do kill -0 $server; done
    if [[ -n ${2:-} ]]; then
        "$quarry" profile --pid $server --mean 8K --seconds 30 --view pinned \
            > "$folder/pinned" 2> "$folder/errors" &
    fi
    rows set
    rows del
    # Parked memory goes back within seconds, if it is not pinned.
    sleep 12
    figures "$1" | tee "$folder/$1"
    if [[ -n ${2:-} ]]; then
        wait $! || { cat "$folder/errors"; exit 1; }
    fi
    kill $server
    wait $server || true
    server=
}

play jemalloc
play Quarry "$library"
cat "$folder/pinned"
free=$(awk '{ print $NF }' "$folder/Quarry")
awk -v free="$free" '
    NR == 1 { is_right = 1 / 2 < $2 / free && $2 / free < 2 && $3 == "MiB" }
    / hsetCommand$/ { sites++ }
    END { exit !(is_right && sites > 0) }' "$folder/pinned" || {
    echo "pinned: not within a factor of 2 of $free MiB, or not from hsetCommand"
    exit 1
}
