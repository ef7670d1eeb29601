# The tests of glibc's malloc, built outside glibc's tree with its support library, of which only
# the headers and sources are taken that need nothing else of glibc.

# Tests of glibc's internals, and of behaviour that the interface of malloc does not promise.
glibc_insides() {
    case $1 in
        tst-alloc_buffer | tst-dynarray* | tst-scratch_buffer) echo 'no malloc: internal helpers' ;;
        tst-mallocstate) echo 'heaps that emacs dumped with glibc 2.25 and before' ;;
        tst-compathooks-*) echo 'hooks that only programs linked before glibc 2.24 can set' ;;
        tst-malloc-usable | tst-malloc-usable-tunables)
            echo 'MALLOC_CHECK_=3: usable sizes that are the sizes asked for'
            ;;
        tst-malloc-stats-cancellation) echo "the text of glibc's malloc_stats" ;;
        tst-mtrace) echo 'mtrace, which glibc does with hooks in its own malloc' ;;
        tst-safe-linking) echo "the masks of pointers in glibc's own lists" ;;
        tst-mxfast) echo "glibc's fast bins" ;;
        tst-interpose-static-*) echo 'statically linked: nothing can be preloaded' ;;
        tst-interpose-*) echo 'a malloc of its own, which hides the one that is preloaded' ;;
        tst-malloc-backtrace) echo "overwrites the headers of glibc's chunks" ;;
        *) return 1 ;;
    esac
}

suite_glibc() {
    local source build file name why
    source=$(echo "$place"/glibc-*/)
    source=${source%/}
    build=$place/built/glibc
    suite "malloc of glibc: $(basename "$source"), its malloc/tst-*.c"
    rm -rf "$build"
    mkdir -p "$build/include/malloc" "$build/malloc" "$build/objects"
    for name in libc-diag.h array_length.h libc-pointer-arith.h intprops.h libc-misc.h; do
        cp "$source/include/$name" "$build/include" 2> /dev/null
    done
    cp "$source"/sysdeps/generic/malloc-{size,alignment}.h "$build/include"
    ln -s "$source/support" "$build/include/support"
    cp "$source"/malloc/tst-*.[ch] "$source/malloc/mallocbug.c" "$build/malloc"
    cp "$source/malloc/tst-malloc-usable.c" "$build/include/malloc"
    # The test looks in errno for the result, which posix_memalign(3) only returns.
    sed -i 's/if (posix_memalign (\(.*\)))$/if ((errno = posix_memalign (\1)))/' \
        "$build/malloc/tst-malloc-thread-fail.c"
    cp "$source/test-skeleton.c" "$build"
    local flags=(-O1 -g -w -std=gnu11 -D_GNU_SOURCE -DTIMEOUTFACTOR=4 -include limits.h -fno-builtin
        -I"$build/include" -idirafter "$source/support")
    # Some sources of the support library do not build here; no test of malloc needs these.
    for file in "$source"/support/{check,support_,temp_file,x,delayed_exit,write_message}*.c \
        "$source"/support/{ignore_stderr,oom_error,set_fortify_handler}.c; do
        gcc "${flags[@]}" -c "$file" -o "$build/objects/$(basename "$file" .c).o" 2> /dev/null
    done
    printf '%s\n' '#include <pthread.h>' '#include <support/xthread.h>' \
        'const char support_objdir_root[] = "/tmp";' \
        'pthread_attr_t *support_small_stack_thread_attribute(void) {' \
        '    static pthread_attr_t it;' \
        '    xpthread_attr_init(&it);' \
        '    xpthread_attr_setstacksize(&it, 256 << 10);' \
        '    return &it;' '}' > "$build/small.c"
    gcc "${flags[@]}" -c "$build/small.c" -o "$build/objects/small.o" || return
    rm -f "$build/objects/tst-"*
    ar cr "$build/libsupport.a" "$build"/objects/*.o
    for file in "$build"/malloc/tst-*.c "$build/malloc/mallocbug.c"; do
        name=$(basename "$file" .c)
        # Parts of other tests.
        [[ $name != tst-interpose-aux* && $name != tst-interpose-skeleton ]] || continue
        if why=$(glibc_insides "$name"); then
            inapplicable "$name" "$why"
        elif ! gcc "${flags[@]}" "$file" "$build/libsupport.a" -o "$build/$name" -pthread -lm \
            > "$build/$name.log" 2>&1; then
            fail "$name" "does not build: $(grep -m1 -E 'error|undefined' "$build/$name.log")"
        else
            # Only the test's own driver, which --direct leaves out, expects an end by a signal.
            wanted=0
            ! grep -q 'EXPECTED_SIGNAL SIGABRT' "$file" || wanted=134
            on_quarry "$name" 300 "$build/$name" --direct
            wanted=0
        fi
    done
    counts
}
