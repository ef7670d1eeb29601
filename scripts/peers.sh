#!/usr/bin/env bash
# Builds the newest versions of other allocators as shared objects, for `quarry compare` and the
# lab: TARGET/peers/lib<name>.so, with its version in lib<name>.version beside it.
#
#   scripts/peers.sh [NAME..]  builds what is missing, or these
#   scripts/peers.sh --test    only shows that programs run on each, and that it serves them
#
# Sources come through cargo; versions and checksums are pinned in scripts/peers/Cargo.toml and
# Cargo.lock. Each is built as its own build system builds its release for preloading.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly target=${CARGO_TARGET_DIR:-target}
readonly manifest=scripts/peers/Cargo.toml
names=(jemalloc-new mimalloc2 mimalloc3 mimalloc-secure rpmalloc snmalloc hardened-malloc
    google-tcmalloc)

say() { printf '==> %s\n' "$*"; }
fail() { printf 'peers: %s\n' "$*" >&2; exit 1; }

mkdir -p "$target/peers"
peers=$(cd "$target/peers" && pwd)
sources=$peers/sources
readonly peers sources

# fetch: fetches the pinned packages, and checks them against their checksums.
fetch() {
    say "sources of the peers"
    cargo vendor --locked --quiet --manifest-path "$manifest" "$sources" > /dev/null
}

# pinned PACKAGE: prints its pinned version.
pinned() {
    grep -A1 "^name = \"$1\"$" "${manifest%toml}lock" | sed -n 's/^version = "\(.*\)"$/\1/p'
}

# source_of_mimalloc MAJOR: prints the folder of a major version's sources.
source_of_mimalloc() { echo "$sources/libmimalloc-sys2/c_src/mimalloc${1#2}"; }

# version_of NAME: prints the peer's own version, and the package that it came in.
version_of() {
    local own package
    case $1 in
        jemalloc-new)
            package=tikv-jemalloc-sys
            own=$(pinned $package) own=${own#*+} own=${own%%-*}
            ;;
        mimalloc*)
            local major=${1#mimalloc}
            package=libmimalloc-sys2
            own=$(sed -n 's/^#define MI_MALLOC_VERSION \([0-9]*\).*/\1/p' \
                "$(source_of_mimalloc "${major/-secure/3}")/include/mimalloc.h")
            own=$((own / 10000)).$((own / 100 % 100)).$((own % 100))
            ;;
        rpmalloc)
            package=rpmalloc-sys
            own=$(pinned $package) own="commit ${own#*+}"
            ;;
        snmalloc)
            package=snmalloc-sys
            own=$(pinned $package)
            ;;
        google-tcmalloc)
            # It has no versions; the package says on which day it took the sources.
            package=libtcmalloc-sys
            own=$(sed -n "s/^## \[$(pinned $package)\].* - //p" "$sources/$package/CHANGELOG.md")
            own="of ${own//-/.}"
            ;;
        hardened-malloc)
            package=hardened-malloc-sys
            own="malloc of GrapheneOS $(pinned $package)"
            ;;
    esac
    local name=${1%%[-0-9]*}
    echo "${name/google/google/tcmalloc} $own, package $package $(pinned "$package")"
}

build_jemalloc() {
    local from=$sources/tikv-jemalloc-sys to=$peers/build/jemalloc own
    own=$(pinned tikv-jemalloc-sys)
    rm -rf "$to"
    mkdir -p "$to"
    cp -R "$from/jemalloc/." "$from/configure/." "$to"
    (
        cd "$to"
        sh ./configure --with-version="${own#*+}" --enable-doc=no --enable-static=no > log 2>&1 \
            && make -j"$(nproc)" build_lib_shared >> log 2>&1
    ) || fail "jemalloc does not build; see $to/log"
    cp "$to/lib/libjemalloc.so.2" "$1"
}

# $1 shared object, $2 major version, then options of the compiler
build_mimalloc() {
    local from
    from=$(source_of_mimalloc "$2")
    cc -std=gnu11 -O3 -DNDEBUG -fPIC -shared -fvisibility=hidden -ftls-model=initial-exec \
        -fno-builtin-malloc -DMI_SHARED_LIB -DMI_SHARED_LIB_EXPORT -DMI_MALLOC_OVERRIDE \
        -DMI_BUILD_RELEASE "${@:3}" -I"$from/include" "$from/src/static.c" -o "$1" -lpthread -lrt
}

