#!/usr/bin/env bash
# lighttpd: files, compression, rewriting.
source "$(dirname "$0")/common.sh"
source "$(dirname "$0")/http.inc"

about() {
    find_commands lighttpd lighttpd ab apache2-utils curl curl
    printf 'version: %s\n' "$(lighttpd -v | sed -n '1s|\([^/]*\)/\([^ ]*\).*|\1 \2|p')"
    echo 'what: 2,000 files, compressed or not, rewritten names, lists of folders; graceful' \
        'restart as the reload'
}

prepare() {
    make_files http://127.0.0.1:8080 "$(amount 2000 50)"
    mkdir "$folder/files/few"
    cp "$folder"/files/1*1.txt "$folder/files/few"
    touch -d @1700000000 "$folder"/files/few/*
    cat > "$folder/conf" << END
server.modules = ("mod_indexfile", "mod_dirlisting", "mod_staticfile", "mod_rewrite",
    "mod_deflate", "mod_setenv")
server.bind = "127.0.0.1"
server.port = 8080
server.document-root = "$folder/files"
server.errorlog = "$folder/log"
server.pid-file = "$folder/pid"
server.max-keep-alive-requests = 1000
server.feature-flags = ("server.graceful-shutdown-timeout" => 5)
mimetype.assign = (".txt" => "text/plain")
deflate.mimetypes = ("text/plain")
deflate.allowed-encodings = ("gzip")
dir-listing.activate = "enable"
url.rewrite-once = ("^/r([0-9]+)$" => "/\$1.txt")
END
}

start() {
    rm -f "$folder/log"
    lighttpd -D -f "$folder/conf" &
    server=$!
    await "$server" curl -sf http://127.0.0.1:8080/0.txt
}

load() {
    fetch
    fetch --compressed
    hammer "$(amount 20000 200)" http://127.0.0.1:8080/5.txt -k
    hammer "$(amount 1000 100)" http://127.0.0.1:8080/few/ -k -c 1
    hammer "$(amount 3000 100)" http://127.0.0.1:8080/r9 -H 'Accept-Encoding: gzip'
}

reload() {
    local began
    began=$(grep -c 'server started' "$folder/log" || true)
    kill -USR1 "$server"
    until (($(grep -c 'server started' "$folder/log" || true) > began)); do sleep 0.05; done
}

stop() { terminate lighttpd; }

drive "$@"
