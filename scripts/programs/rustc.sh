#!/usr/bin/env bash
# Debian's rustc, which asks the C library for its memory (rustup's carries jemalloc inside), on the
# sources of regex-syntax as Debian has them.
source "$(dirname "$0")/common.sh"

find_compiler() {
    compiler=/usr/bin/rustc
    local file
    for file in /usr/share/cargo/registry/regex-syntax-*/src/lib.rs; do source=$file; done
    [[ -x $compiler && -f $source ]] || absent rustc librust-regex-syntax-dev
}

about() {
    find_compiler
    printf 'version: %s\n' "$("$compiler" --version | cut -d' ' -f1,2)"
    echo 'what: regex-syntax, a crate of 20,000 lines, compiled to assembler without optimisation'
    echo 'rounds: 4'
}

prepare() { :; }

run() {
    find_compiler
    local features=()
    mapfile -t features < <(awk '/^\[features\]/ { on = 1; next } /^\[/ { on = 0 }
        on && /^[a-z]/ { print "--cfg=feature=\"" $1 "\"" }' "$(dirname "$source")/../Cargo.toml")
    "$compiler" --edition=2018 --crate-type=lib --crate-name=regex_syntax --cap-lints=allow \
        "${features[@]}" -C opt-level=0 -C codegen-units=1 --emit=metadata,asm \
        --out-dir "$folder" "$source"
    grep -c call "$folder/regex_syntax.s"
    md5sum < "$folder/regex_syntax.s"
}

drive "$@"
