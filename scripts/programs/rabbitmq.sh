#!/usr/bin/env bash
# RabbitMQ: queues over AMQP. Erlang's own allocators are switched off, as they take memory from the
# system, not from malloc.
source "$(dirname "$0")/common.sh"

find_server() {
    find_commands rabbitmq-server rabbitmq-server /usr/bin/python3 python3
    /usr/bin/python3 -c 'import pika' 2> /dev/null || absent python3-pika
    bin=$(echo /usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin)
}

about() {
    find_server
    printf 'version: rabbitmq %s\n' "$(sed 's/.*rabbitmq_server-\([^/]*\).*/\1/' <<< "$bin")"
    echo 'what: messages published, held in queues, delivered and acknowledged over AMQP, with' \
        '+Mea min; stop_app and start_app as the reload'
    echo 'rounds: 3'
}

prepare() { :; }

control() { "$bin/rabbitmqctl" -q -n quarry@localhost "$@" > "$folder/said" 2>&1; }

start() {
    find_server
    local place=$folder/rabbit
    rm -rf "$place"
    mkdir "$place"
    : > "$place/conf.conf"
    export HOME=$place RABBITMQ_NODENAME=quarry@localhost RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 \
        RABBITMQ_NODE_PORT=5672 RABBITMQ_MNESIA_BASE=$place/mnesia RABBITMQ_LOG_BASE=$place/log \
        RABBITMQ_CONFIG_FILE=$place/conf RABBITMQ_ENABLED_PLUGINS_FILE=$place/plugins \
        RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='+Mea min +S 2:2' RABBITMQ_PID_FILE=$place/pid \
        ERL_EPMD_ADDRESS=127.0.0.1 RABBITMQ_CTL_ERL_ARGS='+Mea min +S 1:1'
    "$bin/rabbitmq-server" > "$place/said" 2>&1 &
    server=$!
    await "$server" grep -q 'completed with' "$place/said"
}

load() { /usr/bin/python3 "$(dirname "$0")/amqp.py" "$(amount 12000 300)"; }

reload() {
    control stop_app || wrong "$(tail -n1 "$folder/said")"
    control start_app || wrong "$(tail -n1 "$folder/said")"
}

stop() {
    control stop || wrong "$(tail -n1 "$folder/said")"
    wait "$server" || wrong "rabbitmq-server ended with $?"
    epmd -kill > /dev/null 2>&1 || true
}

drive "$@"
