"""Memory of services after bursts of requests, on several allocators, for scripts/services.sh.

    measure.py LIBRARY PEERS SHARP [--test]

It starts each service on each allocator, sends bursts, waits, and adds up the memory of the
service's processes (PSS: a page that several of them share counts once). It prints a table with the
medians. With --test it sends one short burst on glibc and on Quarry, and compares the answers.
"""

import concurrent.futures
import glob
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.request

HERE = pathlib.Path(__file__).parent
BURSTS, REQUESTS, AT_ONCE = 4, 8, 8
ROUNDS = int(os.environ.get("SAMPLES") or 3)
# Seconds after the last burst.
IDLE = 5
DECAY = "background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0"


def peer(peers, built, packaged):
    """The newest shared object at hand, and the name and version of the allocator in it."""
    file = pathlib.Path(peers, f"lib{built}.so")
    if file.exists():
        return str(file), file.with_suffix(".version").read_text().split(",")[0]
    for file in glob.glob(f"/usr/lib/*/{packaged}"):
        owner = subprocess.check_output(["dpkg", "-S", file], text=True).split(":")[0]
        version = subprocess.check_output(
            ["dpkg-query", "-W", "-f", "${Version}", owner], text=True)
        return file, f"{built.rstrip('-new3')} {version.split('-')[0].split('+')[0]}"
    sys.exit(f"services: neither lib{built}.so (make peers) nor {packaged} is there")


def variants(library, peers):
    jemalloc, jemalloc_name = peer(peers, "jemalloc-new", "libjemalloc.so.2")
    mimalloc, mimalloc_name = peer(peers, "mimalloc3", "libmimalloc.so.2.*")
    two = {"MALLOC_ARENA_MAX": "2"}
    glibc = os.confstr("CS_GNU_LIBC_VERSION")
    return {
        glibc: {},
        f"{glibc}, `MALLOC_ARENA_MAX=2`": two,
        "the same, and `MALLOC_TRIM_THRESHOLD_=131072`":
            {**two, "MALLOC_TRIM_THRESHOLD_": "131072"},
        f"{jemalloc_name}, decay 1 s": {"LD_PRELOAD": jemalloc, "MALLOC_CONF": DECAY},
        mimalloc_name: {"LD_PRELOAD": mimalloc},
        "Quarry": {"LD_PRELOAD": library},
    }


def services(sharp):
    gunicorn = ["gunicorn", "-w", "2", "--threads", "4", "--timeout", "600", "--log-level",
                "error", "-b", "127.0.0.1:PORT", "--chdir", str(HERE)]
    through_malloc = {"PYTHONMALLOC": "malloc"}
    node = ["node", str(HERE / "image.js"), "PORT", sharp]
    puma = ["puma", "-q", "-w", "2", "-t", "4:4", "-b", "tcp://127.0.0.1:PORT",
            str(HERE / "page.ru")]
    found = {
        "gunicorn, 2 workers with 4 threads": ([*gunicorn, "app:app"], {}),
        "the same with `PYTHONMALLOC=malloc`": ([*gunicorn, "app:app"], through_malloc),
        "gunicorn `--preload`, 100 MiB loaded before the fork":
            ([*gunicorn, "--preload", "app:app"], {"LOADED_MIB": "100"}),
        "a JSON service in Python, a thread for each request":
            (["/usr/bin/python3", str(HERE / "rows.py"), "PORT"], {}),
        "an image service in Node (sharp)": (node, {}),
        "pages and JSON in Ruby: puma, 2 workers with 4 threads":
            (puma, {"RACK_ENV": "production"}),
    }
    for name, (command, _) in list(found.items()):
        if not shutil.which(command[0]) or command is node and not os.path.isdir(sharp):
            print(f"skipped: services: {name}: {command[0]} or what it needs is not installed")
            del found[name]
    return found


def processes(leader):
    """The numbers of the processes of a session."""
    found = []
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try:
            fields = pathlib.Path(stat).read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] not in "ZX":
            found.append(int(stat.split("/")[2]))
    return found


def resident(pids):
    """MiB that the processes hold together."""
    total = 0
    for pid in pids:
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / 1024


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask(port, number):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/?n={number}", timeout=600) as answer:
        return answer.read()


def until_it_listens(process, port):
    while True:
        if process.poll() is not None:
            sys.exit(f"services: {process.args} ended with status {process.returncode}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)


def measure(command, settings, bursts, requests, idle):
    """Memory in MiB, the answers, and the files that each process of the service has mapped."""
    port = free_port()
    command = [word.replace("PORT", str(port)) for word in command]
    process = subprocess.Popen(command, env={**os.environ, **settings}, start_new_session=True,
                               stdout=subprocess.DEVNULL)
    try:
        until_it_listens(process, port)
        answers = []
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for burst in range(bursts):
                numbers = range(burst * requests, (burst + 1) * requests)
                answers += pool.map(lambda number: ask(port, number), numbers)
        time.sleep(idle)
        pids = processes(process.pid)
        maps = [pathlib.Path(f"/proc/{pid}/maps").read_text() for pid in pids]
        return resident(pids), answers, maps
    finally:
        for pid in processes(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.wait()


def test(library, found):
    for name, (command, settings) in found.items():
        _, expected, _ = measure(command, settings, 1, 4, 0)
        memory, answers, maps = measure(command, {**settings, "LD_PRELOAD": library}, 1, 4, 0)
        if answers != expected:
            sys.exit(f"services: {name}: other answers on Quarry than on glibc")
        if not all(os.path.realpath(library) in of_one for of_one in maps):
            sys.exit(f"services: {name}: a process is not on Quarry")
        print(f"{name}: the same answers on Quarry as on glibc, from processes: {len(maps)}")


def main(library, peers, sharp, *options):
    found = services(sharp)
    if "--test" in options:
        return test(library, found)
    on = variants(library, peers)
    figures = {(service, variant): [] for service in found for variant in on}
    for round_ in range(ROUNDS):
        for service, (command, settings) in found.items():
            for variant, of_variant in on.items():
                memory, _, _ = measure(
                    command, {**settings, **of_variant}, BURSTS, REQUESTS, IDLE)
                figures[service, variant].append(memory)
                print(f"round {round_ + 1}: {service}: {variant}: {memory:.0f}", file=sys.stderr)
    print("| resident, MiB | " + " | ".join(on) + " |")
    print("|---" * (len(on) + 1) + "|")
    for service in found:
        row = [figures[service, variant] for variant in on]
        least = min(statistics.median(cell) for cell in row)
        cells = []
        for cell in row:
            text = f"{statistics.median(cell):.0f}"
            if ROUNDS > 1:
                text += f" ({min(cell):.0f} to {max(cell):.0f})"
            is_least = statistics.median(cell) == least
            cells.append(f"**{text}**" if is_least else text)
        print(f"| {service} | " + " | ".join(cells) + " |")


main(*sys.argv[1:])
