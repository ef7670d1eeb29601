#!/usr/bin/env bash
# strace on programs with several processes and threads, and with faults injected into system calls.
source "$(dirname "$0")/common.sh"

about() {
    command -v strace sqlite3 > /dev/null || absent strace sqlite3
    printf 'version: %s\n' "$(strace --version | sed -n '1s/.*version /strace /p')"
    echo 'what: a pipeline of sorts and a database traced with all calls of all threads; sort' \
        'while every tenth madvise fails'
}

prepare() {
    awk -v count="$(amount 200000 2000)" \
        'BEGIN { for (at = 0; at < count; at++) print at * 7919 % 100003, "stone", at }' \
        > "$folder/lines"
}

run() {
    local calls
    strace -f -o "$folder/trace" sh -c \
        "sort --parallel=2 -S 8M -k2,2 -k1,1n '$folder/lines' | uniq -c | sort -rn | md5sum"
    grep -c '+++ exited with 0 +++' "$folder/trace" | awk '{ print ($1 > 3) }'
    strace -f -c -o "$folder/count" sqlite3 :memory: 'create table t (a, b);
        with recursive n (x) as (select 1 union all select x + 1 from n where x < 60000)
        insert into t select x * 7919 % 10007, hex(x) from n; create index i on t (a, b);
        select count(*), sum(a), max(b) from t; select count(distinct b) from t where a % 3 = 1;'
    grep -c total "$folder/count"
    strace -f -o "$folder/trace" -e inject=madvise:error=ENOMEM:when=1+10 \
        -e trace=madvise,munmap,mmap,mremap sort --parallel=2 -S 8M -n "$folder/lines" | md5sum
}

drive "$@"
