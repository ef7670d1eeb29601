#!/usr/bin/env bash
# Qt from Python (PySide6 from PyPI), drawing into memory: tables, trees, texts, pictures, threads.
source "$(dirname "$0")/common.sh"
source "$(dirname "$0")/python.inc"

about() {
    find_python PySide6.QtWidgets 'libegl1 libgl1, and pip install PySide6-Essentials'
    printf 'version: PySide6 %s\n' "$("$python" -c 'import PySide6; print(PySide6.__version__)')"
    echo 'what: a table sorted and filtered, a tree, a text of 500 paragraphs, a scene, all' \
        'drawn into memory; a pool of two threads'
}

prepare() { :; }

run() {
    find_python PySide6.QtWidgets ''
    QT_QPA_PLATFORM=offscreen QT_LOGGING_RULES='*=false' PYTHONMALLOC=malloc \
        "$python" "$(dirname "$0")/widgets.py" "$(amount 3000 200)"
}

drive "$@"
