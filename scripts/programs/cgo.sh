#!/usr/bin/env bash
# A Go program that asks C for its memory: threads of Go's own making, with small stacks and signals
# that interrupt them, call malloc and free.
source "$(dirname "$0")/common.sh"

about() {
    command -v go gcc > /dev/null || absent golang-go gcc
    printf 'version: %s\n' "$(go version | sed 's/.*go\([0-9][0-9.]*\).*/go \1/')"
    echo 'what: 8 goroutines on two threads keep C strings and blocks, grow them by realloc, hand' \
        'them to each other and free them'
}

prepare() {
    mkdir "$folder/source"
    cp "$(dirname "$0")/stones.go" "$folder/source/main.go"
    cd "$folder/source"
    printf 'module stones\n\ngo 1.18\n' > go.mod
    GOCACHE=$folder/cache GOPROXY=off GOTOOLCHAIN=local CGO_ENABLED=1 go build -o ../stones .
}

run() { GOMAXPROCS=2 "$folder/stones" "$(amount 240000 2000)"; }

drive "$@"
