#!/usr/bin/env bash
# node, the parts whose memory lies outside V8's heap: buffers, zlib, crypto, worker threads, JSON.
source "$(dirname "$0")/common.sh"

about() {
    command -v node > /dev/null || absent nodejs
    printf 'version: node %s\n' "$(node --version | tr -d v)"
    echo 'what: JSON, buffers, zlib, hashes, regular expressions, streams, two worker threads'
}

prepare() { :; }

run() { node "$(dirname "$0")/node.js" "$(amount 60 6)"; }

drive "$@"
