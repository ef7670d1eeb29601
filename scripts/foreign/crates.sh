# The test suites of crates that Rust programs use: each runs on the system's allocator and then
# with Quarry preloaded, and each of its tests has to end in the same way. QUARRY_CRATES names some.

# A crate, its version, and what its tests need.
crates_of_others='
hashbrown 0.17.1
bytes 1.12.2
crossbeam-queue 0.3.14
crossbeam-channel 0.5.17
serde_json 1.0.154
indexmap 2.14.2
quick_cache 0.7.0
papaya 0.2.5
moka 0.12.16 --features=sync,future
rayon 1.12.0
tokio 1.54.1 --features=full,test-util
redb 4.6.0
arrow-buffer 59.3.2
'

# fetch_crates: unpacks all of them into $place/crates/vendor, once.
fetch_crates() {
    local folder=$place/crates name version options
    [[ ! -e $folder/vendor ]] || return 0
    mkdir -p "$folder/src"
    touch "$folder/src/lib.rs"
    {
        printf '[package]\nname = "foreign"\nedition = "2024"\n[workspace]\n[dependencies]\n'
        while read -r name version options; do
            [[ -z $name ]] || printf '%s = "=%s"\n' "$name" "$version"
        done <<< "$crates_of_others"
    } > "$folder/Cargo.toml"
    (cd "$folder" && cargo vendor --versioned-dirs vendor) > "$place/crates.log" 2>&1 \
        || { echo "crates: cannot be fetched: see $place/crates.log"; return 1; }
}

# tests_of_crate COMMAND..: runs cargo test in a crate's folder, on the toolchain of this project.
tests_of_crate() {
    # Without doctests, which are compiled one by one, and tests that compile programs (`ui`).
    RUSTUP_TOOLCHAIN=$toolchain "$@" --no-fail-fast --lib --tests ${options:+"$options"} \
        -- --exact --skip ui
}

# outcomes RUNNER: prints a line for each test of this folder's crate, and how the suite ended.
outcomes() {
    local -x "$1"
    tests_of_crate timeout -k 5 1200 cargo test > "$output.tests" 2> "$output"
    local status=$?
    grep -aoE '^test .* \.\.\. (ok|FAILED|ignored)' "$output.tests" | sort
    # 0: all passed; 101: some failed.
    [[ $status == 0 || $status == 101 ]] || echo "the suite ends with status $status"
}

suite_crates() {
    local name version options runner toolchain
    fetch_crates || { unexpected=1; return; }
    suite 'crates: their test suites, beside the same on the system'\''s allocator'
    local -x CARGO_TARGET_DIR=$place/crates/target
    toolchain=$(rustup show active-toolchain 2> /dev/null | cut -d' ' -f1)
    runner=CARGO_TARGET_$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')_RUNNER
    while read -r name version options; do
        [[ -n $name && " ${QUARRY_CRATES:-$name} " == *" $name "* ]] || continue
        local folder=$place/crates/$name-$version system quarry before=$failed same
        [[ -e $folder ]] || cp -r "$place/crates/vendor/$name-$version" "$folder"
        if ! grep -q '^\[workspace\]' "$folder/Cargo.toml"; then
            echo '[workspace]' >> "$folder/Cargo.toml"
            # tokio's tests use crates that depend on tokio: on this copy, with these features.
            if [[ $name == tokio ]]; then
                printf '[patch.crates-io]\ntokio = { path = "." }\n' >> "$folder/Cargo.toml"
                rm -f "$folder/Cargo.lock"
            fi
        fi
        if ! (cd "$folder" && tests_of_crate cargo test --no-run) > "$output" 2>&1; then
            fail "$name" "does not build: $(grep -m1 '^error' "$output")"
            continue
        fi
        system=$(cd "$folder" && outcomes "$runner=env")
        quarry=$(cd "$folder" && outcomes "$runner=env LD_PRELOAD=$library")
        while read -r line; do
            [[ -z $line ]] || fail "$name" "only $line"
        done < <(diff <(echo "$system") <(echo "$quarry") | sed -n \
            's/^< /on the system: /p; s/^> /on Quarry: /p')
        same=$(comm -12 <(echo "$system") <(echo "$quarry"))
        passed=$((passed + $(grep -c . <<< "$same")))
        printf '  %s %s: %d tests end alike, %d of them fail; %d do not\n' "$name" "$version" \
            "$(grep -c . <<< "$same")" "$(grep -c 'FAILED$\|^the suite' <<< "$same")" \
            $((failed - before))
    done <<< "$crates_of_others"
    rm -f "$output.tests"
    counts
}
