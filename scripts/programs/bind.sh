#!/usr/bin/env bash
# BIND, which links jemalloc: a zone, and a resolver that asks another view of the same server.
source "$(dirname "$0")/common.sh"
source "$(dirname "$0")/dns.inc"

about() {
    find_commands named bind9 dnsperf dnsperf dig bind9-dnsutils
    printf 'version: %s\n' "$(named -v | sed 's/BIND \([^- ]*\).*/named \1/')"
    echo 'what: a zone of 20,000 names, asked through a cache by 4 clients; reload by SIGHUP'
}

prepare() {
    make_names "$(amount 20000 400)"
    cat > "$folder/conf" << END
options {
    directory "$folder"; pid-file "$folder/pid"; session-keyfile "$folder/session";
    port 5300; listen-on { 127.0.0.1; }; listen-on-v6 { none; };
    dnssec-validation no; managed-keys-directory "$folder"; max-cache-size 32m;
    empty-zones-enable no;
};
controls { };
view resolver {
    match-recursive-only yes;
    recursion yes;
    zone "stone.test" { type static-stub; server-addresses { 127.0.0.1; }; };
};
view authority {
    recursion no;
    zone "stone.test" { type primary; file "$folder/zone"; };
};
END
    chmod 777 "$folder"
}

start() {
    named -g -n 2 -c "$folder/conf" > "$folder/log" 2>&1 &
    server=$!
    await "$server" answers
}

load() { ask_names "$(amount 3 1)"; }

reload() {
    kill -HUP "$server"
    sleep 0.5
    await "$server" answers
}

stop() { terminate named; }

drive "$@"
