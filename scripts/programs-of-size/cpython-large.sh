#!/usr/bin/env bash
# CPython with its objects on malloc: some 400 MiB of dicts, lists and strings, replaced at random.
source "$(dirname "$0")/../programs/common.sh"

about() {
    command -v python3 > /dev/null || absent python3
    printf 'version: %s\n' "$(python3 --version)"
    echo 'what: 420,000 records of dicts, lists and strings; a third replaced at random; JSON'
}

prepare() { :; }

run() {
    PYTHONMALLOC=malloc PYTHONHASHSEED=0 python3 -S -B - "$(amount 420000 20000)" << 'END'
import json, random, sys

count, draw = int(sys.argv[1]), random.Random(7)
def record(number):
    return {"id": number, "name": "stone %d of %d" % (number, draw.randrange(1000)),
            "marks": [draw.random() for _ in range(draw.randrange(12))]}
kept = [record(number) for number in range(count)]
for turn in range(count // 3):
    kept[draw.randrange(count)] = record(count + turn)
letters = sum(len(json.dumps(kept[at:at + 1000])) for at in range(0, count, 1000))
index = {}
for one in kept:
    index.setdefault(one["name"][:9], []).append(one["id"])
print(letters, len(index), sum(map(len, index.values())))
END
}

drive "$@"
