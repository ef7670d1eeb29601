#!/usr/bin/env bash
# Upgrades the packages of a Debian below a root, and downgrades them again, while redis runs on
# them under load: it goes on without an error, and what starts afterwards has the other library.
# scripts/deb-test.sh calls it.
#
#   scripts/upgrade-test.sh ROOT DEBS
#
# The packages in DEBS are installed in ROOT, which has redis-server and a mounted proc.
set -euo pipefail

root=$1
debs=$2
fail() { printf 'upgrade-test: %s\n' "$*" >&2; exit 1; }
work=$root/srv/upgrade
rm -rf "$work"
mkdir -p "$work"/{older,newer}
for package in libquarry0 libquarry-sqlite0 libquarry-dev quarry; do
    deb=$(ls "$debs/$package"_*.deb)
    version=$(dpkg-deb --field "$deb" Version)
    cp "$deb" "$work/older"
    # The same files with a higher version.
    dpkg-deb --raw-extract "$deb" "$work/unpacked"
    sed -i -e "s/^Version: .*/&+1/" -e "s/(= $version)/(= $version+1)/g" \
        "$work/unpacked/DEBIAN/control"
    dpkg-deb --root-owner-group --build "$work/unpacked" "$work/newer" > /dev/null
    rm -r "$work/unpacked"
done

cat > "$work/inside" << 'END'
set -eu
cd /srv/upgrade
redis() { redis-cli -s /srv/upgrade/socket "$@"; }
library() {
    LD_PRELOAD=libquarry.so.0 cat /proc/self/maps \
        | awk '$6 ~ /libquarry\.so\.0$/ { print $5; exit }'
}
quarry run -- redis-server --port 0 --unixsocket /srv/upgrade/socket --save '' > log 2>&1 &
server=$!
tries=0
until redis ping 2> /dev/null | grep -q PONG; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || { cat log; exit 1; }
    sleep 0.1
done
(
    while [ ! -e stop ]; do
        value=$(redis incr count)
        redis set "key:$((value % 100))" "$value" > answer
        grep -q '^OK$' answer
    done
    redis get count > counted
) &
load=$!
before=$(library)
for folder in newer older; do
    apt-get -qq -o Dpkg::Use-Pty=0 install -y --allow-downgrades ./$folder/*.deb
    after=$(library)
    [ "$after" != "$before" ] || { echo "$folder: the library is still the file $before"; exit 1; }
    before=$after
    # The load goes on after the change.
    reached=$(redis get count)
    until [ "$(redis get count)" -gt $((reached + 100)) ]; do kill -0 $load; done
done
touch stop
wait $load
redis shutdown nosave
wait $server
! grep 'quarry:' log
END
DEBIAN_FRONTEND=noninteractive LC_ALL=C chroot "$root" sh /srv/upgrade/inside \
    || fail "redis, or what starts later, does not survive an upgrade and a downgrade"
echo "upgrade-test: redis answered $(< "$work/counted") times meanwhile"
rm -rf "$work"
