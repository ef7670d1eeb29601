#!/usr/bin/env bash
# Builds the Debian packages into target/deb. `make deb` calls it; scripts/deb-test.sh installs,
# uses and removes them.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
folder=$(realpath -m "$target/deb")
rm -rf "$folder"
mkdir -p "$folder"
# make runs before debhelper, which gives each step an empty home: Rust lies in the real one.
[[ -n ${QUARRY_IS_BUILT:-} ]] || make --no-print-directory all
QUARRY_IS_BUILT=yes DEB_FOLDER=$folder debian/rules binary
debian/rules clean
ls -l "$folder"
