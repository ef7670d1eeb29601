#!/usr/bin/env bash
# PostgreSQL: a new cluster, pgbench's tables, its transactions of both kinds, and its own checks.
source "$(dirname "$0")/common.sh"
source "$(dirname "$0")/postgresql.inc"

about() {
    find_server
    printf 'version: %s\n' "$("$bin/postgres" --version | sed 's/ (PostgreSQL)//; s/ (.*//')"
    echo 'what: initdb; pgbench: load, TPC-B-like and select-only transactions on 4' \
        'connections; sort, hash and index of a join; amcheck'
}

prepare() { make_place; }

run() {
    find_server
    new_cluster
    start_server
    bench -i -s "$(amount 5 1)" > "$place/log" 2>&1
    bench -c 4 -j 2 -t "$(amount 1000 50)" >> "$place/log" 2>&1
    bench -S -c 4 -j 2 -t "$(amount 5000 100)" >> "$place/log" 2>&1
    ask 'select count(*), sum(bid) from pgbench_accounts'
    ask "select md5(string_agg(t::text, '')) from (select a.aid, b.bid, md5(a.aid::text) from
        pgbench_accounts a join pgbench_branches b using (bid) order by md5(a.aid::text)) t"
    ask "create index on pgbench_accounts (md5(aid::text))"
    sums_agree
    ask 'create extension amcheck'
    ask 'select count(bt_index_check(indexrelid)) from pg_index
        where indrelid::regclass::text like '"'pgbench%'"
    stop_server
}

drive "$@"
