#!/usr/bin/env bash
# Fills the table of docs/services.md: memory of services in Python, Node and Ruby after bursts of
# requests, on glibc, jemalloc, mimalloc and Quarry. It takes half an hour, and SAMPLES=1 a third of
# that. Other work on the machine makes it longer, and changes the figures little.
#
#   scripts/services.sh           measures, and writes the table into docs/services.md
#   scripts/services.sh --test    one short burst on glibc and on Quarry: are the answers the same?
#
# Debian's packages gunicorn, nodejs, npm, puma and ruby-sinatra have what it starts, libjemalloc2
# and libmimalloc2.0 the allocators, unless `make peers` has built newer ones.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly SHARP=0.35.5 page=docs/services.md
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
library=$target/release/libquarry.so
[[ -e $library ]] || { echo "services: no libquarry.so: run 'make build' first" >&2; exit 1; }
place=$target/services
mkdir -p "$place"
if command -v npm > /dev/null && [[ ! -e $place/node_modules/sharp ]]; then
    npm install --prefix "$place" --no-save --no-audit --no-fund "sharp@$SHARP" \
        > "$place/npm.log" 2>&1 || echo "services: sharp cannot be installed: $place/npm.log" >&2
fi
measure() { python3 scripts/services/measure.py "$library" "$target/peers" \
    "$place/node_modules/sharp" "$@"; }

if [[ ${1:-} == --test ]]; then
    measure --test
    exit
fi
measure > "$place/table"
processor=$(awk -F ': ' '/^cpu family/ { family = $2 } /^model\t/ { model = $2 }
    /^model name/ { printf "%s, family %s, model %s", $2, family, model; exit }' /proc/cpuinfo)
{
    cat "$place/table"
    printf '\n`SAMPLES=%d scripts/services.sh`, %s, Node %s, %s: %s, %d CPUs, %s.\n' \
        "${SAMPLES:-3}" "$(/usr/bin/python3 --version)" "$(node --version)" \
        "$(ruby --version | cut -d' ' -f-2)" "$processor" "$(nproc)" "$(date -u +%F)"
} > "$place/filled"
sed -i -e "/^<!-- table -->/r $place/filled" -e '/^<!-- table -->/,/^<!-- end -->/{
    /^<!-- /!d }' "$page"
cat "$place/filled"
