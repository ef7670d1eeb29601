#!/usr/bin/env bash
# Unbound: a resolver whose answers come from a zone file that it is given.
source "$(dirname "$0")/common.sh"
source "$(dirname "$0")/dns.inc"

about() {
    find_commands unbound unbound dnsperf dnsperf dig bind9-dnsutils
    printf 'version: %s\n' "$(unbound -V | sed -n '1s/Version /unbound /p')"
    echo 'what: names of a zone of 20,000, resolved and cached by two threads; reload by SIGHUP'
}

prepare() {
    make_names "$(amount 20000 400)"
    cat > "$folder/conf" << END
server:
    interface: 127.0.0.1
    port: 5300
    do-daemonize: no
    chroot: ""
    username: ""
    directory: "$folder"
    pidfile: "$folder/pid"
    use-syslog: no
    num-threads: 2
    module-config: "iterator"
    msg-cache-size: 8m
    rrset-cache-size: 16m
    local-zone: "test." nodefault
    do-not-query-localhost: no
auth-zone:
    name: "stone.test"
    zonefile: "$folder/zone"
    for-downstream: no
    for-upstream: yes
    fallback-enabled: no
END
}

start() {
    unbound -d -p -c "$folder/conf" > "$folder/log" 2>&1 &
    server=$!
    await "$server" answers
}

load() { ask_names "$(amount 4 1)"; }

reload() {
    kill -HUP "$server"
    sleep 0.5
    await "$server" answers
}

stop() { terminate unbound; }

drive "$@"
