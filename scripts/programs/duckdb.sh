#!/usr/bin/env bash
# DuckDB from PyPI, in the Python of a virtual environment: tables and queries like those of TPC-H.
source "$(dirname "$0")/common.sh"

find_python() {
    local target=${CARGO_TARGET_DIR:-target}
    [[ $target == /* ]] || target=$(dirname "$0")/../../$target
    python=$target/programs/bin/python3
    "$python" -c 'import duckdb' 2> /dev/null || absent 'python3-venv, then pip install duckdb'
}

about() {
    find_python
    printf 'version: duckdb %s\n' "$("$python" -c 'import duckdb; print(duckdb.__version__)')"
    echo 'what: orders and lines generated, joined, grouped, sorted, aggregated as text; an' \
        'index; two threads'
}

prepare() { :; }

run() {
    find_python
    "$python" "$(dirname "$0")/orders.py" "$(amount 60000 2000)"
}

drive "$@"
