#!/usr/bin/env bash
# Varnish, which links jemalloc: a cache of files in memory, filled, hit, banned.
source "$(dirname "$0")/common.sh"
source "$(dirname "$0")/http.inc"

about() {
    local version
    find_commands varnishd varnish ab apache2-utils nginx nginx-light curl curl cc gcc
    version=$(varnishd -V 2>&1 | sed -n '1s/.*varnish-\([^ ]*\).*/\1/p')
    echo "version: varnishd $version"
    echo 'what: a cache of 32 MiB in front of 3,000 files: misses, hits, bans; reload by vcl.use'
}

prepare() {
    make_files http://127.0.0.1:6081 "$(amount 3000 50)"
    cat > "$folder/vcl" << 'END'
vcl 4.1;
backend origin { .host = "127.0.0.1"; .port = "8088"; }
sub vcl_recv {
    set req.http.X-Way = regsub(req.url, "^/([0-9])[0-9]*\.txt$", "\1");
    unset req.http.Cookie;
}
sub vcl_backend_response { set beresp.ttl = 10m; set beresp.do_gzip = true; }
sub vcl_deliver { unset resp.http.Via; }
END
}

control() { varnishadm -n "$folder/work" "$@" > "$folder/said" || wrong "$(cat "$folder/said")"; }

start() {
    start_origin
    rm -rf "$folder/work"
    varnishd -F -j none -n "$folder/work" -a 127.0.0.1:6081 -T 127.0.0.1:6082 -f "$folder/vcl" \
        -s default,32m -p thread_pools=1 -p thread_pool_min=20 > "$folder/log" 2>&1 &
    server=$!
    await "$server" curl -sf http://127.0.0.1:6081/0.txt
    turn=0
}

load() {
    fetch
    hammer "$(amount 20000 200)" http://127.0.0.1:6081/5.txt -k
    fetch --compressed
    control ban req.url '~' '[02468].txt'
    fetch
}

reload() {
    turn=$((turn + 1))
    control vcl.load "turn$turn" "$folder/vcl"
    control vcl.use "turn$turn"
}

stop() {
    terminate varnishd
    kill -QUIT "$origin"
    wait "$origin"
}

drive "$@"
