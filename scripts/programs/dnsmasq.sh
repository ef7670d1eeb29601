#!/usr/bin/env bash
# dnsmasq: names from a file of hosts.
source "$(dirname "$0")/common.sh"
source "$(dirname "$0")/dns.inc"

about() {
    find_commands dnsmasq dnsmasq-base dnsperf dnsperf dig bind9-dnsutils
    printf 'version: %s\n' "$(dnsmasq -v | sed -n '1s/Dnsmasq version \([^ ]*\).*/dnsmasq \1/p')"
    echo 'what: 20,000 names of a file asked by 4 clients; SIGHUP reads the file anew'
}

prepare() {
    make_names "$(amount 20000 400)"
    cat > "$folder/conf" << END
port=5300
listen-address=127.0.0.1
bind-interfaces
no-resolv
no-hosts
addn-hosts=$folder/hosts
local=/stone.test/
cache-size=5000
dns-forward-max=1000
pid-file=$folder/pid
user=root
log-facility=$folder/log
END
}

start() {
    dnsmasq -k -C "$folder/conf" &
    server=$!
    await "$server" answers
}

load() { ask_names "$(amount 4 1)"; }

reload() {
    kill -HUP "$server"
    await "$server" answers
}

stop() { terminate dnsmasq; }

drive "$@"
