#!/usr/bin/env bash
# The example lab/one-heap: RocksDB, SQLite and zstd inside a program in Rust, on one heap. RocksDB
# comes from Debian's librocksdb.a, because compiling it takes half an hour.
#
#   scripts/one-heap.sh
#
# Exit status 77: something is missing, which a line names. `scripts/setup.sh one-heap` installs it.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() { printf 'skipped: one-heap: %s\n' "$*"; exit 77; }

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
[[ -e /usr/include/rocksdb/c.h ]] || skip "librocksdb-dev is not installed"
archive=$(compgen -G '/usr/lib/*/librocksdb.a') || skip "there is no librocksdb.a"
clang=$(compgen -G '/usr/lib/llvm-*/lib/libclang*.so*' | grep -v cpp | tail -n1) \
    || skip "libclang1, which reads RocksDB's header, is not installed"
[[ -x $target/tools/quarry ]] || make --no-print-directory command
export TEST_QUARRY=$target/tools/quarry
export LIBCLANG_PATH=${clang%/*} ROCKSDB_INCLUDE_DIR=/usr/include ROCKSDB_STATIC=yes
export ROCKSDB_LIB_DIR=${archive%/*}
# libclang1 comes without the compiler's own headers (stdarg.h).
export BINDGEN_EXTRA_CLANG_ARGS="-I$(gcc -print-file-name=include)"
export RUSTFLAGS="${RUSTFLAGS:-} -lstdc++ -lsnappy -llz4 -lzstd -lbz2 -lz"
cd lab/one-heap
cargo test --locked --target-dir "$target/one-heap"
