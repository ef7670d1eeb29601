#!/usr/bin/env bash
# Real programs on Quarry: redis-server under redis-benchmark and sqlite3 on a script, each beside
# the allocators that Debian would give them. Prints a table and what Quarry saw of redis.
#
#   scripts/demo.sh [PATH-OF-QUARRY]
set -euo pipefail
cd "$(dirname "$0")/.."

quarry=${1:-${CARGO_TARGET_DIR:-target}/tools/quarry}
rounds=${DEMO_ROUNDS:-3}
requests=${DEMO_REQUESTS:-200000}
allocators=(jemalloc glibc quarry)

say() { printf '==> %s\n' "$*"; }
fail() { printf 'demo: %s\n' "$*" >&2; exit 1; }
[[ -x $quarry ]] || fail "$quarry is not there: run 'make build' first"

scratch=$(mktemp -d)
server=
clean_up() {
    [[ -z $server ]] || kill "$server" 2> /dev/null || true
    rm -rf "$scratch"
}
trap clean_up EXIT

library() {
    PATH="$PATH:/usr/sbin:/sbin" ldconfig -p | awk -v name="$1" '$1 == name && !n++ {print $NF}'
}
libc=$(library libc.so.6)
jemalloc=$(library libjemalloc.so.2)

# on ALLOCATOR CMD..: runs CMD on it, in place of this shell.
on() {
    local allocator=$1
    shift
    case $allocator in
        quarry)
            rm -f "$scratch/stats" # --stats appends
            exec "$quarry" run --stats="$scratch/stats" -- "$@"
            ;;
        glibc) LD_PRELOAD=$libc exec "$@" ;;
        jemalloc) LD_PRELOAD=$jemalloc exec "$@" ;;
    esac
}

redis() { redis-cli -s "$scratch/socket" "$@"; }

# The process that listens: `quarry run` becomes the program, so it is the one we started.
start_redis() {
    (on "$1" redis-server --port 0 --unixsocket "$scratch/socket" --save '' --appendonly no \
        --dir "$scratch" --daemonize no > "$scratch/redis.log" 2>&1) &
    server=$!
    local tries
    for tries in {1..200}; do
        [[ $(redis ping 2> /dev/null) != PONG ]] || return 0
        kill -0 "$server" 2> /dev/null || break
        sleep 0.05
    done
    cat "$scratch/redis.log" >&2
    fail "redis-server did not start on $1 ($tries tries)"
}

stop_redis() {
    redis shutdown nosave > /dev/null 2>&1 || true
    wait "$server" || fail "redis-server ended with status $? on $1"
    server=
}

# A line "allocator test requests-per-second" per test, and one with the peak of resident memory.
redis_round() {
    local allocator=$1
    start_redis "$allocator"
    if [[ $allocator == quarry ]] && ! grep -q libquarry "/proc/$server/maps"; then
        fail "libquarry.so is not mapped into redis-server"
    fi
    redis-benchmark -s "$scratch/socket" -n "$requests" -P 16 -d 512 -r 100000 \
        -t set,get,lpush,hset --csv 2> /dev/null \
        | awk -F'"' -v who="$allocator" 'NR > 1 {print who, $2, $4}' >> "$scratch/results"
    awk -v who="$allocator" '/^VmHWM/ {print who, "MiB", $2 / 1024}' "/proc/$server/status" \
        >> "$scratch/results"
    stop_redis "$allocator"
}

sqlite_script() {
    cat << 'SQL'
create table stone(id integer primary key, name text, weight real, place text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 200000)
insert into stone select i, 'stone ' || (i * 7919 % 200003), i % 977 / 3.0, 'place ' || (i % 89)
from n;
create index by_name on stone(name);
create index by_place on stone(place, weight);
select place, count(*), round(avg(weight), 3), group_concat(substr(name, 7, 2))
from stone group by place order by 2 desc, 1 limit 20;
update stone set name = name || ' of ' || place where id % 3 = 0;
delete from stone where id % 5 = 0;
select count(*), sum(length(name)) from stone;
pragma integrity_check;
SQL
}

sqlite_round() {
    local allocator=$1 start end
    start=$(date +%s%N)
    (on "$allocator" sqlite3 :memory: < "$scratch/script.sql" > "$scratch/sqlite.$allocator")
    end=$(date +%s%N)
    grep -qx ok "$scratch/sqlite.$allocator" || fail "sqlite3: integrity_check failed on $allocator"
    cmp -s "$scratch/sqlite.$allocator" "$scratch/sqlite.${allocators[0]}" \
        || fail "sqlite3 printed something else on $allocator"
    echo "$allocator sqlite-ms $(((end - start) / 1000000))" >> "$scratch/results"
}

# median ALLOCATOR TEST
median() {
    awk -v who="$1" -v test="$2" '$1 == who && $2 == test {print $3}' "$scratch/results" \
        | sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'
}

say "redis-server and sqlite3 on ${allocators[*]}: $rounds interleaved rounds"
sqlite_script > "$scratch/script.sql"
for ((round = 1; round <= rounds; round++)); do
    for allocator in "${allocators[@]}"; do
        say "round $round of $rounds: redis-server on $allocator"
        redis_round "$allocator"
        if [[ $allocator == quarry ]]; then
            mv "$scratch/stats" "$scratch/stats.redis"
        fi
    done
    for allocator in "${allocators[@]}"; do
        say "round $round of $rounds: sqlite3 on $allocator"
        sqlite_round "$allocator"
    done
done

printf '\nWhat Quarry saw of the last redis-server (--stats; the ten busiest caches):\n\n'
{
    sed -n '1,/^# name/p' "$scratch/stats.redis"
    awk '/^malloc-/ {match($0, /operations +[0-9]+/)
        print substr($0, RSTART + 10, RLENGTH - 10) "\t" $0}' "$scratch/stats.redis" \
        | sort -nr | awk 'NR <= 10' | cut -f 2-
    sed -n '/^$/,$p' "$scratch/stats.redis"
} | sed 's/^/    /'

printf '\nMedians of %d rounds; redis in 1,000 requests per second, values of 512 bytes:\n\n' \
    "$rounds"
printf '%-10s %8s %8s %8s %8s %14s %12s\n' \
    allocator SET GET LPUSH HSET 'redis peak MiB' 'sqlite3 ms'
for allocator in "${allocators[@]}"; do
    printf '%-10s' "$allocator"
    for test in SET GET LPUSH HSET; do
        printf ' %8.0f' "$(median "$allocator" "$test" | awk '{print $1 / 1000}')"
    done
    printf ' %14.1f %12d\n' "$(median "$allocator" MiB)" "$(median "$allocator" sqlite-ms)"
done
cat << 'END'

libquarry.so was checked to be mapped into redis-server; sqlite3 printed the same on all three and
its integrity_check said ok. A few rounds show that it works, not who is faster.
END
