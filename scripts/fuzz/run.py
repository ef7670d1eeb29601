"""Gives libFuzzer's inputs to the targets of this folder (`make fuzz`).

    run.py [--keep] [TARGET..]

Builds each target (default: all) and runs it for MINUTES (default 60). It begins with the inputs in
corpus/TARGET and with what earlier runs have found, which is in target/fuzz/corpus/TARGET: so it
goes on where it stopped. An input that ends a target, or takes more than ten seconds, is in
target/fuzz/found, and the status is 1; `TARGET FILE` gives it to the target again. The record is
target/soak/fuzz-TARGET.jsonl; `python3 scripts/soak/log.py FILE` makes a row of the table in
docs/results/soak.md of it.

`--keep` gives no new inputs. It adds to corpus/TARGET as few inputs of earlier runs as reach more
branches.

The targets are compiled by the stable toolchain: what cargo-fuzz asks of a nightly one is a
sanitizer, and the counters of branches need only LLVM's pass.
"""

import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "soak"))

import log  # noqa: E402

PLACE = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or log.ROOT / "target").resolve()
MACHINE = f"{os.uname().machine}-unknown-linux-gnu"
COVERAGE = " ".join(["-Cpasses=sancov-module", "--cfg=fuzzing"] + [
    f"-Cllvm-args=-sanitizer-coverage-{option}"
    for option in ("level=4", "inline-8bit-counters", "pc-table", "trace-compares")])
# The longest input of each target.
LENGTHS = {"abi": 1024, "options": 512, "profile": 8192, "record": 16384, "results": 8192,
           "trace": 4096}


def build(target):
    """The program of a target. Without --target build scripts would be compiled with counters."""
    environment = {**os.environ, "CARGO_TARGET_DIR": str(PLACE / "fuzz"), "RUSTFLAGS": COVERAGE}
    subprocess.run(["cargo", "build", "--release", "--locked", "--target", MACHINE, "--features",
                    target, "--bin", target], cwd=HERE, env=environment, check=True)
    return PLACE / "fuzz" / MACHINE / "release" / target


def folders(target):
    """Where inputs are found, and where they are kept."""
    found, kept = PLACE / "fuzz/corpus" / target, HERE / "corpus" / target
    for folder in found, kept, PLACE / "fuzz/found":
        folder.mkdir(parents=True, exist_ok=True)
    return str(found), str(kept)


def keep(target, program):
    found, kept = folders(target)
    subprocess.run([program, "-set_cover_merge=1", "-use_counters=0",
                    f"-max_len={LENGTHS[target]}", kept, found], check=True)


def run(target, program, minutes):
    """Returns whether no input was found that the target does not stand."""
    record = log.Log(PLACE / f"soak/fuzz-{target}.jsonl", f"fuzz {target}", [program])
    seed = int.from_bytes(os.urandom(3))
    before = sum(line.get("inputs", 0) for line in record.lines)
    done = subprocess.run(
        [program, *folders(target), f"-max_total_time={minutes * 60}", f"-seed={seed}",
         f"-max_len={LENGTHS[target]}", "-timeout=10", "-rss_limit_mb=1024", "-verbosity=1",
         "-print_final_stats=1", f"-artifact_prefix={PLACE}/fuzz/found/{target}-"],
        stderr=subprocess.PIPE, text=True, errors="replace")
    inputs = int((re.findall(r"number_of_executed_units:\s*(\d+)", done.stderr) or [0])[-1])
    reached = (re.findall(r" cov: (\d+)", done.stderr) or ["?"])[-1]
    line = {"inputs": inputs, "seed": seed,
            "counters": f"{before + inputs} inputs, {reached} branches reached"}
    if done.returncode != 0:
        said = [text for text in done.stderr.splitlines() if "panicked" in text or "ERROR" in text]
        line["failed"] = "; ".join(said[:2]) or f"status {done.returncode}"
        print(done.stderr[-3000:], file=sys.stderr)
    record.add(**line)
    print(log.row(record.path))
    return done.returncode == 0


def main():
    words = sys.argv[1:]
    targets = [word for word in words if word != "--keep"] or sorted(LENGTHS)
    for target in targets:
        if target not in LENGTHS:
            sys.exit(f"fuzz: {target}: {', '.join(sorted(LENGTHS))} are accepted")
    text = os.environ.get("MINUTES", "60")
    if not re.fullmatch("[1-9][0-9]*", text):
        sys.exit(f"MINUTES={text}: minutes, from 1 on")
    fine = True
    for target in targets:
        program = build(target)
        if "--keep" in words:
            keep(target, program)
        else:
            fine &= run(target, program, int(text))
    sys.exit(not fine)


if __name__ == "__main__":
    main()
