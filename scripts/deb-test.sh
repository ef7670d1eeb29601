#!/usr/bin/env bash
# Installs the packages of `make deb-lab` into a clean Debian, uses them as their readers would,
# removes them, and looks for what is left. Packs them once more as `make deb` does.
#
#   scripts/deb-test.sh
#
# Needs root, debootstrap and Debian's archive, because only a clean Debian shows what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

# `grep -q` would end at the first match, and the program that writes into the pipe would fail.
has() { grep "$@" > /dev/null; }
say() { printf '==> %s\n' "$*"; }
fail() { printf 'deb-test: %s\n' "$*" >&2; exit 1; }

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
debs=$target/deb
root=$target/deb-root
triple=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
ls "$debs"/quarry_*.deb > /dev/null 2>&1 || fail "no packages in $debs: run make deb-lab first"
[[ $(id -u) == 0 ]] || fail "a clean Debian needs root (debootstrap, chroot)"

# of PACKAGE: prints the name of its file.
of() { ls "$debs/$1"_*.deb; }

say "lintian"
lintian --fail-on error --tag-display-limit 0 "$debs"/*.deb

say "files and their sizes"
for package in libquarry0 libquarry-sqlite0 libquarry-dev quarry quarry-lab; do
    dpkg-deb --info "$(of "$package")" > /dev/null
done
for package in libquarry0 libquarry-sqlite0 quarry quarry-lab; do
    dpkg-deb --contents "$(of "$package-dbgsym")" | has '\.debug$' \
        || fail "$package-dbgsym has no symbols"
done

say "a program in C, by pkg-config"
unpacked=$target/deb-unpacked
rm -rf "$unpacked"
for package in libquarry0 libquarry-sqlite0 libquarry-dev libquarry0-dbgsym; do
    dpkg-deb --extract "$(of "$package")" "$unpacked"
done
cat > "$unpacked/version.c" << 'END'
#include <quarry.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    free(malloc(100));
    puts(quarry_version());
    return quarry_validate();
}
END
export PKG_CONFIG_SYSROOT_DIR=$unpacked
export PKG_CONFIG_LIBDIR=$unpacked/usr/lib/$triple/pkgconfig
read -ra flags <<< "$(pkg-config --cflags --libs quarry)"
cc -o "$unpacked/version" "$unpacked/version.c" "${flags[@]}"
readelf --dynamic "$unpacked/version" | has 'NEEDED.*\[libquarry-full\.so\.0\]' \
    || fail "the program does not ask for libquarry-full.so.0"
printed=$(LD_LIBRARY_PATH=$unpacked/usr/lib/$triple "$unpacked/version")
[[ $printed == "$(pkg-config --modversion quarry)" ]] || fail "quarry_version() is '$printed'"
id=$(readelf --notes "$unpacked/usr/lib/$triple/libquarry.so.0" \
    | sed -n 's/.*Build ID: //p')
symbols=$unpacked/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug
nm --defined-only "$symbols" | has alloc_on_process || fail "$symbols names no inner function"

say "a clean Debian"
if mountpoint -q "$root/proc" 2> /dev/null; then umount "$root/proc"; fi
rm -rf "$root"
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' | head -n 1)}
# The archive's index files and packages stay, so that a second run fetches nothing.
cache=$target/deb-cache
mkdir -p "$cache"
debootstrap --variant=minbase --cache-dir="$cache" "$release" "$root" "$mirror" \
    > "$target/deb-root.log" 2>&1 \
    || { tail -n 20 "$target/deb-root.log"; fail "debootstrap cannot make a Debian here"; }

inside() { DEBIAN_FRONTEND=noninteractive LC_ALL=C chroot "$root" "$@"; }
mount -t proc proc "$root/proc"
trap 'umount "$root/proc"' EXIT
printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
# These are installed before the list of files is made, so they do not count as left over.
inside apt-get -qq -o Dpkg::Use-Pty=0 install -y --no-install-recommends redis-server man-db \
    > "$target/deb-root.log" 2>&1 || { tail "$target/deb-root.log"; fail "no redis-server"; }

# Lists all files below the root, except those that apt itself writes with each call.
files() {
    (cd "$root" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./tmp -o -path ./srv \
        -o -path ./root -o -path ./var/lib/dpkg -o -path ./var/lib/apt -o -path ./var/cache \
        -o -path ./var/log -o -path ./run \) -prune -o -print | LC_ALL=C sort)
}
files > "$target/deb-before"

say "the workflow of docs/compare.md"
scripts/ci-recipe.sh "$root" "$debs" > "$target/deb-recipe.log" 2>&1 \
    || { tail -n 30 "$target/deb-recipe.log"; fail "docs/compare.md: the workflow fails"; }

say "apt install ./quarry_*.deb"
mkdir "$root/srv/debs"
cp "$(of libquarry0)" "$(of libquarry-sqlite0)" "$(of libquarry-dev)" "$(of quarry)" \
    "$root/srv/debs"
inside sh -c 'cd /srv/debs && apt-get -qq -o Dpkg::Use-Pty=0 install -y ./*.deb' \
    > "$target/deb-root.log" 2>&1 || { cat "$target/deb-root.log"; fail "apt refuses"; }

say "quarry run -- redis-server"
inside sh -c '
    quarry run -- redis-server --port 0 --unixsocket /srv/redis.sock --save "" --daemonize no \
        > /srv/redis.log 2>&1 &
    server=$!
    tries=0
    until redis-cli -s /srv/redis.sock ping 2> /dev/null | grep -q PONG; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || exit 1
        sleep 0.1
    done
    redis-cli -s /srv/redis.sock set answer 42 > /dev/null
    redis-cli -s /srv/redis.sock get answer > /srv/answer
    cp /proc/$server/maps /srv/maps
    redis-cli -s /srv/redis.sock shutdown nosave
    wait $server
' || { cat "$root/srv/redis.log"; fail "redis-server does not run on Quarry"; }
[[ $(< "$root/srv/answer") == 42 ]] || fail "redis does not know the answer"
grep -q "/usr/lib/$triple/libquarry\.so\.0$" "$root/srv/maps" \
    || fail "redis did not load the library of the package"
! grep -q 'quarry:' "$root/srv/redis.log" || fail "$(< "$root/srv/redis.log")"

say "an upgrade and a downgrade under redis"
scripts/upgrade-test.sh "$root" "$debs" > "$target/deb-root.log" 2>&1 \
    || { tail "$target/deb-root.log"; fail "a service does not survive an upgrade"; }
tail -n 1 "$target/deb-root.log"

say "apt install ./quarry-lab_*.deb: a prediction, by the program of the package"
! inside quarry lab predict 001 > /dev/null 2>&1 || fail "quarry has the lab inside"
cp "$(of quarry-lab)" "$root/srv/debs"
inside sh -c 'cd /srv/debs && apt-get -qq -o Dpkg::Use-Pty=0 install -y ./quarry-lab_*.deb' \
    > "$target/deb-root.log" 2>&1 || { cat "$target/deb-root.log"; fail "apt refuses"; }
inside quarry lab predict 001 | has 'vanilla, filled by another node' \
    || fail "quarry lab predict does not find its program"

say "other policies, man pages, completions"
inside quarry run --slab slub -- /bin/sh -c 'cat /proc/self/maps' \
    | has "/usr/lib/$triple/quarry/libquarry-slub-4\.9\.so$" \
    || fail "quarry run --slab slub does not find its library"
inside sh -c 'MANPAGER=cat man quarry-run' 2> "$target/deb-man" | has 'quarry run' \
    || fail "no manual page: $(< "$target/deb-man")"
inside bash -c '. /usr/share/bash-completion/completions/quarry && complete -p quarry' > /dev/null
zsh -n "$root/usr/share/zsh/vendor-completions/_quarry"
# Fish completes only commands that exist.
XDG_DATA_DIRS=$root/usr/share PATH=$root/usr/bin:$PATH fish --no-config --command \
    "source $root/usr/share/fish/vendor_completions.d/quarry.fish
     complete --do-complete 'quarry ru'" \
    | has '^run' || fail "fish completes nothing"

say "apt purge"
inside apt-get -qq -o Dpkg::Use-Pty=0 purge -y quarry-lab quarry libquarry-dev \
    libquarry-sqlite0 libquarry0 \
    > "$target/deb-root.log" 2>&1 || { cat "$target/deb-root.log"; fail "apt does not purge"; }
files > "$target/deb-after"
diff "$target/deb-before" "$target/deb-after" || fail "the packages leave files, or take others'"

say "autopkgtest: debian/tests"
tests=$target/deb-tests
rm -rf "$tests"
mkdir -p "$tests/source"
cp -a debian "$tests/source"
autopkgtest --no-built-binaries --output-dir "$tests/results" "$(of libquarry0)" \
    "$(of libquarry-sqlite0)" "$(of libquarry-dev)" "$(of quarry)" "$tests/source/" \
    -- chroot "$root" > "$target/deb-root.log" 2>&1 \
    || { tail -n 30 "$target/deb-root.log"; fail "a test of debian/tests fails"; }
cat "$tests/results/summary"

umount "$root/proc"
trap - EXIT

say "docs/deploy/Dockerfile"
scripts/image.sh "$root" "$debs" > "$target/deb-root.log" 2>&1 \
    || { tail "$target/deb-root.log"; fail "the image cannot be built or used"; }
tail -n 1 "$target/deb-root.log"
rm -rf "$root" "$unpacked" "$tests"

say "the packages without the lab, whatever an earlier make has left"
packed=$target/deb-names
ls "$debs" | grep -v '^quarry-lab' > "$packed"
mv "$debs" "$debs-lab"
trap 'rm -rf "$debs" && mv "$debs-lab" "$debs"' EXIT
QUARRY_IS_BUILT=yes scripts/deb.sh > "$target/deb-root.log" 2>&1 \
    || { tail "$target/deb-root.log"; fail "make deb needs the lab"; }
ls "$debs" | diff "$packed" - || fail "make deb packs these"
say "the packages install, serve and leave nothing"
