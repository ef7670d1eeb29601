#!/usr/bin/env bash
# RocksDB by its own benchmark: random writes of two threads with compactions, reads, scans.
source "$(dirname "$0")/common.sh"

about() {
    command -v db_bench > /dev/null || absent rocksdb-tools
    printf 'version: rocksdb %s\n' "$(dpkg-query -W -f '${Version}' rocksdb-tools | sed 's/-.*//')"
    echo 'what: db_bench: random writes, deletes, compaction, random reads, scans; two threads;' \
        'checksums of all blocks'
}

prepare() { mkdir "$folder/rocks"; }

bench() {
    db_bench --db="$folder/rocks/db" --seed=7 --num="$(amount 150000 5000)" --value_size=200 \
        --compression_type=lz4 --write_buffer_size=4194304 --cache_size=8388608 \
        --max_background_jobs=2 --verify_checksum=1 --disable_wal=0 "$@" \
        > "$folder/log" 2> "$folder/errors" || wrong "$(tail -n1 "$folder/errors")"
}

run() {
    rm -rf "$folder/rocks/db"
    bench --threads=1 --benchmarks=fillrandom,compact
    bench --threads=2 --reads="$(amount 100000 2000)" --use_existing_db=1 \
        --benchmarks=readrandom,seekrandom,overwrite
    bench --threads=1 --use_existing_db=1 --benchmarks=deleteseq,compact,verifychecksum
    # A new database, with keys that follow each other.
    bench --threads=1 --benchmarks=fillseq,compact,readseq
    bench --threads=1 --use_existing_db=1 --benchmarks=verifychecksum
    ldb --db="$folder/rocks/db" scan --hex --no_value | md5sum
    ldb --db="$folder/rocks/db" checkconsistency
}

drive "$@"
