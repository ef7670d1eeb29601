#!/usr/bin/env bash
# PostgreSQL under load: the driver kills the process of one connection, then all processes. After
# each recovery all committed data must be there, and the sums must agree.
source "$(dirname "$0")/common.sh"
source "$(dirname "$0")/postgresql.inc"

about() {
    find_server
    printf 'version: %s\n' "$("$bin/postgres" --version | sed 's/ (PostgreSQL)//; s/ (.*//')"
    echo 'what: kill -9 of a backend, then of the postmaster and all it started, under pgbench;' \
        'recovery; sums over the tables'
    echo 'work: random'
    echo 'rounds: 3'
}

prepare() { make_place; }

# Waits until $1 more transactions are in the history.
transactions() {
    local wanted
    wanted=$(($(ask 'select count(*) from pgbench_history') + $1))
    until (($(ask 'select count(*) from pgbench_history') >= wanted)); do sleep 0.05; done
}

recovered() {
    ask "select case when count(*) > 0 then 'history is there' end from pgbench_history"
    sums_agree
    ask 'select count(bt_index_check(indexrelid)) from pg_index
        where indrelid::regclass::text like '"'pgbench%'"
}

run() {
    local load
    find_server
    new_cluster
    start_server
    bench -i -s 1 > "$place/log" 2>&1
    ask 'create extension amcheck'

    bench -c 4 -j 2 -T 60 > "$place/log" 2>&1 &
    load=$!
    transactions "$(amount 500 50)"
    # The postmaster ends all other connections as well, and starts anew.
    kill -9 "$(ask "select pid from pg_stat_activity where query like '%pgbench%'
        and pid <> pg_backend_pid() limit 1")"
    wait "$load" && wrong "pgbench has not noticed"
    await "$server" ask 'select 1'
    recovered

    bench -c 4 -j 2 -T 60 > "$place/log" 2>&1 &
    load=$!
    transactions "$(amount 500 50)"
    local all=("$server")
    mapfile -t -O 1 all < <(cat "/proc/$server/task/$server/children" | tr ' ' '\n' | sed '/^$/d')
    kill -9 "${all[@]}" 2> /dev/null
    wait "$load" && wrong "pgbench has not noticed"
    wait "$server" 2> /dev/null || true
    rm -f "$place/data/postmaster.pid"
    start_server
    recovered
    stop_server
}

drive "$@"
