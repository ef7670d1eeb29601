#!/usr/bin/env bash
# Installs the files that `make all`, or a part of it, has built, or removes them again. `make
# install` and `make uninstall` call it with their variables in the environment.
#
#   scripts/install.sh [--remove]
set -euo pipefail
cd "$(dirname "$0")/.."
: "${TARGET:?make install calls this}" "${PREFIX:?}" "${LIBDIR:?}" "${MANDIR:?}" "${BASHDIR:?}"
: "${ZSHDIR:?}" "${FISHDIR:?}" "${VERSION:?}" "${ABI:?}" "${SLABS?}" "${DESTDIR=}"
: "${PROGRAMS_BUILT:?}"

remove=
[[ ${1:-} == --remove ]] && remove=yes

# The folders that installing has made, for `--remove`. A stage (DESTDIR) has no such list, because
# it would get into packages; there `--remove` takes away every empty folder.
list=$PREFIX/share/quarry/folders
made=()

# note_missing FILE: notes the folders above FILE that do not exist yet.
note_missing() {
    local folder
    folder=$(dirname "$1")
    until [[ -d $folder ]]; do
        made+=("$folder")
        folder=$(dirname "$folder")
    done
}

# put MODE FILE PLACE: installs or removes a file.
put() {
    if [[ -n $remove ]]; then
        rm -f "$DESTDIR$3"
    else
        note_missing "$DESTDIR$3"
        install -D -m "$1" "$2" "$DESTDIR$3"
    fi
}

# leads_to NAME PLACE: makes PLACE a link to NAME in the same folder, or removes the link.
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
Libs: -L\${libdir} -lquarry-full
Cflags: -I\${includedir}
END
}

# The object is part of the program in any case: else a program that leaves all requests to the C
# library would have that library's heap.
pkg_config_static() {
    cat << END
prefix=$PREFIX
libdir=$LIBDIR
includedir=$PREFIX/include

Name: quarry-static
Description: Malloc as the Linux kernel has it, inside the program
Version: $VERSION
Libs: -Wl,--undefined=quarry_version \${libdir}/libquarry.a
Cflags: -I\${includedir}
END
}

# put_built MODE FILE PLACE: as put, for a file that may not have been built (`make lab` and so on).
put_built() {
    if [[ -n $remove || -e $2 ]]; then
        put "$@"
    fi
}

for object in libquarry.so libquarry-full.so; do
    put 644 "$TARGET/release/$object" "$LIBDIR/$object.$ABI"
    leads_to "$object.$ABI" "$LIBDIR/$object"
done
if [[ -n $remove || -e $TARGET/release/libquarry_sqlite.so ]]; then
    put 644 "$TARGET/release/libquarry_sqlite.so" "$LIBDIR/libquarry_sqlite.so.$ABI"
    leads_to "libquarry_sqlite.so.$ABI" "$LIBDIR/libquarry_sqlite.so"
    put 644 malloc/sqlite-object/include/quarry_sqlite.h "$PREFIX/include/quarry_sqlite.h"
fi
if [[ -n $remove || -e $TARGET/release/libquarry.a ]]; then
    put 644 "$TARGET/release/libquarry.a" "$LIBDIR/libquarry.a"
    put 644 <(pkg_config_static) "$LIBDIR/pkgconfig/quarry-static.pc"
fi
for object in libquarry-musl.so libquarry-full-musl.so libquarry-musl.a; do
    put_built 644 "$TARGET/release/$object" "$LIBDIR/quarry/$object"
done
for slab in $SLABS; do
    put_built 644 "$TARGET/release/libquarry-$slab.so" "$LIBDIR/quarry/libquarry-$slab.so"
done
put_built 644 "$TARGET/release/libquarry_tracer.so" "$LIBDIR/quarry/libquarry_tracer.so"
for program in quarry-sim quarry-predict quarry-sqlite-load; do
    put_built 755 "$TARGET/tools/$program" "$LIBDIR/quarry/$program"
done
# Programs and scripts that experiments start; `make jobs` builds the programs.
for program in $PROGRAMS_BUILT; do
    put_built 755 "$TARGET/peers/$program" "$LIBDIR/quarry/peers/$program"
done
# Only the lab starts them.
for file in scripts/programs/*; do
    [[ -z $remove && ! -e $TARGET/tools/quarry-lab ]] \
        || put 644 "$file" "$PREFIX/share/quarry/programs/${file##*/}"
done
put_built 755 "$TARGET/tools/quarry" "$PREFIX/bin/quarry"
# Files to use with the command: gdb's, Grafana's, Prometheus' and those of Kubernetes.
for file in bench/live/gdb/quarry-heap.py docs/deploy/*; do
    place=${file#docs/} place=${place#bench/live/gdb/}
    [[ -z $remove && ! -e $TARGET/tools/quarry ]] || put 644 "$file" "$PREFIX/share/quarry/$place"
done
put_built 755 "$TARGET/tools/quarry-lab" "$PREFIX/bin/quarry-lab"
for header in quarry.h quarry.hpp; do
    put 644 "malloc/preload/include/$header" "$PREFIX/include/$header"
done
put 644 bench/cli/manual/libquarry_heap.3 "$MANDIR/man3/libquarry_heap.3"
put 644 <(pkg_config) "$LIBDIR/pkgconfig/quarry.pc"
for command in quarry quarry-lab; do
    put_built 644 "$TARGET/pages/bash/$command" "$BASHDIR/$command"
    put_built 644 "$TARGET/pages/zsh/_$command" "$ZSHDIR/_$command"
    put_built 644 "$TARGET/pages/fish/$command.fish" "$FISHDIR/$command.fish"
done
if [[ -n $remove ]]; then
    rm -f "$DESTDIR$MANDIR"/man1/quarry.1 "$DESTDIR$MANDIR"/man1/quarry-*.1 \
        "$DESTDIR$MANDIR/man7/libquarry.7"
    # Other folders stay if they are not in the list: they belong to the system.
    made=("$DESTDIR$LIBDIR"/quarry{,/peers} "$DESTDIR$PREFIX"/share/quarry{,/programs,/deploy})
    if [[ -n $DESTDIR ]]; then
        # A stage is Quarry's own: all folders in it that are empty then.
        mapfile -t -O ${#made[@]} made < <(find "$DESTDIR" -mindepth 1 -type d)
    elif [[ -e $list ]]; then
        mapfile -t -O ${#made[@]} made < "$list"
        rm "$list"
    fi
    # In reverse order a folder follows those in it.
    while read -r folder; do
        [[ ! -d $folder ]] || rmdir --ignore-fail-on-non-empty "$folder"
    done < <(printf '%s\n' "${made[@]}" | LC_ALL=C sort -ru)
else
    for page in "$TARGET"/pages/man/*.[17]; do
        put_built 644 "$page" "$MANDIR/man${page##*.}/${page##*/}"
    done
    if [[ -z $DESTDIR && ${#made[@]} -gt 0 ]]; then
        note_missing "$list"
        mkdir -p "${list%/*}"
        printf '%s\n' "${made[@]}" >> "$list"
    fi
    echo "==> run 'ldconfig' as root${DESTDIR:+ where these files will be used}: only then do" \
        "programs find libquarry.so.$ABI by its name"
fi
