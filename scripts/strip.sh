#!/usr/bin/env bash
# Moves the symbols and line numbers of built files into files of their own beside them.
#
#   scripts/strip.sh FILE..
#
# FILE keeps its code and the name of FILE.debug, where gdb, valgrind and the backtraces of Rust
# look for the rest. Each `cargo build` puts its own, unstripped file in the same place again; the
# stripped file takes over the time of that one, so that a build which embeds it starts anew only
# after a change. Nothing happens to a file that is stripped already.
set -euo pipefail

stripped() { [[ -e $1.debug && $(readelf --sections --wide "$1") == *.gnu_debuglink* ]]; }

for file; do
    stripped "$file" && continue
    folder=$(mktemp -d "$file.XXXXXX")
    trap 'rm -rf "$folder"' EXIT
    new=$folder/${file##*/}
    "${CROSS_COMPILE:-}objcopy" --only-keep-debug "$file" "$new.debug"
    "${CROSS_COMPILE:-}objcopy" --strip-all --add-gnu-debuglink="$new.debug" "$file" "$new"
    chmod 644 "$new.debug"
    touch -r "$file" "$new"
    mv "$new.debug" "$new" "$(dirname "$file")"
    rm -r "$folder"
done
