#!/usr/bin/env bash
# DuckDB from PyPI, in the Python of a virtual environment: tables and queries like those of TPC-H.
source "$(dirname "$0")/common.sh"
source "$(dirname "$0")/python.inc"

about() {
    find_python duckdb 'pip install duckdb'
    printf 'version: duckdb %s\n' "$("$python" -c 'import duckdb; print(duckdb.__version__)')"
    echo 'what: orders and lines generated, joined, grouped, sorted, aggregated as text; an' \
        'index; two threads'
}

prepare() { :; }

run() {
    find_python duckdb 'pip install duckdb'
    "$python" "$(dirname "$0")/orders.py" "$(amount 60000 2000)"
}

drive "$@"
