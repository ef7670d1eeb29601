#!/usr/bin/env bash
# Postfix: messages in by SMTP, out by SMTP. Only root can run it.
source "$(dirname "$0")/common.sh"

about() {
    find_commands postfix postfix smtp-source postfix smtp-sink postfix
    [[ $(id -u) == 0 ]] || absent 'as root: postfix has several users'
    printf 'version: postfix %s\n' "$(postconf -dh mail_version)"
    echo 'what: messages of 1 to 60 KiB over 4 connections in, through the queue, and out to' \
        'another server; postfix reload'
}

prepare() {
    mkdir "$folder/etc" "$folder/data"
    # No process runs in a chroot, where the loader would not find the preloaded library.
    cat > "$folder/etc/master.cf" << 'END'
2525      inet  n - n - - smtpd
pickup    unix  n - n 60 1 pickup
cleanup   unix  n - n - 0 cleanup
qmgr      unix  n - n 300 1 qmgr
tlsmgr    unix  - - n 1000? 1 tlsmgr
rewrite   unix  - - n - - trivial-rewrite
bounce    unix  - - n - 0 bounce
defer     unix  - - n - 0 bounce
trace     unix  - - n - 0 bounce
verify    unix  - - n - 1 verify
flush     unix  n - n 1000? 0 flush
proxymap  unix  - - n - - proxymap
smtp      unix  - - n - - smtp
showq     unix  n - n - - showq
error     unix  - - n - - error
retry     unix  - - n - - error
anvil     unix  - - n - 1 anvil
scache    unix  - - n - 1 scache
postlog   unix-dgram n - n - 1 postlogd
END
    cat > "$folder/etc/main.cf" << END
compatibility_level = 3.6
queue_directory = $folder/queue
data_directory = $folder/data
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
myhostname = stone.test
mydestination =
relay_domains = sink.test
relay_transport = smtp:[127.0.0.1]:2526
smtpd_relay_restrictions = permit_mynetworks, reject
header_checks = regexp:$folder/etc/headers
alias_maps =
local_recipient_maps =
smtpd_peername_lookup = no
smtp_dns_support_level = disabled
smtp_tls_security_level = none
maillog_file = $folder/log
maillog_file_prefixes = $folder
import_environment = MAIL_CONFIG TZ LANG=C POSTLOG_SERVICE POSTLOG_HOSTNAME
    LD_PRELOAD QUARRYLAB_WITNESS
export_environment = TZ LANG=C LD_PRELOAD QUARRYLAB_WITNESS
END
    echo '/^Subject: (.*)stone(.*)$/ REPLACE Subject: ${1}pebble${2}' > "$folder/etc/headers"
    chown postfix "$folder/data"
    chmod 755 "$folder"
}

control() { postfix -c "$folder/etc" "$@"; }

start() {
    rm -rf "$folder/queue" "$folder/log"
    mkdir "$folder/queue"
    smtp-sink -u "$(id -un)" 127.0.0.1:2526 100 > /dev/null &
    sink=$!
    postfix -c "$folder/etc" start-fg > "$folder/said" 2>&1 &
    server=$!
    await "$server" bash -c 'exec 3<> /dev/tcp/127.0.0.1/2525; read -r -u 3 line'
    sent=0
}

delivered() { grep -c 'status=sent' "$folder/log" || true; }

load() {
    local bytes count
    count=$(amount 300 20)
    for bytes in 1000 8000 60000; do
        smtp-source -s 4 -m "$count" -l "$bytes" -S 'a stone' -f from@stone.test -t to@sink.test \
            127.0.0.1:2525
        sent=$((sent + count))
    done
    until (($(delivered) >= sent)); do sleep 0.05; done
    delivered
    postqueue -c "$folder/etc" -p
}

reload() { control reload > "$folder/said" 2>&1; sleep 0.5; }

stop() {
    control stop > "$folder/said" 2>&1
    wait "$server" || (($? == 143)) || wrong "postfix ended with $?"
    kill "$sink"
    wait "$sink" || true
}

drive "$@"
