# Valkey defragments its memory by what jemalloc tells of its slabs. One server runs on its own
# jemalloc and with libquarry-full.so preloaded: of jemalloc's figures there it reads Quarry's.
# Its makefile would link jemalloc as an archive, in whose place nothing can be preloaded. Here the
# same jemalloc, with the same options, is a shared object, and the server's source is unchanged.

build_valkey() {
    # The makefile cleans the copy in `deps`.
    local source=$1 jemalloc=$1/jemalloc
    [[ ! -e $source/src/valkey-server ]] || return 0
    [[ -e $jemalloc ]] || cp -r "$source/deps/jemalloc" "$jemalloc"
    (cd "$jemalloc" \
        && ./configure --disable-cxx --with-version=5.3.0-0-g0 --with-lg-quantum=3 \
            --disable-cache-oblivious \
        && make -j"$(nproc)" build_lib_shared \
        && make -j"$(nproc)" -C "$source/src" valkey-server valkey-cli MALLOC=libc \
            OPTIMIZATION=-O2 CFLAGS="-DUSE_JEMALLOC -DJEMALLOC_NO_DEMANGLE -I$jemalloc/include" \
            LDFLAGS="-L$jemalloc/lib -Wl,--no-as-needed -ljemalloc -Wl,-rpath,$jemalloc/lib") \
        > "$place/valkey.log" 2>&1
}

# settle FIELD..: waits, for 2 minutes at most, until none of these fields of the server's INFO has
# changed for 2 seconds.
settle() {
    local pattern now before='' same=0 end=$((SECONDS + 120))
    pattern=$(IFS='|' && echo "$*")
    while ((same < 10 && SECONDS < end)); do
        now=$(cli info | grep -E "^($pattern):")
        [[ $now == "$before" ]] && same=$((same + 1)) || same=0
        before=$now
        sleep 0.2
    done
}

# valkey_defrag SOURCE PRELOAD DEFRAG: adds a million keys of five sizes, deletes all but one of
# five, and waits while the server moves what it will. Prints resident MiB before and after, the
# MiB in use, those free in slabs after, and how many objects it has moved and looked at; nothing if
# the server ends, or a key has changed.
valkey_defrag() {
    local source=$1 socket pid digest before after size hits
    socket=$(mktemp -u "$place/valkey.XXXXXX")
    cli() { "$source/src/valkey-cli" -s "$socket" "$@"; }
    info() { cli info | tr -d '\r' | sed -n "s/^$1://p"; }
    resident() { awk '/^VmRSS/ { print int($2 / 1024) }' "/proc/$pid/status"; }
    LD_PRELOAD=$2 "$source/src/valkey-server" --port 0 --unixsocket "$socket" --save '' \
        --appendonly no --enable-debug-command yes > "$place/valkey-server.log" 2>&1 &
    pid=$!
    until cli ping > /dev/null 2>&1; do
        kill -0 $pid 2> /dev/null || return 1
        sleep 0.1
    done
    for size in 30 90 150 300 700; do
        cli debug populate 200000 "k$size" "$size"
        seq 0 199999 | sed -n "/[05]$/!s/.*/DEL k$size:&/p" | cli
    done > /dev/null
    settle lazyfree_pending_objects allocator_resident
    digest=$(cli debug digest)
    before=$(resident)
    cli config set active-defrag-ignore-bytes 1mb active-defrag-threshold-lower 10 \
        active-defrag-cycle-min 25 activedefrag "$3" > /dev/null
    settle active_defrag_running active_defrag_hits active_defrag_misses allocator_resident
    after=$(resident)
    if [[ $digest == "$(cli debug digest)" ]]; then
        hits=$(info active_defrag_hits)
        printf '%d %d %d %d %d %d\n' "$before" "$after" \
            $(($(info used_memory) >> 20)) $(($(info allocator_frag_bytes) >> 20)) \
            "$hits" $((hits + $(info active_defrag_misses)))
    fi
    cli shutdown nosave > /dev/null 2>&1 || true
    wait $pid || true
}

suite_valkey() {
    local source defrag full on before after used free moved seen without
    source=$(realpath "$(ls -d "$place"/valkey-[0-9]*/)")
    full=$(dirname "$library")/libquarry-full.so
    suite "valkey: $(basename "$source"), its defragmentation"
    build_valkey "$source" || { fail valkey "does not build: see $place/valkey.log"; return; }
    printf '  | valkey on | activedefrag | resident before, MiB | after | in use | free in slabs'
    printf ' | moved | looked at |\n  |---|---|---|---|---|---|---|---|\n'
    for on in '' "$full"; do
        without=0
        for defrag in no yes; do
            before=0 after=0 used=0 free=0 moved=0 seen=0
            read -r before after used free moved seen < <(valkey_defrag "$source" "$on" $defrag)
            printf '  | %s | %s | %d | %d | %d | %d | %d | %d |\n' \
                "$(basename "${on:-jemalloc}" .so)" $defrag "$before" "$after" "$used" "$free" \
                "$moved" "$seen"
            if [[ -z $on ]]; then
                continue
            elif ((before == 0)); then
                fail "activedefrag $defrag" "see $place/valkey-server.log"
            elif [[ $defrag == no ]]; then
                without=$after
                pass
            elif ((moved == 0 || after > before / 2 || after > without / 2)); then
                fail "activedefrag yes" "$after of $before MiB stay resident, $without without it"
            else
                pass
            fi
        done
    done
    counts
}