# In its default configuration (`config/default.mk`).
build_hardened_malloc() {
    local from=$sources/hardened-malloc-sys to=$peers/build/hardened-malloc options=() line file
    while IFS= read -r line; do
        [[ -z $line || $line == "#"* ]] || options+=("-D$line")
    done < "$from/config-default.conf"
    from=$from/vendor/hardened-malloc
    rm -rf "$to"
    mkdir -p "$to"
    for file in chacha h_malloc memory pages random util; do
        # GCC 12 lacks two words of C23: alignas and nullptr.
        cc -std=gnu2x -include stdalign.h -Dnullptr=NULL -O3 -w -D_GNU_SOURCE -fPIC \
            -fvisibility=hidden -ftls-model=initial-exec "${options[@]}" -I"$from" \
            -I"$from/include" -c "$from/$file.c" -o "$to/$file.o"
    done
    c++ -std=c++17 -O3 -w -D_GNU_SOURCE -fPIC -fvisibility=hidden "${options[@]}" -I"$from" \
        -I"$from/include" -c "$from/new.cc" -o "$to/new.o"
    c++ -shared -o "$1" "$to"/*.o -lpthread
}

build_rpmalloc() {
    local from=$sources/rpmalloc-sys/rpmalloc/rpmalloc
    cc -std=gnu11 -O3 -w -DNDEBUG -fPIC -shared -fvisibility=hidden -ftls-model=initial-exec \
        -fno-builtin-malloc -D_GNU_SOURCE=1 -DENABLE_PRELOAD=1 -DENABLE_OVERRIDE=1 \
        "$from/rpmalloc.c" -o "$1" -lpthread -ldl
}

build_snmalloc() {
    local from=$sources/snmalloc-sys/upstream/src
    c++ -std=c++20 -O3 -DNDEBUG -fPIC -shared -mcx16 -mprfchw -fno-rtti -fvisibility=hidden \
        -ftls-model=initial-exec -fomit-frame-pointer -ffunction-sections -static-libstdc++ \
        -DSNMALLOC_USE_THREAD_CLEANUP -DSNMALLOC_USE_WAIT_ON_ADDRESS=1 \
        -DSNMALLOC_NO_REALLOCARRAY -DSNMALLOC_NO_REALLOCARR -DSNMALLOC_HAS_LINUX_FUTEX_H \
        -DSNMALLOC_HAS_LINUX_RANDOM_H -DSNMALLOC_PLATFORM_HAS_GETENTROPY \
        -DSNMALLOC_PTHREAD_ATFORK_WORKS -DSNMALLOC_CHECK_LOADS=false -DSNMALLOC_PAGEID=false \
        -DSNMALLOC_EXPORT='__attribute__((visibility("default")))' -I"$from" \
        "$from/snmalloc/override/malloc.cc" "$from/snmalloc/override/new.cc" \
        -o "$1" -latomic -lpthread
}

# google/tcmalloc: the files that its package compiles, without the bridge to Rust, and with the
# functions of the C library that it replaces. Bazel, its own build system, is in no registry.
build_google_tcmalloc() {
    local from=$sources/libtcmalloc-sys to=$peers/build/google-tcmalloc
    local -x TO=$to FROM=$from/c_src
    rm -rf "$to"
    mkdir -p "$to"
    {
        sed -n 's#^ *"c_src/\(.*\.\(cc\|S\)\)",$#\1#p' "$from/build.rs" | grep -v malloc_bridge
        echo tcmalloc/tcmalloc/tcmalloc.cc
    } > "$to/files"
    # shellcheck disable=SC2016  # The inner shell expands these.
    xargs -P "$(nproc)" -I{} sh -c 'c++ -std=c++17 -O2 -w -DNDEBUG -DNOMINMAX -fPIC \
        -DTCMALLOC_INTERNAL_8K_PAGES -I"$FROM/abseil-cpp" \
        -I"$FROM/tcmalloc" -c "$FROM/$1" -o "$TO/$(echo "$1" | tr / _).o"' sh {} < "$to/files"
    c++ -shared -o "$1" "$to"/*.o -lpthread
}

build() {
    local name=$1 into=$2
    case $name in
        jemalloc-new) build_jemalloc "$into" ;;
        mimalloc-secure) build_mimalloc "$into" 3 -DMI_SECURE=4 ;;
        mimalloc*) build_mimalloc "$into" "${name#mimalloc}" ;;
        hardened-malloc) build_hardened_malloc "$into" ;;
        google-tcmalloc) build_google_tcmalloc "$into" ;;
        *) "build_$name" "$into" ;;
    esac
}

# run_on FILE CMD..: runs CMD with FILE preloaded; true if the loader binds malloc to FILE.
run_on() {
    local file=$1 bound
    shift
    LD_PRELOAD=$file "$@" > /dev/null
    # The loader's own log names the object to which malloc was bound.
    bound=$(LD_PRELOAD=$file LD_DEBUG=bindings LD_BIND_NOW=1 "$@" 2>&1 > /dev/null)
    grep -q " to $file .*symbol \`malloc'" <<< "$bound"
}

try() {
    local name=$1 file=$peers/lib$1.so
    run_on "$file" ls -l / || fail "$name: ls does not run on it"
    if command -v python3 > /dev/null; then
        run_on "$file" env PYTHONMALLOC=malloc python3 -c '
import threading
work = lambda: [bytes(n) for n in range(1, 20000, 7)]
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]' || fail "$name: python3 does not run on it"
    fi
}

case ${1-} in
    -*) [[ $* == --test ]] || fail "usage: scripts/peers.sh [--test | NAME..]" ;;
    *)
        for name in "$@"; do
            [[ " ${names[*]} " == *" $name "* ]] || fail "$name: accepted: ${names[*]}"
        done
        (($# == 0)) || names=("$@")
        fetch
        for name in "${names[@]}"; do
            file=$peers/lib$name
            version=$(version_of "$name")
            if [[ -f $file.so && $(cat "$file.version" 2> /dev/null) == "$version" ]]; then
                continue
            fi
            say "building $name: $version"
            build "$name" "$file.new"
            mv "$file.new" "$file.so"
            echo "$version" > "$file.version"
        done
        ;;
esac
for name in "${names[@]}"; do
    try "$name"
    say "$name ($(cat "$peers/lib$name.version")): ls and python3 run on it"
done
