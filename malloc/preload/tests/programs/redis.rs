//! redis-server under redis-benchmark, followed by a save and a load of all data.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{answer, installed};
use crate::support::{Run, Running, scratch};

/// A short path for a socket, because the path of the target directory may be too long.
pub(super) fn socket(purpose: &str) -> PathBuf {
    let name = format!("quarry-redis-{purpose}-{}.sock", std::process::id());
    std::env::temp_dir().join(name)
}

/// Options of a server that only this test can reach. `--save ''`: it forks only on command.
pub(super) fn start_server(folder: &Path, socket: &Path) -> Running {
    let mut server = Run::new(installed("redis-server", "redis-server"))
        .args(["--port", "0", "--save", "", "--appendonly", "no", "--enable-debug-command", "yes"])
        .args(["--io-threads", "2", "--activedefrag", "no", "--unixsocket"])
        .arg(socket)
        .arg("--dir")
        .arg(folder)
        .limit_s(300)
        .start();
    while !server.stdout_so_far().contains("eady to accept connections") {
        assert!(!server.has_ended(), "redis-server has ended\n{}", server.stdout_so_far());
        std::thread::yield_now();
    }
    server
}

/// A connection to the server through its socket.
pub(super) struct Client {
    program: PathBuf,
    socket: PathBuf,
}

impl Client {
    pub(super) fn new(socket: PathBuf) -> Self {
        Self { program: installed("redis-cli", "redis-tools"), socket }
    }

    pub(super) fn says(&self, words: &[&str]) -> String {
        answer(Command::new(&self.program).arg("-s").arg(&self.socket).args(words))
    }

    /// Runs the benchmark, which prints one line per test; panics if the server returns an error.
    pub(super) fn benchmark(&self, words: &str) {
        let program = installed("redis-benchmark", "redis-tools");
        let mut command = Command::new(program);
        command.arg("-s").arg(&self.socket).args(words.split_whitespace());
        let text = answer(&mut command);
        assert!(text.contains("requests per second"), "strange answer: {text}");
        assert!(!text.contains("Error"), "the server erred: {text}");
    }
}

#[test]
fn redis_serves_its_benchmark() {
    let folder = scratch();
    let socket = socket("benchmark");
    let server = start_server(&folder, &socket);
    let client = Client::new(socket);

    let maps = server.proc_file("maps");
    assert!(maps.contains("libquarry"), "the library is not mapped:\n{maps}");
    client.benchmark("-q -n 20000 -r 10000 -d 100 -P 16 -t set,get,incr,lpush,rpop,sadd,hset,zadd");
    client.benchmark("-q -n 4000 -r 2000 -d 9000 -P 4 -t set,get,lrange_100,mset");
    let digest = client.says(&["debug", "digest"]);
    assert_ne!(digest.trim(), "0".repeat(40), "the benchmark left nothing");
    client.says(&["debug", "reload"]);
    assert_eq!(client.says(&["debug", "digest"]), digest, "a save and a load changed the data");
    describes_its_heap(&client);
    save_in_a_child(&client);
    client.benchmark("-q -n 20000 -r 20000 -d 300 -P 16 -t set,get");
    client.says(&["flushall"]);
    client.says(&["memory", "purge"]);
    client.says(&["shutdown", "nosave"]);

    let outcome = server.finish().success();
    let allocs = outcome.stats().object_allocs_of_the_busiest();
    assert!(allocs > 200_000, "the server made {allocs} allocations\n{outcome}");
}

/// Debian's redis asks jemalloc, with which it is linked, for these figures. They are Quarry's.
fn describes_its_heap(client: &Client) {
    let memory = client.says(&["info", "memory"]);
    let figure = |name: &str| -> u64 {
        let line = memory.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|value| value.trim().parse().ok())
            .unwrap_or_else(|| panic!("{name}\n{memory}"))
    };
    let [used, allocated, active, resident] =
        ["used_memory", "allocator_allocated", "allocator_active", "allocator_resident"]
            .map(figure);
    assert!(allocated > used / 10 * 9 && allocated < used * 2, "{memory}");
    assert!(active >= allocated && resident >= active, "{memory}");
}

/// A forked child reads the whole heap while the parent continues.
fn save_in_a_child(client: &Client) {
    client.says(&["bgsave"]);
    client.benchmark("-q -n 20000 -r 20000 -d 100 -P 16 -t set,lpush");
    loop {
        let state = client.says(&["info", "persistence"]);
        if state.contains("rdb_bgsave_in_progress:0") {
            assert!(state.contains("rdb_last_bgsave_status:ok"), "the save failed:\n{state}");
            return;
        }
    }
}
