#!/usr/bin/env bash
# RocksDB by its own benchmark, with a gigabyte of memtables and cached blocks.
source "$(dirname "$0")/../programs/common.sh"

about() {
    command -v db_bench > /dev/null || absent rocksdb-tools
    printf 'version: rocksdb %s\n' \
        "$(dpkg-query -W -f '${Version}' rocksdb-tools | sed 's/-.*//')"
    echo 'what: db_bench: random writes, random reads, overwrites; two threads; a cache of a' \
        'gigabyte and memtables of 128 MiB'
}

prepare() { mkdir "$folder/rocks"; }

run() {
    rm -rf "$folder/rocks/db"
    # The write-ahead log would make the disk decide.
    db_bench --db="$folder/rocks/db" --seed=7 --num="$(amount 700000 20000)" --value_size=1000 \
        --compression_type=none --write_buffer_size=134217728 --cache_size=1073741824 \
        --max_background_jobs=2 --disable_wal=1 --threads=2 --reads="$(amount 200000 2000)" \
        --writes="$(amount 200000 5000)" --benchmarks=fillrandom,readrandom,overwrite,readrandom \
        > "$folder/log" 2> "$folder/errors" || wrong "$(tail -n1 "$folder/errors")"
    grep -c '^readrandom' "$folder/log"
}

drive "$@"
