#!/usr/bin/env bash
# Fills docs/programs.md, or runs some of its programs and prints their table without recording it.
#
#   scripts/programs.sh              all of them, on a machine that is left alone
#   scripts/programs.sh NAME..       these: see scripts/programs and `quarry lab run real-programs`
#   SAMPLES=1 scripts/programs.sh    all, with one sample of each: do they work, not how fast
set -euo pipefail
cd "$(dirname "$0")/.."

quarry=${CARGO_TARGET_DIR:-target}/tools/quarry
if (($# == 0)) && [[ -z ${SAMPLES:-} ]]; then
    exec scripts/results.sh programs
fi
options=(--samples "${SAMPLES:-6}")
(($# == 0)) || options+=(--only "$(IFS=,; echo "$*")")
"$quarry" lab run programs "${options[@]}"
echo "not recorded: docs/programs.md holds all programs with all samples"
