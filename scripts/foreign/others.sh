# The suites of mimalloc and jemalloc, and stress-ng.

suite_mimalloc() {
    local source build=$place/built/mimalloc-stress
    source=$(echo "$place"/mimalloc-*/)
    suite "mimalloc: $(basename "$source"), test-stress on malloc, realloc and free"
    mkdir -p "$place/built"
    gcc -O2 -w -DUSE_STD_MALLOC -pthread "$source/test/test-stress.c" -o "$build" || {
        fail test-stress 'does not build'
        return
    }
    local arguments
    for arguments in '' '4 50 20' '1 100 10' '64 10 10'; do
        # shellcheck disable=SC2086
        on_quarry "test-stress $arguments" 300 "$build" $arguments
    done
    counts
}

# The rest tests arenas, caches of threads and hooks.
jemalloc_shared='aligned_alloc malloc overflow posix_memalign mallocx rallocx sdallocx xallocx'
jemalloc_shared+=' cpp/basic'

suite_jemalloc() {
    local source name
    source=$(echo "$place"/jemalloc-*/)
    suite "jemalloc: $(basename "$source"), tests of its integration suite"
    if [[ ! -e $source/test/integration/malloc ]]; then
        (cd "$source" && ./configure --disable-prof --disable-doc --with-version=5.3.0-0-g0 \
            && make -j"$(nproc)" build_lib_shared \
            && make -j"$(nproc)" tests_integration) > "$place/jemalloc.log" 2>&1
    fi
    for name in "$source"/test/integration/*.c "$source"/test/integration/cpp/*.cpp; do
        name=${name#"$source"/test/integration/}
        name=${name%.c*}
        if [[ " $jemalloc_shared " != *" $name "* ]]; then
            inapplicable "$name" "jemalloc's own interface or options"
        elif [[ ! -x $source/test/integration/$name ]]; then
            fail "$name" "does not build: see $place/jemalloc.log"
        else
            LD_LIBRARY_PATH=$source/lib on_quarry "$name" 300 "$source/test/integration/$name"
        fi
    done
    counts
}

# The parts of stress-ng that use malloc heavily and check what they have written.
suite_stress_ng() {
    local options
    suite "$(stress-ng --version | cut -d' ' -f1-3 | tr -d ,), with --verify, $seconds s each"
    for options in '--malloc 2' '--malloc 4 --malloc-pthreads 4 --malloc-touch' \
        '--malloc 2 --malloc-bytes 2g --malloc-max 4096' '--malloc 2 --malloc-thresh 4096' \
        '--mergesort 2' '--hsearch 2' '--tsearch 2' '--tree 2' '--list 2' '--heapsort 2' \
        '--radixsort 2' '--str 2' '--zlib 2' '--jpeg 2' '--judy 2' '--fork 4 --fork-max 4' \
        '--pthread 2' '--memthrash 2'; do
        # shellcheck disable=SC2086
        on_quarry "$options" $((seconds + 120)) stress-ng $options --verify --timeout "$seconds" \
            --temp-path "$place" --oomable
    done
    counts
}
