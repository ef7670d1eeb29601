#!/usr/bin/env bash
# DuckDB from PyPI: the tables and queries of the small driver on three times as many rows.
source "$(dirname "$0")/../programs/common.sh"
source "$(dirname "$0")/../programs/python.inc"

about() {
    find_python duckdb 'pip install duckdb'
    printf 'version: duckdb %s\n' "$("$python" -c 'import duckdb; print(duckdb.__version__)')"
    echo 'what: orders and lines generated, joined, grouped, sorted, aggregated; two threads'
}

prepare() { :; }

run() {
    find_python duckdb 'pip install duckdb'
    "$python" "$(dirname "$0")/../programs/orders.py" "$(amount 200000 2000)"
}

drive "$@"
