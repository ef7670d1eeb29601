"""Servers under load while someone disturbs them, for scripts/soak.sh.

    services.py LIBRARIES MINUTES LOG

LIBRARIES is the folder of libquarry.so and libquarry-full.so, and may have the command `quarry`.
A turn starts PostgreSQL, redis or memcached on one of the libraries, under load, and disturbs it
each second: it stops one of the server's processes (SIGSTOP), moves it to other CPUs, moves the
limit of the server's control group, reloads the server, lets it fork, takes a heap profile from
outside, or kills the server (kill -9) and starts it again. What the server has confirmed must be
there, also after a kill, and nothing but a kill may end a server. The record has a line for each
turn; with the LOG of a run that was stopped, the run goes on after its last turn.
"""

import collections
import os
import pathlib
import pwd
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zlib

import log
from idle import connect

TURN = 60  # seconds
PATIENCE = 120
GROUPS = pathlib.Path("/sys/fs/cgroup/memory")


class Failed(Exception):
    """What a turn has found."""


def value_of(key, version):
    """A value of up to 6 KiB that its key and version tell."""
    size = zlib.crc32(b"%d %d" % (key, version)) % 6000
    return (b"%d:%d;" % (key, version) * (size // 4 + 1))[:size]


def owner(server):
    """The numbers of the user and group of a server, if root runs the soak."""
    entry = pwd.getpwnam(server.user)
    return {"user": entry.pw_uid, "group": entry.pw_gid} if os.getuid() == 0 else {}


class Redis:
    """Each write goes to a file before redis confirms it, and survives kill -9."""

    name, user, forks = "redis", "nobody", True

    @staticmethod
    def program():
        return shutil.which("redis-server")

    def __init__(self, folder):
        self.socket = f"{folder}/socket"
        self.folder = folder
        self.versions = {}
        self.unsure = set()
        self.stop = threading.Event()

    def command(self):
        return ["redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "",
                "--appendonly", "yes", "--appendfsync", "no", "--dir", self.folder,
                "--auto-aof-rewrite-percentage", "0", "--loglevel", "warning"]

    def ask(self, *words):
        request = b"*%d\r\n" % len(words) + b"".join(
            b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        self.link.sendall(request)
        line = self.answers.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("cut off")
        if line[:1] == b"-":
            raise Failed(f"redis answers {line!r} to {words[0]!r}")
        if line[:1] != b"$":
            return line[1:-2]
        length = int(line[1:])
        return None if length < 0 else self.answers.read(length + 2)[:-2]

    def open(self):
        """Waits until the server has its data."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self.link = connect(self.socket)
                self.link.settimeout(PATIENCE)
                self.answers = self.link.makefile("rb")
                self.ask(b"PING")
                return
            except (OSError, Failed):
                if time.monotonic() > end:
                    raise Failed("redis does not answer") from None
                time.sleep(0.1)

    def write(self, numbers):
        """Writes until told to stop; what was not confirmed may have either version."""
        count = 0
        while not self.stop.is_set():
            key = numbers.randrange(5000)
            version = self.versions.get(key, 0) + 1
            try:
                self.ask(b"SET", b"%d" % key, value_of(key, version))
                self.versions[key] = version
                self.unsure.discard(key)
                count += 1
            except (ConnectionError, TimeoutError, OSError):
                self.unsure.add(key)
                return count
        return count

    def verify(self):
        for key, version in self.versions.items():
            found = self.ask(b"GET", b"%d" % key)
            allowed = [value_of(key, version)]
            if key in self.unsure:
                allowed.append(value_of(key, version + 1))
            if found not in allowed:
                raise Failed(f"redis has {found!r:.80} as {key}, version {version}")
            if found != allowed[0]:
                self.versions[key] += 1
        self.unsure.clear()
        return len(self.versions)

    def reload(self):
        subprocess.run(["redis-cli", "-s", self.socket, "CONFIG", "SET", "maxmemory-samples", "7"],
                       stdout=subprocess.DEVNULL, timeout=PATIENCE, check=False)

    def fork(self):
        subprocess.run(["redis-cli", "-s", self.socket, "BGREWRITEAOF"], timeout=PATIENCE,
                       stdout=subprocess.DEVNULL, check=False)


class Memcached:
    """Four threads in C; a kill empties it."""

    name, user, forks = "memcached", "nobody", False

    @staticmethod
    def program():
        return shutil.which("memcached")

    def __init__(self, folder):
        self.socket = f"{folder}/socket"
        self.versions, self.unsure = {}, set()
        self.stop = threading.Event()

    def command(self):
        self.versions.clear()
        pathlib.Path(self.socket).unlink(missing_ok=True)
        return ["memcached", "-s", self.socket, "-t", "4", "-m", "64", "-M"]

    def open(self):
        self.link = connect(self.socket)
        self.link.settimeout(PATIENCE)
        self.answers = self.link.makefile("rb")

    def write(self, numbers):
        count = 0
        while not self.stop.is_set():
            key = numbers.randrange(5000)
            version = self.versions.get(key, 0) + 1
            value = value_of(key, version)
            try:
                self.link.sendall(b"set %d 0 0 %d\r\n%s\r\n" % (key, len(value), value))
                answer = self.answers.readline()
            except OSError:
                return count
            if answer == b"":
                return count
            if answer != b"STORED\r\n":
                raise Failed(f"memcached answers {answer!r}")
            self.versions[key] = version
            count += 1
        return count

    def verify(self):
        for key, version in self.versions.items():
            self.link.sendall(b"get %d\r\n" % key)
            head = self.answers.readline().split()
            found = self.answers.read(int(head[3]) + 2)[:-2] if len(head) == 4 else None
            if len(head) == 4:
                self.answers.readline()
            if found != value_of(key, version):
                raise Failed(f"memcached has {found!r:.80} as {key}, version {version}")
        return len(self.versions)

    def reload(self):
        pass

    def fork(self):
        pass


class Postgres:
    """Every transaction adds the same amount to four tables."""

    name, user, forks = "PostgreSQL", "postgres", True
    SUMS = ("select sum(abalance) = (select sum(tbalance) from pgbench_tellers) and "
            "sum(abalance) = (select sum(bbalance) from pgbench_branches) and sum(abalance) = "
            "(select coalesce(sum(delta), 0) from pgbench_history) from pgbench_accounts")

    @staticmethod
    def program():
        return max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), default=None)

    def __init__(self, folder):
        self.bin, self.folder = self.program(), folder
        self.is_new = True
        self.stop = threading.Event()

    def run(self, tool, *words, check=False):
        return subprocess.run([str(self.bin / tool), *words], text=True, capture_output=True,
                              timeout=PATIENCE, check=check, **owner(self))

    def command(self):
        if self.is_new:
            self.run("initdb", "-D", f"{self.folder}/data", "-U", "quarry", "-A", "trust", "-N",
                     check=True)
        pathlib.Path(f"{self.folder}/data/postmaster.pid").unlink(missing_ok=True)
        return [str(self.bin / "postgres"), "-D", f"{self.folder}/data", "-h", "", "-k",
                self.folder, "-c", "fsync=off", "-c", "shared_buffers=64MB", "-c", "jit=off"]

    def ask(self, text):
        return self.run("psql", "-h", self.folder, "-U", "quarry", "-XqAt", "-c", text, "postgres")

    def open(self):
        end = time.monotonic() + PATIENCE
        while self.ask("select 1").stdout.strip() != "1":
            if time.monotonic() > end:
                raise Failed("PostgreSQL does not answer")
            time.sleep(0.1)
        if self.is_new:
            self.run("pgbench", "-h", self.folder, "-U", "quarry", "-i", "-q", "-s", "1",
                     "postgres", check=True)
            self.is_new = False

    def write(self, _):
        """pgbench ends when a backend is killed; it is started again."""
        before = self.rows()
        while not self.stop.is_set():
            self.run("pgbench", "-h", self.folder, "-U", "quarry", "-n", "-c", "4", "-T", "2",
                     "postgres")
            if self.ask("select 1").returncode != 0:
                return 0
        return self.rows() - before

    def rows(self):
        answer = self.ask("select count(*) from pgbench_history").stdout.strip()
        return int(answer) if answer.isdigit() else 0

    def verify(self):
        answer = self.ask(self.SUMS)
        if answer.stdout.strip() != "t":
            raise Failed(f"sums differ: {answer.stdout} {answer.stderr}")
        return self.rows()

    def reload(self):
        self.ask("select pg_reload_conf()")

    def fork(self):
        """A backend that is killed makes the postmaster end all others, and start anew."""
        self.ask("select pg_terminate_backend(pid) from pg_stat_activity "
                 "where pid <> pg_backend_pid() and application_name = 'pgbench' limit 1")


class Turn:
    """One server, its load and its disturbances."""

    def __init__(self, server, library, command, numbers, group):
        self.server, self.library, self.numbers = server, library, numbers
        self.quarry, self.group = command, group
        self.counts = collections.Counter()
        self.messages = tempfile.TemporaryFile()

    def start(self):
        self.process = subprocess.Popen(
            self.server.command(), env={**os.environ, "LD_PRELOAD": str(self.library)},
            stdout=self.messages, stderr=self.messages, start_new_session=True,
            **owner(self.server))
        if self.group:
            (self.group / "cgroup.procs").write_text(str(self.process.pid))
        self.server.open()
        self.wrote = None
        self.server.stop.clear()
        self.load = threading.Thread(target=self.write)
        self.load.start()

    def write(self):
        try:
            self.counts["requests"] += self.server.write(self.numbers)
        except (Failed, OSError, subprocess.SubprocessError) as error:
            self.wrote = error

    def rest(self):
        """Ends the load."""
        self.server.stop.set()
        self.load.join()
        if self.wrote:
            raise Failed(str(self.wrote))

    def kill_all(self):
        """Children may have process groups of their own, and end when their parent has."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        end = time.monotonic() + PATIENCE
        while self.group and (self.group / "cgroup.procs").read_text():
            if time.monotonic() > end:
                raise Failed("children of the killed server live on")
            time.sleep(0.05)

    def one(self):
        """The server's process or one of its children."""
        leader = self.process.pid
        children = pathlib.Path(f"/proc/{leader}/task/{leader}/children").read_text().split()
        return self.numbers.choice([leader, *map(int, children)])

    def disturb_stop(self):
        which = self.one()
        try:
            os.kill(which, signal.SIGSTOP)
            time.sleep(0.5)
            os.kill(which, signal.SIGCONT)
        except ProcessLookupError:
            pass  # it has ended

    def disturb_hop(self):
        cpus = sorted(os.sched_getaffinity(0))
        chosen = self.numbers.sample(cpus, self.numbers.randrange(1, len(cpus) + 1))
        try:
            for task in pathlib.Path(f"/proc/{self.one()}/task").iterdir():
                os.sched_setaffinity(int(task.name), chosen)
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has ended

    def disturb_limit(self):
        if not self.group:
            return False
        used = int((self.group / "memory.usage_in_bytes").read_text())
        limit = used + self.numbers.randrange(32, 256) * 2**20
        (self.group / "memory.limit_in_bytes").write_text(str(limit))
        return True

    def disturb_reload(self):
        self.server.reload()

    def disturb_fork(self):
        self.server.fork()
        return self.server.forks

    def disturb_profile(self):
        if not self.quarry:
            return False
        done = subprocess.run(
            [self.quarry, "profile", "--pid", str(self.one()), "--seconds", "0.5", "--wait", "2"],
            capture_output=True, text=True, timeout=PATIENCE, check=False)
        if done.returncode == 0:
            return True
        self.counts["profile not taken"] += 1  # the process is idle, or has ended
        return False

    def disturb_kill(self):
        self.server.stop.set()
        self.kill_all()
        self.load.join()
        self.start()
        self.verify()

    def verify(self):
        self.rest()
        self.counts["verified"] += self.server.verify()
        self.server.stop.clear()
        self.load = threading.Thread(target=self.write)
        self.load.start()

    def run(self, seconds):
        kinds = [name for name in dir(self) if name.startswith("disturb_")]
        self.start()
        try:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                kind = self.numbers.choice(kinds)
                if getattr(self, kind)() is not False:
                    self.counts[kind.removeprefix("disturb_")] += 1
                if self.process.poll() is not None:
                    raise Failed(f"the server ended with {self.process.returncode}")
                time.sleep(self.numbers.random())
            self.verify()
            self.rest()
        finally:
            self.server.stop.set()
            self.kill_all()
            self.load.join()
        self.messages.seek(0)
        said = [line for line in self.messages.read().decode(errors="replace").splitlines()
                if line.startswith("quarry: ") or "AddressSanitizer" in line]
        if said:
            raise Failed("; ".join(said[:3]))


def group_of():
    """A control group of memory of version 1 that may be written, or None."""
    group = GROUPS / f"quarry-soak-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        return None
    return group


def counters(lines):
    turns = [line for line in lines if "turn" in line]
    sums = collections.Counter()
    for line in turns:
        sums.update(line["counts"])
        sums[f"turns of {line['server']}"] += 1
    return ", ".join(f"{count} {name}" for name, count in sorted(sums.items()))


def one_turn(kind, library, command, seed):
    """The counts of a turn."""
    group = group_of()
    with tempfile.TemporaryDirectory() as folder:
        server = kind(folder)
        os.chown(folder, *(owner(server) or {"user": -1, "group": -1}).values())
        turn = Turn(server, library, command, random.Random(seed), group)
        try:
            turn.run(TURN)
        finally:
            if group:
                group.rmdir()
        return dict(turn.counts)


def main():
    folder, minutes, path = pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2]), sys.argv[3]
    libraries = [folder / name for name in ("libquarry.so", "libquarry-full.so")]
    kinds = [kind for kind in (Postgres, Redis, Memcached) if kind.program()]
    for kind in {Postgres, Redis, Memcached}.difference(kinds):
        print(f"skipped: services: {kind.name} is not installed")
    if not kinds:
        sys.exit("services: install one of postgresql, redis-server, memcached")
    places = [folder / "quarry", folder.parent / "tools/quarry"]
    command = next((str(place) for place in places if place.exists()), None)
    record = log.Log(path, "services", libraries, seed=random.SystemRandom().randrange(10**9))
    lines = record.lines or log.read(path)
    first, turn = lines[0]["seed"], sum("turn" in line for line in lines)
    while record.seconds() < minutes * 60:
        kind, library = kinds[turn % len(kinds)], libraries[turn // len(kinds) % 2]
        line = {"turn": turn, "server": kind.name, "library": library.stem, "seed": first + turn}
        try:
            line["counts"] = one_turn(kind, library, command, first + turn)
        except Failed as error:
            record.add(**line, counts={}, failed=f"{line}: {error}")
            sys.exit(f"services: {line}: {error}")
        lines.append(line)
        record.add(**line, counters=counters(lines))
        turn += 1
    record.add(counters=counters(lines), result="passed")
    print(log.row(path))


if __name__ == "__main__":
    main()
