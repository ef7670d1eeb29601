#!/usr/bin/env bash
# Writes the two lists of functions in malloc/preload/text.ld anew: those that a start, an
# allocation and a fork execute, and those that threads and large blocks need besides, in the order
# in which they come to be needed.
#
#   scripts/start-order.sh LIBRARY..
#
# Each LIBRARY has symbols, in the file or in LIBRARY.debug: libquarry.so and libquarry-full.so of
# `make build`, and the library of `cargo build --release -p quarry-preload` without the flags of
# `make build`, which decide what is inlined. A breakpoint in each function, which goes when it
# is met, tells what a program executes; gdb sets them. Sequences are not disturbed: they have no
# breakpoint inside.
set -euo pipefail

: "${1:?usage: scripts/start-order.sh LIBRARY..}"
mapfile -t libraries < <(realpath "$@")
cd "$(dirname "$0")/.."
script=malloc/preload/text.ld
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat > "$folder/met.py" <<'PYTHON'
import os, subprocess
library, out = os.environ["LIBRARY"], os.environ["OUT"]
names = {}
symbols = library + ".debug" if os.path.exists(library + ".debug") else library
listing = subprocess.run(["nm", "--defined-only", symbols], capture_output=True, text=True)
for line in listing.stdout.splitlines():
    address, kind, name = line.split(maxsplit=2)
    if kind in "tTwW":
        names.setdefault(int(address, 16), name)
met = []

class First(gdb.Breakpoint):
    def __init__(self, base, offset):
        super().__init__("*%d" % (base + offset), internal=True)
        self.offset = offset

    def stop(self):
        self.enabled = False
        met.append(self.offset)
        return False

def base():
    for line in open("/proc/%d/maps" % gdb.selected_inferior().pid):
        if line.rstrip().endswith(library):
            return int(line.split("-")[0], 16)

follow = "follow-fork-mode " + os.environ["FOLLOW"]
for setting in ["auto-solib-add off", "detach-on-fork on", follow, "stop-on-solib-events 1"]:
    gdb.execute("set " + setting)
gdb.execute("run > /dev/null 2>&1")
while base() is None:
    gdb.execute("continue")
gdb.execute("set stop-on-solib-events 0")
start = base()
for offset in names:
    First(start, offset)
gdb.execute("continue")
with open(out, "a") as file:
    file.writelines(names[offset] + "\n" for offset in met)
PYTHON

# trace PROGRAM..: appends the functions that the program executes to a list; after a fork those of
# the process that `follow` names.
trace() {
    local library
    for library in "${libraries[@]}"; do
        LIBRARY=$library OUT=$folder/met FOLLOW=$follow timeout 300 gdb -q -batch -nx \
            -ex 'set pagination off' -ex 'set confirm off' \
            -ex "set exec-wrapper env LD_PRELOAD=$library QUARRY_RECORD=$record" \
            -x "$folder/met.py" --args "$@" > "$folder/log" 2>&1 || {
            cat "$folder/log" >&2
            exit 1
        }
    done
}

cat > "$folder/threads.c" <<'C'
#include <pthread.h>
#include <stdlib.h>
static void *work(void *unused)
{
    void *objects[1000];
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 1000; i++)
            objects[i] = malloc(i * 3 + 1);
        for (int i = 0; i < 1000; i++)
            free(objects[i]);
    }
    return unused;
}
int main(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(threads + i, NULL, work, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    void *object = realloc(malloc(5), 5000);
    free(realloc(object, 500000));
    free(malloc(3 << 20));
    free(calloc(100, 100));
}
C
cat > "$folder/fork.c" <<'C'
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void work(void)
{
    void *blocks[200];
    for (int i = 0; i < 200; i++)
        blocks[i] = malloc(16 << i % 10);
    for (int i = 0; i < 200; i++)
        free(blocks[i]);
}
int main(void)
{
    work();
    if (fork() == 0) {
        work();
        _exit(0);
    }
    work();
    wait(NULL);
}
C
cc -O1 -fno-builtin -pthread -o "$folder/threads" "$folder/threads.c"
cc -O1 -fno-builtin -o "$folder/fork" "$folder/fork.c"

# write LIST: puts the functions that are met, and are in no list yet, between the marks of LIST.
# Names contain hashes of the compiler, which change with every version: stars replace them.
touch "$folder/listed"
write() {
    grep -E '^_(ZN|R)' "$folder/met" |
        sed -E 's/17h[0-9a-f]{16}E.*/17h*/; s/Cs[0-9A-Za-z]+_/Cs*_/g' |
        awk '!seen[$0]++ { print "        *(.text.*" $0 ")" }' |
        grep -vxFf "$folder/listed" > "$folder/lines" || true
    cat "$folder/lines" >> "$folder/listed"
    awk -v lines="$folder/lines" -v list="$1" '
        $0 ~ "end: " list { skip = 0 }
        !skip
        $0 ~ "begin: " list { skip = 1; while ((getline line < lines) > 0) print line }
    ' "$script" > "$folder/script"
    cp "$folder/script" "$script"
    echo "$script: $(wc -l < "$folder/lines") functions of $1"
}

follow=parent
record=0 trace /usr/bin/true
record=0 trace /usr/bin/sed p /etc/passwd
record=0 trace /usr/bin/cat /dev/null
record=0 trace /usr/bin/grep -v x /etc/passwd
record=0 trace /usr/bin/ls /
record=0 trace /usr/bin/bash -c :
record=0 trace /usr/bin/python3 -c pass
record=0 trace "$folder/fork"
follow=child record=0 trace "$folder/fork"
write "starts"
# Under gdb each program lives long enough to publish its statistics: what that takes comes last.
record=0 trace "$folder/threads"
record=1 trace /usr/bin/python3 -c pass
write "threads"
