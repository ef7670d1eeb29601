#!/usr/bin/env bash
# redis with 2 GiB of keys: strings, lists and hashes under traffic, a third of the keys replaced.
source "$(dirname "$0")/../programs/common.sh"

about() {
    find_commands redis-server redis redis-benchmark redis-tools
    printf 'version: redis %s\n' "$(redis-server --version | sed 's/.*v=\([0-9.]*\).*/\1/')"
    echo 'what: 2,700,000 keys with values of 300 bytes; 2,700,000 requests by pipelines of 32;' \
        'keys deleted'
}

prepare() { :; }

run() {
    alone run "$folder" "$size"
    redis-server --port 7781 --bind 127.0.0.1 --save '' --enable-debug-command local \
        --dir "$folder" > "$folder/log" &
    server=$!
    await $server redis-cli -p 7781 ping
    local keys
    keys=$(amount 2700000 40000)
    redis-cli -p 7781 debug populate "$keys" key 300
    redis-benchmark -p 7781 -n "$((keys / 4))" -r "$keys" -P 32 -d 500 -q \
        -t set,get,lpush,hset > /dev/null
    redis-cli -p 7781 eval 'for at = 0, ARGV[1] - 1, 3 do redis.call("del", "key:" .. at) end
        return 1' 0 "$keys"
    redis-cli -p 7781 exists key:1 key:3
    redis-cli -p 7781 shutdown nosave
    wait $server || wrong "redis ended with $?"
}

drive "$@"
