#!/usr/bin/env bash
# Chromium without a window: a page that makes 4,000 elements, sorts, draws and prints itself. It
# brings an allocator of its own; what is preloaded must not be in its way. It refuses its sandbox
# to root, and only to root.
source "$(dirname "$0")/common.sh"

find_browser() {
    browser=/usr/lib/chromium/chromium
    [[ -x $browser ]] || browser=$(command -v chromium) || absent chromium
}

about() {
    find_browser
    printf 'version: %s\n' "$("$browser" --version 2> /dev/null | cut -d' ' -f1,2)"
    echo 'what: the DOM of a local page after its scripts (sorting, JSON, canvas), and the' \
        'page as PDF; without a sandbox where root runs it'
    echo 'malloc: own'
    echo 'rounds: 5'
}

prepare() { cp "$(dirname "$0")/page.html" "$folder"; }

browse() {
    local options=(--headless --disable-gpu --no-first-run --disable-dev-shm-usage
        --disable-extensions --disable-background-networking --disable-component-update
        --user-data-dir="$folder/profile")
    [[ $(id -u) != 0 ]] || options+=(--no-sandbox)
    "$browser" "${options[@]}" "$@" "file://$folder/page.html" 2> "$folder/errors" \
        || wrong "$(tail -n1 "$folder/errors")"
}

run() {
    find_browser
    rm -rf "$folder/profile" "$folder/page.pdf"
    browse --virtual-time-budget=10000 --dump-dom | grep -o '<p id="sum">[^<]*'
    browse --virtual-time-budget=10000 --no-pdf-header-footer --print-to-pdf="$folder/page.pdf"
    head -c5 "$folder/page.pdf"
    grep -ac '/Type */Page$' "$folder/page.pdf"
}

drive "$@"
