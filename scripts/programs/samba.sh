#!/usr/bin/env bash
# Samba's smbd: a share, with a process for each client.
source "$(dirname "$0")/common.sh"

about() {
    find_commands smbd samba smbclient smbclient
    printf 'version: %s\n' "$(smbd -V | sed 's/Version \([^-]*\).*/smbd \1/')"
    echo 'what: files put, listed, renamed, fetched and removed by 4 clients over SMB3; reload by' \
        'SIGHUP'
}

prepare() {
    mkdir "$folder/files"
    awk -v count="$(amount 150 10)" -v folder="$folder" 'BEGIN {
        for (at = 0; at < count; at++) {
            file = folder "/files/f" at
            for (line = at * 37 % 3000; line >= 0; line--) print "line", line, "of", at > file
            close(file)
        }
    }'
    cat > "$folder/conf" << END
[global]
    server role = standalone server
    private dir = $folder/state
    lock directory = $folder/state
    state directory = $folder/state
    cache directory = $folder/state
    pid directory = $folder/state
    ncalrpc dir = $folder/state
    log file = $folder/log
    interfaces = lo
    bind interfaces only = yes
    smb ports = 4450
    map to guest = Bad User
    guest account = $(id -un)
    load printers = no
    disable spoolss = yes
    disable netbios = yes
    min protocol = SMB3
[stones]
    path = $folder/share
    guest ok = yes
    read only = no
END
}

client() {
    smbclient -s "$folder/conf" -p 4450 -N -U nobody%x //127.0.0.1/stones "$@" 2> "$folder/errors" \
        || wrong "$(tail -n1 "$folder/errors")"
}

start() {
    rm -rf "$folder/state" "$folder/share" "$folder"/got*
    mkdir "$folder/state" "$folder/share"
    # When smbd ends, it sends SIGTERM to its process group.
    setsid smbd -F --no-process-group -s "$folder/conf" < /dev/null > "$folder/said" 2>&1 &
    server=$!
    await "$server" smbclient -s "$folder/conf" -p 4450 -N -U nobody%x //127.0.0.1/stones -c ls
}

# One client: it leaves nothing behind.
use() {
    local got=$folder/got$1
    mkdir -p "$got"
    client -c "prompt off; recurse on; mkdir d$1; cd d$1; lcd $folder/files; mput *; ls f1*;
        mkdir sub; rename f1 sub\\one; allinfo f2; lcd $got; mget *; deltree sub; del f*; ls" \
        > "$folder/listed$1"
    client -c "rmdir d$1" > /dev/null
    find "$got" -type f | sort | xargs cat | md5sum
    rm -rf "$got"
}

load() {
    local at clients=()
    for at in 1 2 3 4; do
        use "$at" > "$folder/sum$at" &
        clients+=($!)
    done
    wait "${clients[@]}" || wrong 'a client has failed'
    cat "$folder"/sum?
    cat "$folder"/listed? | sed -n 's/^ *\(f[0-9]*\) .* \([0-9]*\) *... ... .*/\1/p' | md5sum
    ls "$folder/share"
}

reload() {
    kill -HUP "$server"
    sleep 0.3
}

stop() { terminate smbd 143; }

drive "$@"
