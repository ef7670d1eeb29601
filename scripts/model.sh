#!/usr/bin/env bash
# Model checks: shuttle decides every interleaving of the small cases, thousands of times each.
#
#   scripts/model.sh [NAME..]      all models, or those whose name contains NAME
#
# QUARRY_MODEL_RUNS sets the runs per scenario and scheduler; SHUTTLE_RANDOM_SEED repeats a run.
set -euo pipefail
cd "$(dirname "$0")/.."

export RUSTFLAGS="${RUSTFLAGS:-} --cfg quarry_model"
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")/model
export CARGO_TARGET_DIR
# Most of the time is the checker's, so it is optimised. If each case runs only once, most of the
# time is the compiler's.
level=2
unoptimised=()
if [[ ${QUARRY_MODEL_RUNS:-} == 1 ]]; then
    level=1
    unoptimised=(--config "profile.dev.package.quarry-eras.opt-level=0"
        --config "profile.dev.package.quarry-cache.opt-level=0")
fi
export CARGO_PROFILE_DEV_OPT_LEVEL=$level
export SHUTTLE_SILENCE_WARNINGS=1 RUST_BACKTRACE=0

cd scripts/model
cargo test "${unoptimised[@]}" -p quarry-sys -p quarry-mm -p quarry-eras --test model -- "$@"
# Models of private items lie in the crates themselves.
cargo test "${unoptimised[@]}" -p quarry-mm -p quarry-cache -p quarry-eras --lib -- "${@:-model}"
