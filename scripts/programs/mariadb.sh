#!/usr/bin/env bash
# MariaDB: a new database, transactions on four connections, many small queries, large ones, checks.
source "$(dirname "$0")/common.sh"
source "$(dirname "$0")/mariadb.inc"

about() {
    find_server
    about_version
    echo 'what: mariadb-install-db; transactions on 4 connections, small queries, joins, sorts' \
        'and groups, an index; CHECK TABLE'
    echo 'rounds: 5'
}

prepare() { :; }

run() {
    local clients=() client turns
    find_server
    new_database
    start_server
    make_tables 5000
    turns=$(amount 4000 200)
    for client in 1 2 3 4; do
        ask "use stones; call move($turns, $client)" &
        clients+=($!)
    done
    wait "${clients[@]}"
    checked
    # As a client would ask: each is parsed, planned and answered.
    awk -v count="$(amount 8000 200)" 'BEGIN {
        for (at = 0; at < count; at++)
            printf "select a.id, count(h.id), sum(h.delta), group_concat(left(h.note, 8)) from " \
                "account a left join history h on h.account = a.id where a.id = %d " \
                "group by a.id;\n",
                1 + at * 7 % 5000
    }' | mariadb --no-defaults -u root -S "$place/socket" -N -B stones \
        | awk '{ rows++; all += $2 } END { print rows, all }'
    ask "use stones; alter table history add key (note(32));
        select md5(group_concat(n order by n)) from (select distinct left(note, 6) n from history
        order by 1 limit 5000) x;
        select count(*), sum(length(h.note)) from history h join account a on a.id = h.account
        join history g on g.account = a.id where g.delta > 60"
    stop_server
}

drive "$@"
