#!/usr/bin/env bash
# Packs the wheel and the package for npm twice, compares them byte for byte, installs them into
# empty folders, runs a program on the library of each, and removes them.
#
#   scripts/wheel-test.sh
#
# QUARRY_IS_BUILT=yes packs what scripts/wheel.sh has built before. scripts/dist-test.sh --packages
# compares packages that were built in two folders.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '==> %s\n' "$*"; }
fail() { printf 'wheel-test: %s\n' "$*" >&2; exit 1; }

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
place=$target/wheel-test
rm -rf "$place"
mkdir -p "$place/empty" "$place/home"
trap 'rm -rf "$place"' EXIT

say "packs the same twice"
rm -rf "$target/packages"
for folder in first packages; do
    scripts/wheel.sh > "$place/log" || fail "$(tail -n 5 "$place/log")"
    export QUARRY_IS_BUILT=yes
    scripts/wheel.sh --npm > "$place/log" || fail "$(tail -n 5 "$place/log")"
    [[ $folder == packages ]] || mv "$target/packages" "$place/first"
done
diff -r "$place/first" "$target/packages"
wheel=$(echo "$target"/packages/*.whl)
package=$(echo "$target"/packages/*.tgz)
(cd "$target/packages" && sha256sum --check --quiet -- *.sha256)
du -h "$wheel" "$package"

# Programs that print the library that serves them.
cat > "$place/app.py" << 'PYTHON'
maps = open("/proc/self/maps").read().split()
print(sorted({word for word in maps if "/libquarry" in word}))
PYTHON
cat > "$place/app.js" << 'JS'
const maps = require("fs").readFileSync("/proc/self/maps", "utf8").split(/\s+/);
console.log([...new Set(maps.filter((word) => word.includes("/libquarry")))]);
JS
# served FILE COMMAND..: fails if COMMAND does not print FILE as the library that serves it.
served() {
    local printed
    printed=$("${@:2}" 2>&1) || fail "${*:2}: $printed"
    [[ $printed == *"'$1'"* ]] || fail "${*:2} prints $printed in place of $1"
}

say "pip install $(basename "$wheel")"
venv=$place/venv
python3 -m venv "$venv"
# Without folders: pip leaves some that are empty.
files() { find "$venv" -not -type d -not -name '*.pyc' | sort; }
before=$(files)
SECONDS=0
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-index "$wheel"
# Nothing else is in the path: no compiler, and no other command `quarry`.
alone=(env -i PATH="$venv/bin" HOME="$place/home")
served "$venv/lib/libquarry.so.0" "${alone[@]}" quarry run -- python "$place/app.py"
say "installed and run in $SECONDS s"
served "$venv/lib/libquarry-full.so.0" \
    "${alone[@]}" quarry run --set DEBUG=FZ -- python "$place/app.py"
served "$venv/lib/libquarry.so.0" \
    "${alone[@]}" LD_PRELOAD="$venv/lib/libquarry.so.0" python "$place/app.py"
[[ $("${alone[@]}" quarry --version) == "quarry $(basename "$wheel" | cut -d- -f2)"* ]] \
    || fail "quarry --version prints $("${alone[@]}" quarry --version)"
[[ -z $(find "$place/home" -type f) ]] || fail "the command wrote: $(find "$place/home" -type f)"
"$venv/bin/pip" check --disable-pip-version-check
# In a folder without an environment the command uses the libraries that it has inside.
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-index --target "$place/folder" \
    "$wheel"
"${alone[@]}" "$place/folder/bin/quarry" run -- python "$place/app.py" | grep -q libquarry.so \
    || fail "the command does not use the library that it has inside"
if "$venv/bin/pip" install --quiet --disable-pip-version-check auditwheel 2> /dev/null; then
    say "auditwheel"
    tag=$(basename "$wheel" .whl | cut -d- -f5)
    shown=$("$venv/bin/python" -m auditwheel show "$wheel" 2>&1 | tr '\n' ' ')
    # It names the oldest tag that the symbols allow.
    [[ $shown == *"following platform tag: \"$tag\""* ]] || fail "$tag, but auditwheel: $shown"
    "$venv/bin/pip" uninstall --quiet --yes --disable-pip-version-check \
        $("$venv/bin/pip" freeze --exclude quarry-malloc --disable-pip-version-check | cut -d= -f1)
else
    say "skipped: auditwheel cannot be installed"
fi
"$venv/bin/pip" uninstall --quiet --yes --disable-pip-version-check quarry-malloc
diff <(echo "$before") <(files) > "$place/log" \
    || fail "pip leaves files, or takes others': $(head "$place/log")"

if ! command -v npm > /dev/null; then
    say "skipped: there is no npm"
    exit
fi
say "npm install $(basename "$package")"
export npm_config_cache=$place/cache npm_config_userconfig=$place/npmrc
cd "$place/empty"
npm install --silent --offline --no-audit --no-fund "$package"
library=$place/empty/node_modules/quarry-malloc/lib/libquarry.so.0
served "$library" npx --offline quarry run -- node "$place/app.js"
npm uninstall --silent --offline --no-audit --no-fund quarry-malloc
[[ -z $(find node_modules -name '*quarry*' 2> /dev/null) ]] \
    || fail "npm leaves $(find node_modules -name '*quarry*')"
say "both packages install, serve and leave nothing"
