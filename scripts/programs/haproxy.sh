#!/usr/bin/env bash
# HAProxy: balanced over two servers, with TLS, compression, a map and a stick table.
source "$(dirname "$0")/common.sh"
source "$(dirname "$0")/http.inc"

about() {
    local version
    find_commands haproxy haproxy ab apache2-utils nginx nginx-light curl curl openssl openssl
    version=$(haproxy -v | sed -n '1s/HAProxy version \([^-+ ]*\).*/\1/p')
    echo "version: haproxy $version"
    echo 'what: files of a server behind it, over HTTP and TLS, compressed or not; a map, a stick' \
        'table; reload by SIGUSR2'
}

prepare() {
    make_files http://127.0.0.1:8080 "$(amount 1000 50)"
    make_certificate
    awk 'BEGIN { for (at = 0; at < 2000; at++) print "/" at ".txt " (at % 3 ? "odd" : "even") }' \
        > "$folder/map"
    cat > "$folder/conf" << END
global
    nbthread 2
    maxconn 400
defaults
    mode http
    timeout connect 5s
    timeout client 20s
    timeout server 20s
frontend front
    bind 127.0.0.1:8080
    bind 127.0.0.1:8443 ssl crt $folder/both.pem
    stick-table type string len 64 size 10k expire 10m store http_req_cnt,bytes_out_rate(10s)
    http-request track-sc0 path
    http-response set-header X-Count %[sc0_http_req_cnt]
    compression algo gzip
    compression type text/plain
    use_backend %[path,map_beg($folder/map,odd)]
backend odd
    server a 127.0.0.1:8088
    server b 127.0.0.1:8088
backend even
    http-request set-header X-Path %[path,sha1,hex]
    server a 127.0.0.1:8088
END
}

start() {
    start_origin
    haproxy -W -db -f "$folder/conf" 2> "$folder/log" &
    server=$!
    await "$server" curl -sf http://127.0.0.1:8080/0.txt
}

load() {
    fetch
    sed 's/http:/https:/; s/8080/8443/' "$folder/urls" | curl -sSk --compressed -K - | md5sum
    hammer "$(amount 15000 200)" http://127.0.0.1:8080/5.txt -k
    hammer "$(amount 3000 100)" http://127.0.0.1:8080/9.txt -H 'Accept-Encoding: gzip'
    hammer "$(amount 300 20)" https://127.0.0.1:8443/5.txt
}

reload() {
    kill -USR2 "$server"
    until (($(grep -c 'Loading success' "$folder/log") > 1)); do sleep 0.05; done
}

stop() {
    terminate haproxy 143
    kill -QUIT "$origin"
    wait "$origin"
}

drive "$@"
