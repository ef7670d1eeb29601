#!/usr/bin/env bash
# Tor without a network: services and settings over its control port.
source "$(dirname "$0")/common.sh"

about() {
    find_commands tor tor python3 python3
    printf 'version: %s\n' "$(tor --version | sed -n '1s/Tor version \([^ ]*\)\.$/tor \1/p')"
    echo 'what: with DisableNetwork: onion services made from keys and removed, all settings' \
        'asked, set and saved over the control port; reload by SIGHUP'
}

prepare() {
    cat > "$folder/conf" << END
DataDirectory $folder/data
ControlPort 127.0.0.1:9151
SocksPort 0
DisableNetwork 1
GeoIPFile
GeoIPv6File
Log notice file $folder/log
END
}

start() {
    rm -rf "$folder/data" "$folder/log"
    tor -f "$folder/conf" --defaults-torrc /dev/null --ignore-missing-torrc > "$folder/said" 2>&1 &
    server=$!
    await "$server" grep -q 'Opened Control listener' "$folder/log"
}

load() { python3 "$(dirname "$0")/onions.py" "$(amount 1500 10)"; }

reload() {
    kill -HUP "$server"
    until grep -q 'Received reload signal' "$folder/log"; do sleep 0.05; done
}

stop() {
    kill -INT "$server"
    wait "$server" || wrong "tor ended with $?"
}

drive "$@"
