#!/usr/bin/env python3
"""Times the static programs of scripts/musl.sh in turn, and writes a table into a page.

usage: measure.py FOLDER ROUNDS PAGE
"""

import datetime
import pathlib
import platform
import re
import statistics
import subprocess
import sys

ALLOCATORS = ["musl", "mimalloc", "quarry"]
PATTERNS = {
    "pairs": "malloc and free of 16 to 271 bytes in turn",
    "batches": "1,000 objects of up to 1 KiB, freed in order",
    "working-set": "50,000 objects, replaced at random",
    "two-threads": "the same in each of two threads",
    "handover": "one thread makes, another frees",
    "strings": "20,000 texts that grow word by word",
    "tree": "records in maps and lists, built and dropped",
}
JOBS = {
    "sqlite": "rows, an index, changes and a join in memory",
    "json": "a document of some hundred KiB, 30 times read, changed and written",
    "compiler": "syntax trees of a file in Rust, 60 times",
}
BEGIN, END = "<!-- begin: scripts/musl.sh -->", "<!-- end -->"


def run(folder, allocator, pattern):
    """Runs a pattern once; returns nanoseconds a request, the peak and what is in no file, KiB."""
    command = [folder / f"patterns-{allocator}", pattern]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    ns, peak, anonymous = answer.stdout.split()
    return float(ns), int(peak), int(anonymous)


def shown(values, digits):
    """The median and the quartiles."""
    low, median, high = statistics.quantiles(values, n=4)
    return f"{median:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def table(folder, rounds):
    """The rows of all tables; a round runs all allocators, in an order that turns."""
    times, jobs, peaks = [], [], []
    for pattern in [*PATTERNS, *JOBS, "sleep"]:
        seen = {allocator: [] for allocator in ALLOCATORS}
        for number in range(rounds):
            turn = number % len(ALLOCATORS)
            for allocator in ALLOCATORS[turn:] + ALLOCATORS[:turn]:
                seen[allocator].append(run(folder, allocator, pattern))
        print(pattern, {name: statistics.median(it) for name, it in seen.items()}, flush=True)
        of = lambda index: [[it[index] for it in seen[name]] for name in ALLOCATORS]
        if pattern in PATTERNS:
            cells = " | ".join(shown(values, 1) for values in of(0))
            times.append(f"| {pattern}: {PATTERNS[pattern]} | {cells} |")
        if pattern in JOBS:
            cells = " | ".join(shown([ns / 1e6 for ns in values], 0) for values in of(0))
            jobs.append(f"| {pattern}: {JOBS[pattern]} | {cells} |")
        kib = [" | ".join(f"{statistics.median(values):.0f}" for values in of(at)) for at in (1, 2)]
        peaks.append(f"| {pattern} | {kib[0]} |")
        if pattern == "sleep":
            peaks.append(f"| sleep, without pages of files | {kib[1]} |")
    return times, jobs, peaks


def processor():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    found = [re.search(rf"^{name}\s*: (.*)", text, re.M) for name in ("cpu family", "model")]
    return "family {}, model {}".format(*(it.group(1) if it else "?" for it in found))


def main():
    folder, rounds, page = pathlib.Path(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
    times, jobs, peaks = table(folder, rounds)
    head = "musl's own | mimalloc | Quarry |"
    text = "\n".join([
        BEGIN,
        f"{datetime.date.today()}, Linux {platform.release().split('-')[0]}, processor "
        f"{processor()}; {rounds} rounds, in each of which the programs ran in turn.",
        "",
        f"| nanoseconds a request: median [quartiles] | {head}",
        "|---|---:|---:|---:|",
        *times,
        "",
        f"| milliseconds a job: median [quartiles] | {head}",
        "|---|---:|---:|---:|",
        *jobs,
        "",
        f"| peak of resident memory, KiB | {head}",
        "|---|---:|---:|---:|",
        *peaks,
        END,
    ])
    old = page.read_text()
    start, end = old.index(BEGIN), old.index(END) + len(END)
    page.write_text(old[:start] + text + old[end:])


main()
