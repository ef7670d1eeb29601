#!/usr/bin/env bash
# MariaDB is killed under load, twice; what was committed is there when it has recovered.
source "$(dirname "$0")/common.sh"
source "$(dirname "$0")/mariadb.inc"

about() {
    find_server
    about_version
    echo 'what: kill -9 under transactions on 4 connections, twice; recovery; CHECK TABLE and sums'
    echo 'work: random'
    echo 'rounds: 3'
}

prepare() { :; }

rows() { ask 'select count(*) from stones.history'; }

run() {
    local wanted client turn clients
    find_server
    new_database
    start_server
    make_tables 1000
    for turn in 1 2; do
        clients=()
        wanted=$(($(rows) + $(amount 2000 200)))
        for client in 1 2 3 4; do
            ask "use stones; call move(10000000, $client)" 2> /dev/null &
            clients+=($!)
        done
        until (($(rows) >= wanted)); do sleep 0.05; done
        { kill -9 "$server" && wait "$server"; } 2> /dev/null || true
        for client in "${clients[@]}"; do
            wait "$client" && wrong "a client has not noticed"
        done
        start_server
        (($(rows) >= wanted)) || wrong "committed rows are lost"
        checked
    done
    stop_server
}

drive "$@"
