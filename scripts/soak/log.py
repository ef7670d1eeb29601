"""The record of a soak: lines of JSON, written as the run goes, so that what a run has done is on
disk when it is stopped.

The first line says what ran, with which seed, on which machine and libraries; later ones have
`seconds` since the start and counters; the last one of a run that came to its end has `result`.

    log.py FILE..
    log.py --note FILE WHAT SECONDS COUNTERS [RESULT]

The former prints rows of the table in docs/results/soak.md. The latter adds a line, SECONDS after
the last one, for scripts in shell.
"""

import datetime
import hashlib
import json
import os
import pathlib
import platform
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def machine():
    """The processor and the kernel, as in the other documents."""
    fields = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        fields[name.strip()] = value.strip()
    processor = (f"{fields.get('vendor_id', platform.machine())}, "
                 f"family {fields.get('cpu family', '?')}, model {fields.get('model', '?')}")
    count = sum(1 for line in open("/proc/cpuinfo") if line.startswith("processor"))
    return f"{count} CPUs ({processor}), Linux {platform.release().split('-')[0]}"


def commit():
    """The commit of the scripts, with a star if files differ from it."""
    def git(*words):
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True,
                              text=True).stdout.strip()
    changed = git("status", "--porcelain", "--untracked-files=no")
    return git("rev-parse", "--short=12", "HEAD") + ("*" if changed else "")


def digests(libraries):
    """The first half of the SHA-256 of each library, by its name."""
    return {pathlib.Path(file).name: hashlib.sha256(pathlib.Path(file).read_bytes())
            .hexdigest()[:32] for file in libraries}


class Log:
    """The record of one run; `lines` has what an earlier part of the same run has written."""

    def __init__(self, path, what, libraries, **header):
        self.path = pathlib.Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.lines = read(self.path) if self.path.exists() else []
        self.before = seconds(self.lines)
        self.start = time.monotonic()
        self.file = self.path.open("a")
        if not self.lines:
            date = datetime.datetime.now(datetime.timezone.utc).strftime("%F %H:%M")
            self.write(what=what, date=date, machine=machine(), commit=commit(),
                       libraries=digests(libraries), **header)

    def write(self, **fields):
        self.file.write(json.dumps(fields) + "\n")
        self.file.flush()

    def seconds(self):
        """How long the run has taken, with its earlier parts."""
        return self.before + time.monotonic() - self.start

    def add(self, **fields):
        self.write(seconds=round(self.seconds(), 1), **fields)


def read(path):
    """The lines of a record; what a killed run has left of its last line is not one."""
    lines = []
    for line in pathlib.Path(path).read_text().splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            break
    return lines


def seconds(lines):
    return max((line.get("seconds", 0) for line in lines), default=0)


def row(path):
    lines = read(path)
    head, last = lines[0], lines[-1]
    length = f"{seconds(lines) / 60:.0f} min"
    result = last.get("result", "stopped before its end; nothing had failed")
    if any(line.get("failed") for line in lines):
        result = "failed: " + next(line["failed"] for line in lines if line.get("failed"))
    counters = next((line["counters"] for line in reversed(lines) if "counters" in line), "")
    return (f"| {head['what']} | {head.get('seed', '')} | {head['machine']} | {head['date']} "
            f"| {length} | {counters} | {result} |")


def note(path, what, length, counted, *result):
    record = Log(path, what, [os.environ["QUARRY_LIBRARY"]])
    ended = {"result": result[0]} if result else {}
    record.write(seconds=record.before + int(length), counters=counted, **ended)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--note"]:
        note(*sys.argv[2:])
    else:
        for name in sys.argv[1:]:
            print(row(name))
