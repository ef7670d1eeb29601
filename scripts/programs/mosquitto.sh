#!/usr/bin/env bash
# Mosquitto: messages to subscribers, to sleeping ones, and retained.
source "$(dirname "$0")/common.sh"

about() {
    local version
    find_commands mosquitto mosquitto mosquitto_pub mosquitto-clients
    version=$({ mosquitto -h || true; } | sed -n '1s/mosquitto version //p')
    echo "version: mosquitto $version"
    echo 'what: messages of QoS 0 to 2 to four subscribers, a queue for one that sleeps, retained' \
        'ones; reload by SIGHUP'
}

prepare() {
    awk -v count="$(amount 20000 400)" 'BEGIN {
        for (at = 0; at < count; at++) {
            text = "message " at " "
            for (word = at % 30; word > 0; word--) text = text "stone" word " "
            print text
        }
    }' > "$folder/messages"
    cat > "$folder/conf" << END
listener 1883 127.0.0.1
allow_anonymous true
persistence false
max_queued_messages 100000
max_inflight_messages 100
user root
END
}

publish() { mosquitto_pub -h 127.0.0.1 "$@"; }
subscribe() { mosquitto_sub -h 127.0.0.1 -W 60 "$@"; }

start() {
    mosquitto -c "$folder/conf" 2> "$folder/log" &
    server=$!
    await "$server" publish -t hello -m x
}

load() {
    local count subscribers=() at
    count=$(wc -l < "$folder/messages")
    # This client leaves a session behind, for which messages are queued.
    subscribe -c -i sleeper -q 1 -t 'work/#' -E
    for at in 1 2 3 4; do
        subscribe -t 'work/#' -t "own/$at" -q 1 -C "$count" > "$folder/got$at" &
        subscribers+=($!)
    done
    sleep 0.5
    publish -q 1 -t work/1 -l < "$folder/messages"
    wait "${subscribers[@]}" || wrong 'a subscriber has waited in vain'
    for at in 1 2 3 4; do md5sum < "$folder/got$at"; done
    subscribe -c -i sleeper -q 1 -t 'work/#' -C "$count" | md5sum
    for ((at = 0; at < 60; at++)); do
        publish -r -q 2 -t "kept/$at" -m "$(sed -n "$((at * 3 + 1))p" "$folder/messages")"
    done
    subscribe -t 'kept/#' -C 60 | sort | md5sum
    subscribe -i sleeper -t none -E
}

reload() {
    kill -HUP "$server"
    sleep 0.3
}

stop() { terminate mosquitto; }

drive "$@"
