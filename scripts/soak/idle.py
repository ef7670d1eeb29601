"""Servers that had a burst of work and then idle, for scripts/soak.sh.

    idle.py LIBRARIES MINUTES LOG

LIBRARIES is the folder of libquarry.so and libquarry-full.so. redis, and a service in Python with a
thread for each request, run on glibc's malloc and on both libraries, all at the same time. Each
minute the record gets the resident memory and the CPU time of each process, and how often each of
its threads went to sleep.

The run passes if from the second idle minute on
  * no process on Quarry grows by more than GROWTH MiB,
  * the thread of Quarry that gives memory back wakes at most WAKES times an hour,
  * no process on Quarry wakes more often than its like on glibc, but for that thread and one per
    cent.
"""

import concurrent.futures
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import log

# WAKES: what docs/deploy.md states, once a second, and a little more for clocks and requests.
GROWTH, WAKES = 1, 3700
THREAD = "quarry-reclaim"
HERE = pathlib.Path(__file__).resolve().parent
OBJECTS, KEPT = 100_000, 10_000


def connect(place):
    for _ in range(1200):
        try:
            if isinstance(place, int):
                return socket.create_connection(("127.0.0.1", place))
            link = socket.socket(socket.AF_UNIX)
            link.connect(place)
            return link
        except OSError:
            time.sleep(0.05)
    sys.exit(f"idle: nothing listens at {place}")


class Redis:
    name = "redis"

    def __init__(self, folder, number):
        self.socket = f"{folder}/redis-{number}"
        self.command = ["redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "",
                        "--appendonly", "no", "--dir", folder]

    def burst(self, seed):
        """Fills redis with values of 16 bytes to 4 KiB, and deletes nine in ten in random order."""
        numbers = random.Random(seed)
        keys = list(range(OBJECTS))
        with connect(self.socket) as link:
            answers = link.makefile("rb")
            self.send(link, answers, [("SET", f"key:{key}", "v" * numbers.randrange(16, 4096))
                                      for key in keys], b"+OK\r\n")
            numbers.shuffle(keys)
            self.send(link, answers, [("DEL", f"key:{key}") for key in keys[KEPT:]], b":1\r\n")

    def send(self, link, answers, requests, expected):
        for at in range(0, len(requests), 500):
            words = requests[at:at + 500]
            link.sendall(b"".join(
                b"*%d\r\n" % len(request) + b"".join(
                    b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in request)
                for request in words))
            for request in words:
                if answers.readline() != expected:
                    sys.exit(f"idle: redis refuses {request[0]} {request[1]}")


class Rows:
    name = "Python"

    def __init__(self, folder, number):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        service = HERE.parent / "services/rows.py"
        self.command = ["/usr/bin/python3", str(service), str(self.port)]

    def burst(self, seed):
        connect(self.port).close()
        def ask(number):
            url = f"http://127.0.0.1:{self.port}/?n={number}"
            with urllib.request.urlopen(url, timeout=600) as answer:
                answer.read()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(ask, range(seed, seed + 16)))


def resident(pid):
    pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


def ticks(pid):
    """CPU time in hundredths of a second, with that of threads that have ended."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def sleeps(pid):
    """How often each living thread has given its CPU up, by its number and name."""
    found = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            status = (task / "status").read_text()
        except OSError:
            continue  # it has ended
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        found[f"{task.name} {fields['Name']}"] = int(fields["voluntary_ctxt_switches"])
    return found


def measure(started):
    return {name: {"mib": round(resident(pid), 2), "ticks": ticks(pid), "sleeps": sleeps(pid)}
            for name, pid in started.items()}


def wakes(first, last, own):
    """How often threads woke between two measurements: those of Quarry, or all others."""
    return sum(count - first["sleeps"].get(thread, 0) for thread, count in last["sleeps"].items()
               if thread.endswith(THREAD) == own)


def judge(lines):
    """The counters of a run, and what it failed."""
    first, last = lines[0], lines[-1]
    hours = (last["seconds"] - first["seconds"]) / 3600
    parts, failed = [], []
    for name in last["idle"]:
        now, then = last["idle"][name], first["idle"][name]
        most = max(line["idle"][name]["mib"] for line in lines)
        own, others = wakes(then, now, True) / hours, wakes(then, now, False) / hours
        parts.append(f"{name}: {then['mib']:.1f} to {now['mib']:.1f} MiB, "
                     f"{others:.0f} wake-ups an hour and {own:.1f} of Quarry's thread, "
                     f"{now['ticks'] - then['ticks']} ticks")
        glibc = name.split()[0] + " on glibc"
        if name == glibc:
            continue
        beside = wakes(first["idle"][glibc], last["idle"][glibc], False) / hours
        if most > then["mib"] + GROWTH:
            failed.append(f"{name} grew from {then['mib']} to {most} MiB")
        if own > WAKES:
            failed.append(f"{name}: Quarry's thread woke {own:.1f} times an hour")
        if others > beside * 1.01 + 10:
            failed.append(f"{name} woke {others:.0f} times an hour, on glibc {beside:.0f}")
    return "; ".join(parts), "; ".join(failed)


def start(libraries, folder):
    libc = subprocess.check_output("ldd $(command -v redis-server) | awk '$1 == \"libc.so.6\" "
                                   "{ print $3 }'", shell=True, text=True).strip()
    variants = {"glibc": libc, **{file.stem: str(file) for file in libraries}}
    servers, started = [], {}
    for kind in Redis, Rows:
        for number, (variant, library) in enumerate(variants.items()):
            server = kind(folder, number)
            process = subprocess.Popen(server.command, env={**os.environ, "LD_PRELOAD": library},
                                       stdout=subprocess.DEVNULL)
            servers.append(server)
            started[f"{kind.name} on {variant}"] = process.pid
    return servers, started


def main():
    folder, minutes, path = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    if not shutil.which("redis-server"):
        sys.exit("idle: redis-server is not installed (Debian: redis-server)")
    libraries = [folder.resolve() / name for name in ("libquarry.so", "libquarry-full.so")]
    seed = random.SystemRandom().randrange(10**9)
    pathlib.Path(path).unlink(missing_ok=True)
    record = log.Log(path, "idle", libraries, seed=seed)
    with tempfile.TemporaryDirectory() as scratch:
        servers, started = start(libraries, scratch)
        try:
            for server in servers:
                server.burst(seed)
            record.add(after_burst=measure(started))
            lines = []
            for minute in range(minutes):
                time.sleep(60)
                lines.append({"seconds": record.seconds(), "idle": measure(started)})
                if len(lines) < 3:
                    record.add(idle=lines[-1]["idle"])
                    continue
                counters, failed = judge(lines[1:])
                record.add(idle=lines[-1]["idle"], counters=counters, failed=failed)
        finally:
            for pid in started.values():
                os.kill(pid, signal.SIGKILL)
    record.add(result="failed" if failed else "passed")
    print(log.row(path))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
