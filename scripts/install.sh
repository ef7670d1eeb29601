#!/usr/bin/env bash
# Puts what `make build` made where it belongs, or takes it away again. `make
# install` and `make uninstall` call it with their variables in the environment.
#
#   scripts/install.sh [--remove]
set -euo pipefail
cd "$(dirname "$0")/.."
: "${TARGET:?make install calls this}" "${PREFIX:?}" "${LIBDIR:?}" "${MANDIR:?}" "${BASHDIR:?}"
: "${ZSHDIR:?}" "${FISHDIR:?}" "${VERSION:?}" "${ABI:?}" "${SLABS:?}" "${DESTDIR=}"

remove=
[[ ${1:-} == --remove ]] && remove=yes

# put MODE FILE PLACE
put() {
    if [[ -n $remove ]]; then
        rm -f "$DESTDIR$3"
    else
        install -D -m "$1" "$2" "$DESTDIR$3"
    fi
}

# leads_to NAME PLACE: a link beside NAME.
leads_to() {
    if [[ -n $remove ]]; then
        rm -f "$DESTDIR$2"
    else
        ln -sf "$1" "$DESTDIR$2"
    fi
}

pkg_config() {
    cat << END
prefix=$PREFIX
libdir=$LIBDIR
includedir=$PREFIX/include

Name: quarry
Description: Malloc, caches of objects, pages and a page cache as the Linux kernel has them
Version: $VERSION
Libs: -L\${libdir} -lquarry
Cflags: -I\${includedir}
END
}

for name in quarry quarry_sqlite; do
    put 644 "$TARGET/release/lib$name.so" "$LIBDIR/lib$name.so.$ABI"
    leads_to "lib$name.so.$ABI" "$LIBDIR/lib$name.so"
done
for slab in $SLABS; do
    put 644 "$TARGET/release/libquarry-$slab.so" "$LIBDIR/quarry/libquarry-$slab.so"
done
put 644 "$TARGET/release/libquarry_recorder.so" "$LIBDIR/quarry/libquarry_recorder.so"
for program in quarry-sim quarry-predict; do
    put 755 "$TARGET/tools/$program" "$LIBDIR/quarry/$program"
done
put 755 "$TARGET/tools/quarry" "$PREFIX/bin/quarry"
put 644 crates/preload/include/quarry.h "$PREFIX/include/quarry.h"
put 644 crates/sqlite-object/include/quarry_sqlite.h "$PREFIX/include/quarry_sqlite.h"
put 644 <(pkg_config) "$LIBDIR/pkgconfig/quarry.pc"
put 644 "$TARGET/pages/bash/quarry" "$BASHDIR/quarry"
put 644 "$TARGET/pages/zsh/_quarry" "$ZSHDIR/_quarry"
put 644 "$TARGET/pages/fish/quarry.fish" "$FISHDIR/quarry.fish"
if [[ -n $remove ]]; then
    rm -f "$DESTDIR$MANDIR"/man1/quarry.1 "$DESTDIR$MANDIR"/man1/quarry-*.1
    # Other programs have files in the other folders.
    [[ ! -d $DESTDIR$LIBDIR/quarry ]] || rmdir "$DESTDIR$LIBDIR/quarry"
else
    for page in "$TARGET"/pages/man/*.1; do
        put 644 "$page" "$MANDIR/man1/${page##*/}"
    done
fi
