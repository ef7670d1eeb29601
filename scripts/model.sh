#!/usr/bin/env bash
# Model checks: shuttle decides every interleaving of the small cases, thousands of times each.
#
#   scripts/model.sh [NAME..]      all models, or those whose name contains NAME
#
# QUARRY_MODEL_RUNS sets the runs per scenario and scheduler; SHUTTLE_RANDOM_SEED repeats a run.
set -euo pipefail
cd "$(dirname "$0")/.."

export RUSTFLAGS="${RUSTFLAGS:-} --cfg quarry_model"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/model"
# Most of the time is the checker's, so it is optimised, unless each case runs only once.
export CARGO_PROFILE_DEV_OPT_LEVEL=$((${QUARRY_MODEL_RUNS:-2} == 1 ? 1 : 2))
export SHUTTLE_SILENCE_WARNINGS=1 RUST_BACKTRACE=0

cargo test -p quarry-sys -p quarry-mm -p quarry-eras --test 'model*' -- "$@"
# Models of private items lie in the crates themselves.
cargo test -p quarry-mm -p quarry-cache -p quarry-eras --lib -- "${@:-model}"
