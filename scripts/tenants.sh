#!/usr/bin/env bash
# Queries of DataFusion as tenants (lab/tenants): spills, errors and charges; see docs/tenants.md.
# DataFusion is compiled for half an hour at first.
#
#   scripts/tenants.sh
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
cargo run --locked --release --manifest-path lab/tenants/Cargo.toml --target-dir "$target/tenants"
