#!/usr/bin/env bash
# Squid: a forward proxy with a cache in memory.
source "$(dirname "$0")/common.sh"
source "$(dirname "$0")/http.inc"

about() {
    find_commands squid squid ab apache2-utils nginx nginx-light curl curl
    printf 'version: %s\n' "$(squid -v | sed -n '1s/.*Version \(.*\)/squid \1/p')"
    echo 'what: a forward proxy with 16 MiB of cache: 2,000 files missed and hit, a hot one;' \
        'reload by SIGHUP'
}

prepare() {
    make_files http://127.0.0.1:8088 "$(amount 2000 50)"
    cat > "$folder/conf" << END
http_port 127.0.0.1:3128
acl banned url_regex [0-9]99\.txt
http_access deny banned
http_access allow localhost
http_access deny all
cache_mem 16 MB
maximum_object_size_in_memory 64 KB
cache_log $folder/log
access_log none
pid_filename $folder/pid
coredump_dir $folder
pinger_enable off
netdb_filename none
shutdown_lifetime 0 seconds
visible_hostname localhost
logfile_rotate 0
END
    chmod 777 "$folder"
}

start() {
    start_origin
    rm -f "$folder/log"
    squid -N -f "$folder/conf" > "$folder/said" 2>&1 &
    server=$!
    await "$server" through -f http://127.0.0.1:8088/0.txt
}

# Squid answers forbidden requests with 403; curl then ends with status 22.
all() {
    { through -f -K "$folder/urls" 2> "$folder/refused" || (($? == 22)); } | md5sum
    grep -c 403 "$folder/refused" || true
}

through() { curl -sS -x http://127.0.0.1:3128 "$@"; }

load() {
    all
    hammer "$(amount 8000 200)" http://127.0.0.1:8088/5.txt -k -X 127.0.0.1:3128
    all
}

reload() {
    kill -HUP "$server"
    until grep -q 'Reconfiguring Squid' "$folder/log"; do sleep 0.05; done
    await "$server" through -f http://127.0.0.1:8088/0.txt
}

stop() {
    terminate squid
    kill -QUIT "$origin"
    wait "$origin"
}

drive "$@"
