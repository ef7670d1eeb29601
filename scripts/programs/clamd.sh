#!/usr/bin/env bash
# ClamAV's clamd with signatures of its own.
source "$(dirname "$0")/common.sh"

about() {
    find_commands clamd clamav-daemon clamdscan clamdscan gzip gzip tar tar
    printf 'version: %s\n' "$(clamd --version | sed 's/ClamAV \([^/]*\).*/clamd \1/')"
    echo 'what: 20,000 signatures compiled, files and archives scanned by two threads; reload of' \
        'all signatures'
}

prepare() {
    mkdir "$folder/base" "$folder/files"
    awk -v count="$(amount 20000 500)" -v folder="$folder" 'BEGIN {
        body = folder "/base/stones.ndb"; logic = folder "/base/stones.ldb"
        for (at = 0; at < count; at++) {
            hex = sprintf("%08x%08x", at * 7919 % 4294967296, at * 104729 % 4294967296)
            if (at % 3 == 0) mark = hex "73746f6e65{4-60}" hex "6d61726b"
            else mark = hex "??73746f6e65" hex
            printf "Stone.%d:0:*:%s\n", at, mark > body
            if (at % 20 == 0)
                printf "Pair.%d;Engine:51-255,Target:0;0&1;%s;%s\n", at, hex "70616972",
                    "72696170" hex > logic
        }
    }'
    awk -v count="$(amount 120 10)" -v folder="$folder" 'BEGIN {
        for (at = 0; at < count; at++) {
            file = folder "/files/f" at
            for (line = at * 53 % 2000; line >= 0; line--)
                print "line " line " of " at ", a bag of cloth" > file
            if (at % 7 == 0) {
                hex = sprintf("%08x%08x", at * 3 * 7919, at * 3 * 104729)
                text = ""
                for (digit = 1; digit < 16; digit += 2)
                    text = text sprintf("\\%03o", index("123456789abcdef", substr(hex, digit, 1)) \
                        * 16 + index("123456789abcdef", substr(hex, digit + 1, 1)))
                command = "printf '\''" text "stone12345678" text "mark'\'' >> " file
                close(file)
                system(command)
            }
            close(file)
        }
    }'
    (
        cd "$folder/files"
        for at in 1 2 3 4; do tar -cf - f*"$at" | gzip -n > "archive$at.tar.gz"; done
    )
    cat > "$folder/conf" << END
LocalSocket $folder/socket
DatabaseDirectory $folder/base
Foreground yes
LogFile $folder/log
MaxThreads 2
TemporaryDirectory $folder
ConcurrentDatabaseReload yes
User $(id -un)
END
}

control() { clamdscan -c "$folder/conf" "$@"; }

start() {
    rm -f "$folder/log" "$folder/socket"
    clamd -c "$folder/conf" > "$folder/said" 2>&1 &
    server=$!
    await "$server" control --ping 1
}

load() {
    for _ in 1 2; do
        # It ends with 1 where something was found.
        control --multiscan --no-summary "$folder/files" > "$folder/found" || (($? == 1)) \
            || wrong "$(tail -n1 "$folder/found")"
        sed 's|.*/||' "$folder/found" | sort | md5sum
        grep -c FOUND "$folder/found"
    done
}

reload() {
    control --reload
    until (($(grep -c 'Database correctly reloaded' "$folder/log" || true) > 0)); do sleep 0.1; done
}

stop() { terminate clamd; }

drive "$@"
