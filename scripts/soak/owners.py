"""Every object's bytes and owner are checked, on every library and in every mode, with fresh seeds
for as long as asked, for scripts/soak.sh.

    owners.py LIBRARIES MINUTES LOG

LIBRARIES is the folder of the libquarry*.so. A turn runs one program of malloc/preload/tests/c on
one library in one mode: stress.c (sizes, threads, forks, signals; each object knows its owner),
stress_heaps.c (own heaps and groups) or stress_giants.c (until there is no memory). One program
runs at a time. The record has a line for each turn; with the LOG of a run that was stopped, the run
goes on after its last turn. It ends at the first turn that fails, whose line has its command.
"""

import collections
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import log

TESTS = log.ROOT / "malloc/preload/tests/c"
HEADERS = log.ROOT / "malloc/preload/include"
OPTIONS = "-O1 -g -fno-builtin -Wall -Wextra -Werror -D_GNU_SOURCE -pthread".split()
PATIENCE = 900  # seconds after which a program hangs
SHAPES = ["1 100000", "2 60000 signals", "4 30000 fork signals", "8 20000 fork", "64 2000 signals",
          "64 2000 fork"]
DENIED = {"slots locked": "rseq", "HARDEN=1, slots locked": "rseq",
          "membarrier refused": "membarrier"}
MODES = {
    "sequences": {},
    "own registration": {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"},
    "slots locked": {},
    "membarrier refused": {},
    "GUARD=all": {"QUARRY_GUARD": "all"},
    "at once": {"QUARRY_PURGE_DELAY": "0"},
}
# libquarry.so has none of these.
FULL = {
    "DEBUG=FZPU": {"QUARRY_DEBUG": "FZPU"},
    "HARDEN=1": {"QUARRY_HARDEN": "1"},
    "HARDEN=1, slots locked": {"QUARRY_HARDEN": "1"},
}


def compiled(folder, libraries):
    """The programs, by name."""
    programs = {}
    for name in "stress", "stress_giants", "stress_heaps", "hostile_deny", "hostile_no_rseq":
        programs[name] = f"{folder}/{name}"
        linked = [f"-I{HEADERS}", str(libraries["libquarry-full"]),
                  f"-Wl,-rpath,{libraries['libquarry-full'].parent}"]
        subprocess.run(["cc", *OPTIONS, "-o", programs[name], str(TESTS / f"{name}.c"),
                        *(linked if name == "stress_heaps" else []), "-ldl"], check=True)
    return programs


def cases(libraries):
    """All pairs of a library and a mode that it has."""
    return [(name, mode) for name in libraries
            for mode in (MODES if name == "libquarry" else MODES | FULL)]


def command(programs, mode, words):
    denied = DENIED.get(mode)
    before = [programs["hostile_deny"], "38", denied] if denied else []  # ENOSYS
    return [*before, programs[words[0]], *words[1:]]


def run(words, library, mode):
    """None, or what went wrong."""
    settings = (MODES | FULL)[mode]
    try:
        done = subprocess.run(words, env={**os.environ, "QUARRY_STRICT": "1", **settings,
                                          "LD_PRELOAD": str(library)},
                              capture_output=True, text=True, errors="replace", timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return f"still running after {PATIENCE} s"
    if done.returncode != 0 or done.stderr:
        return f"status {done.returncode}: {done.stderr.strip()[:800]}"
    return None


def words_of(turn, seed, name):
    """The program of a turn and its arguments."""
    if turn % 9 == 7:
        return ["stress_giants", "8", "10"]
    if turn % 9 == 4 and name == "libquarry-full":
        return ["stress_heaps", str(seed), "8", "500"]
    return ["stress", str(seed), *SHAPES[turn % len(SHAPES)].split()]


def counters(lines):
    """How many turns each library and each mode had."""
    turns = [line for line in lines if "turn" in line]
    parts = [f"{len(turns)} programs"]
    for key in "library", "mode":
        counted = collections.Counter(line[key] for line in turns)
        parts.append(", ".join(f"{name} {count}" for name, count in sorted(counted.items())))
    return "; ".join(parts)


def main():
    folder, minutes, path = pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2]), sys.argv[3]
    libraries = {file.stem: file for file in sorted(folder.glob("libquarry*.so"))
                 if not any(word in file.stem for word in ("musl", "_"))}
    seed = random.SystemRandom().randrange(10**9)
    record = log.Log(path, "owners", libraries.values(), seed=seed)
    if not record.lines:
        record.lines = log.read(path)
    lines, first = record.lines, record.lines[0]["seed"]
    with tempfile.TemporaryDirectory() as scratch:
        programs = compiled(scratch, libraries)
        for name, library in libraries.items():
            failed = run(command(programs, "slots locked", ["hostile_no_rseq"]), library,
                         "slots locked")
            if failed:
                sys.exit(f"owners: {name} has sequences although the system has none: {failed}")
        turn = sum("turn" in line for line in lines)
        while record.seconds() < minutes * 60:
            everything = cases(libraries)
            random.Random(first + turn // len(everything)).shuffle(everything)
            name, mode = everything[turn % len(everything)]
            words = words_of(turn, first + turn, name)
            failed = run(command(programs, mode, words), libraries[name], mode)
            line = {"turn": turn, "library": name, "mode": mode, "program": " ".join(words)}
            record.add(**line, **({"failed": f"{line}: {failed}"} if failed else {}))
            lines.append(line)
            if turn % 20 == 19:
                record.add(counters=counters(lines))
            if failed:
                sys.exit(f"owners: {line}: {failed}")
            turn += 1
    record.add(counters=counters(lines), result="passed")
    print(log.row(path))


if __name__ == "__main__":
    main()
