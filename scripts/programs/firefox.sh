#!/usr/bin/env bash
# Firefox without a window: a page that makes 4,000 elements, sorts, draws and shows itself. It
# brings an allocator of its own; what is preloaded must not be in its way.
source "$(dirname "$0")/common.sh"

about() {
    command -v firefox-esr > /dev/null || absent firefox-esr
    printf 'version: %s\n' "$(firefox-esr --version 2> /dev/null | sed 's/Mozilla //; s/esr//')"
    echo 'what: a picture of a local page after its scripts (sorting, JSON, canvas), on a new' \
        'profile'
    echo 'malloc: own'
    echo 'rounds: 3'
}

prepare() {
    cp "$(dirname "$0")/page.html" "$folder"
    # Its requests to the network go to a port on which no process listens.
    cat > "$folder/user.js" << 'END'
user_pref("network.proxy.type", 1);
user_pref("network.proxy.http", "127.0.0.1");
user_pref("network.proxy.http_port", 9);
user_pref("network.proxy.ssl", "127.0.0.1");
user_pref("network.proxy.ssl_port", 9);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("app.update.enabled", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("toolkit.telemetry.enabled", false);
user_pref("extensions.update.enabled", false);
END
}

run() {
    local -x HOME=$folder MOZ_HEADLESS_WIDTH=800 MOZ_HEADLESS_HEIGHT=600
    rm -rf "$folder/profile" "$folder/page.png"
    mkdir "$folder/profile"
    cp "$folder/user.js" "$folder/profile"
    timeout 120 firefox-esr --headless --no-remote --profile "$folder/profile" \
        --window-size=800,600 --screenshot "$folder/page.png" "file://$folder/page.html" \
        > "$folder/errors" 2>&1 || wrong "$(tail -n1 "$folder/errors")"
    md5sum < "$folder/page.png"
}

drive "$@"
