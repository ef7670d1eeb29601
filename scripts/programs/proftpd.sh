#!/usr/bin/env bash
# ProFTPD: a process for each client.
source "$(dirname "$0")/common.sh"

about() {
    find_commands proftpd proftpd-core python3 python3 openssl openssl
    printf 'version: %s\n' "$(proftpd -v | sed 's/.*Version \([^ ]*\).*/proftpd \1/')"
    echo 'what: files sent, listed, renamed, fetched and removed by 4 clients; reload by SIGHUP'
}

prepare() {
    printf 'ann:%s:%s:%s::%s:/bin/sh\n' "$(openssl passwd -6 -salt stone x)" "$(id -u)" \
        "$(id -g)" "$folder/files" > "$folder/users"
    chmod 600 "$folder/users"
    cat > "$folder/conf" << END
ServerName stones
ServerType standalone
DefaultAddress 127.0.0.1
Port 2121
UseIPv6 off
UseReverseDNS off
User $(id -un)
Group $(id -gn)
PidFile $folder/pid
ScoreboardFile $folder/score
DelayEngine off
ControlsEngine off
AuthOrder mod_auth_file.c
AuthUserFile $folder/users
RequireValidShell off
RootLogin on
MaxInstances 20
SystemLog $folder/log
TransferLog none
WtmpLog off
END
    sed -i '/ControlsEngine/d' "$folder/conf"
}

start() {
    rm -rf "$folder/files" "$folder/log"
    mkdir "$folder/files"
    proftpd -n -c "$folder/conf" > "$folder/said" 2>&1 &
    server=$!
    await "$server" bash -c 'exec 3<> /dev/tcp/127.0.0.1/2121; read -r -u 3 line'
}

load() { python3 "$(dirname "$0")/ftp.py" "$(amount 200 10)"; }

reload() {
    kill -HUP "$server"
    sleep 0.5
    await "$server" bash -c 'exec 3<> /dev/tcp/127.0.0.1/2121; read -r -u 3 line'
}

stop() { terminate proftpd 143; }

drive "$@"
