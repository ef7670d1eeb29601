//! The kernel paths of the documents' benchmarks, read from `lab/documents`: what each path
//! allocates and frees, and which threads walk it.

use crate::card::{self, Card};
use crate::crew::{self, Crew, Load, Place};
use crate::documents;
use crate::memory::{KernelMemory, Pages};
pub use crate::path::Work;
use crate::path::{Line, Path, Piece, Source};
use crate::solo::{self, Solo, Space, Timed};
use crate::stage::{Replayed, Scale};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A path as the file has it. The file itself explains the fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
struct Table {
    carrier: Option<String>,
    payload: Option<usize>,
    #[serde(default)]
    work: WorkRow,
    steps: Vec<String>,
    pieces: BTreeMap<String, PieceRow>,
    crew: Option<CrewRow>,
    solo: Option<SoloRow>,
    card: Option<Card>,
}

/// The time that a message costs besides the allocator, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorkRow {
    /// The total cost of a message in the document; 0 if the document has no figure.
    of: u64,
    /// The part of this cost that the replay replaces by computing for as long.
    ns: u64,
}

impl WorkRow {
    /// Makes the row of a message that takes this many nanoseconds besides the allocator.
    #[must_use]
    pub const fn of_ns(ns: u64) -> Self {
        Self { of: 0, ns }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PieceRow {
    cache: Option<String>,
    bytes: usize,
    kmalloc: Option<usize>,
    payload_and: Option<usize>,
    order: u8,
    movable: bool,
    cleared: usize,
    recycled: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CrewRow {
    #[serde(default = "one")]
    senders: usize,
    #[serde(default = "one")]
    receivers: usize,
    burst: Option<u32>,
    capacity: Capacity,
    #[serde(default)]
    pipe: bool,
    /// True if `--amount` is the number of turns of each sender.
    #[serde(default)]
    turns: bool,
}

fn one() -> usize {
    1
}

/// The messages that a queue has room for.
#[derive(Deserialize)]
#[serde(untagged)]
enum Capacity {
    Messages(u32),
    Count(String),
    /// As many messages as fill a socket buffer of this many bytes. The buffer takes another
    /// message as long as any room is left. A message is charged for the `kmalloc` buckets that
    /// hold it or, if `head` is given, for its own bytes and a head.
    Socket {
        socket: usize,
        head: Option<usize>,
    },
    /// As many messages as fill the buffer that a program asked for: twice a message plus some
    /// bytes, but at least the kernel's minimum.
    Asked {
        twice_message_and: usize,
        least: usize,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SoloRow {
    round: Round,
    timed: Timed,
    #[serde(default)]
    space: bool,
}

/// The messages of a round.
#[derive(Deserialize)]
#[serde(untagged)]
enum Round {
    Messages(u32),
    Count(String),
}

static TABLES: LazyLock<BTreeMap<String, Table>> =
    LazyLock::new(|| documents::tables(|document| document.paths));

/// The figures of one row of a benchmark; they complete the path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setting {
    /// Bytes of a message's payload.
    pub bytes: usize,
    /// Number of pages in a list of pages.
    pub length: u32,
    /// The rate at which senders send if the replay measures latency.
    pub load: Option<Load>,
    /// True if tasks share open files or an address space.
    pub threads: bool,
    /// The value of `--amount`; 0 = as much as fits.
    pub amount: u32,
    /// The CPUs of a sender and of its receiver.
    pub place: Place,
    /// The cost of a message, if it differs from the path's.
    pub work: Option<WorkRow>,
}

impl Setting {
    /// Returns the number of messages that `text` describes: a product of numbers, list lengths of
    /// this row, and the number of messages in a given number of KiB.
    fn count(&self, text: &str) -> u32 {
        let factor = |text: &str| match text.strip_suffix(" KiB") {
            None if text == "length" => self.length,
            None => text.parse().expect("a number"),
            Some(kib) => {
                let bytes = kib.parse::<usize>().expect("a number") << 10;
                (bytes / self.bytes.max(1)).max(1) as u32
            }
        };
        text.split(" x ").map(factor).product()
    }
}

impl Table {
    fn piece(&self, name: &str, payload: usize) -> Piece {
        let row = self.pieces.get(name).expect("every piece of a step is described");
        // Payload and headers together are rounded up to whole cache lines.
        let before = row.payload_and.map_or(0, |headers| (payload + headers).next_multiple_of(64));
        let source = match (&row.cache, row.kmalloc) {
            (Some(name), _) => Source::Cache { name: name.clone(), bytes: row.bytes },
            (None, Some(bytes)) => Source::Kmalloc(before + bytes),
            (None, None) => Source::Pages(Pages { order: row.order, movable: row.movable }),
        };
        Piece { source, cleared: row.cleared, recycled: row.recycled, batch: 1 }
    }

    fn scenario(&self, setting: &Setting) -> Scenario {
        let payload = self.payload.unwrap_or(setting.bytes);
        let count = |text: &str| setting.count(text);
        let lines = self.steps.iter().map(|step| Line::parse(step, count));
        let lines: Vec<Line<'_>> = lines.collect();
        let piece = |name: &str| self.piece(name, payload);
        let WorkRow { of, ns } = setting.work.unwrap_or(self.work);
        let work = match self.solo {
            Some(_) => Work { sender: ns, ..Work::default() },
            None => Work { sender: ns - ns / 2, receiver: ns / 2, wire: 0 },
        };
        let path = Path::new(&lines, piece, self.carrier.as_deref(), payload, work);
        let cast = match (&self.crew, &self.solo, self.card) {
            (None, None, Some(card)) => Cast::Card(card),
            (Some(row), None, None) => {
                let sent = lines.iter().filter_map(Line::sent);
                let buckets = sent.map(|name| piece(name).source.bytes()).sum();
                Cast::Crew(self.crew(row, setting, buckets))
            }
            (None, Some(row), None) => Cast::Solo(Solo {
                round: setting.amount
                    * match &row.round {
                        Round::Messages(messages) => *messages,
                        Round::Count(text) => setting.count(text),
                    },
                timed: row.timed,
                space: match (row.space, setting.threads) {
                    (false, _) => Space::None,
                    (true, false) => Space::Private,
                    (true, true) => Space::Shared,
                },
                ..Solo::default()
            }),
            _ => panic!("a path is walked by crews, by tasks or through a card"),
        };
        Scenario { path, cast, documented_ns: of }
    }

    fn crew(&self, row: &CrewRow, setting: &Setting, buckets: usize) -> Crew {
        let capacity = match &row.capacity {
            Capacity::Messages(count) => *count,
            Capacity::Count(text) => setting.count(text),
            Capacity::Socket { socket, head } => {
                let own = self.pieces.values().find_map(|piece| piece.payload_and);
                let own = (setting.bytes + own.unwrap_or(0)).next_multiple_of(64);
                socket.div_ceil(head.map_or(buckets, |head| own + head)) as u32
            }
            Capacity::Asked { twice_message_and, least } => {
                let socket = (2 * (setting.bytes + twice_message_and)).max(*least);
                socket.div_ceil(buckets) as u32
            }
        };
        let (burst, capacity) = match setting.amount {
            _ if setting.load.is_some() => (1, capacity),
            amount if amount > 0 && !row.turns => (amount, amount),
            _ => (row.burst.unwrap_or(capacity), capacity),
        };
        Crew {
            senders: row.senders,
            receivers: row.receivers,
            burst,
            capacity,
            pipe: row.pipe,
            shared_files: setting.threads,
            load: setting.load,
            place: setting.place,
            turns: row.turns.then_some(setting.amount.into()),
        }
    }
}

/// A path, and the tasks that walk it.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The allocations and frees.
    pub path: Path,
    /// The threads or tasks that make them.
    pub cast: Cast,
    /// The total nanoseconds of a message in the document; 0 if it has no figure.
    pub documented_ns: u64,
}

/// The walkers of a path. For a crew, a task is one group; otherwise it is one process.
#[derive(Clone, Copy, Debug)]
pub enum Cast {
    /// Groups of senders and receivers.
    Crew(Crew),
    /// Processes by themselves.
    Solo(Solo),
    /// Processes that send requests to another host.
    Card(Card),
}

impl Scenario {
    /// Returns the path of this name, with the figures of this row.
    ///
    /// # Panics
    /// If no path has this name.
    pub fn of(path: &str, setting: &Setting) -> Self {
        TABLES.get(path).unwrap_or_else(|| panic!("no path {path}")).scenario(setting)
    }

    /// Runs the path.
    ///
    /// # Panics
    /// If there is no memory left, or a CPU is not ours to use.
    pub fn run<M: KernelMemory>(&self, memory: &M, scale: Scale<'_>) -> Replayed {
        match self.cast {
            Cast::Crew(crew) => crew::run(memory, &self.path, crew, scale),
            Cast::Solo(solo) => solo::run(memory, &self.path, solo, scale),
            Cast::Card(card) => card::run(memory, &self.path, card, scale),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::memory::tests::Uncached;
    use std::time::Duration;

    /// The path of this name with messages of `bytes` bytes.
    pub(crate) fn of_bytes(path: &str, bytes: usize) -> Scenario {
        Scenario::of(path, &Setting { bytes, ..Setting::default() })
    }

    /// The path of this name with `amount` as the value of `--amount`.
    pub(crate) fn of_amount(path: &str, amount: u32, threads: bool) -> Scenario {
        let bytes = if TABLES[path].crew.is_some() { 100 } else { 0 };
        Scenario::of(path, &Setting { bytes, amount, threads, length: 14, ..Setting::default() })
    }

    /// Runs a scenario briefly. Everything sent must arrive, and all memory must come back.
    fn run_briefly(scenario: &Scenario, tasks: usize) -> Replayed {
        let memory = Uncached::default();
        let moment = Duration::from_millis(1);
        let scale = Scale { tasks, cpus: &[], warm_up: Duration::ZERO, measured: moment };
        let replayed = scenario.run(&memory, scale);
        assert!(replayed.sent > 0);
        assert_eq!(replayed.verified, replayed.sent);
        assert_eq!(memory.check_at_end(), Ok(()));
        replayed
    }

    /// Allocations per message in a scenario, on a memory that caches nothing.
    fn allocs_per_message(scenario: &Scenario) -> f64 {
        let replayed = run_briefly(scenario, 1);
        replayed.counters.zone_allocs as f64 / replayed.sent as f64
    }

    #[test]
    fn datagrams_take_the_kernels_buckets() {
        let data = |path, payload| of_bytes(path, payload).path.pieces[1].source.clone();
        let bytes = |n| data("udp-linux-4-9", n).bytes();
        let sizes = [64, 128, 256, 1024, 2048, 3312, 4096].map(bytes);
        assert_eq!(sizes, [512, 512, 1024, 2048, 4096, 4096, 8192]);
        assert_eq!([8192, 16384].map(bytes), [16_384, 32_768]);
        assert_eq!(data("udp-linux-2-6-29", 4096), Source::Kmalloc(4480), "document 003");
        assert_eq!(data("udp-linux-2-6-29", 1024).bytes(), 2048);
    }

    #[test]
    fn bursts_fill_a_socket() {
        let burst = |path, bytes| match of_bytes(path, bytes).cast {
            Cast::Crew(crew) => crew.burst,
            Cast::Solo(_) | Cast::Card(_) => 0,
        };
        assert_eq!([4096, 1024].map(|bytes| burst("udp-linux-2-6-29", bytes)), [30, 98]);
        assert_eq!([64, 4096, 16384].map(|bytes| burst("udp-linux-4-9", bytes)), [278, 26, 7]);
        let room = |bytes| match of_bytes("udp-mmtests", bytes).cast {
            Cast::Crew(crew) => crew.capacity,
            Cast::Solo(_) | Cast::Card(_) => 0,
        };
        // The values that the document's author found: two or three packets.
        let rooms = [64, 128, 256, 1024, 2048, 3312, 4096, 8192, 16384].map(room);
        assert!(rooms.iter().all(|packets| (1..=3).contains(packets)), "{rooms:?}");
    }

    #[test]
    fn a_datagram_is_two_allocations() {
        let scenario = of_bytes("udp-linux-2-6-29", 4096);
        assert_eq!(allocs_per_message(&scenario), 2.0);
        assert_eq!(run_briefly(&scenario, 2).sent % 30, 0);
    }

    #[test]
    fn small_messages_of_a_stream_hardly_allocate() {
        let per_message = |payload| allocs_per_message(&of_bytes("tcp-stream", payload));
        for payload in [64, 128, 256, 1024, 2048, 4096, 8192, 16384] {
            // Head, data, two fragments, and an acknowledgement of two pieces for two packets.
            let per_packet = per_message(payload) * 65536.0 / payload as f64;
            assert_eq!(per_packet, 5.0, "{payload} bytes");
        }
        assert!(per_message(14) < 0.002);
        assert!(per_message(3312) < 0.4);
    }

    #[test]
    fn a_transaction_is_four_allocations() {
        for path in ["tcp-transactions", "tcp-through-card"] {
            let scenario = of_bytes(path, 1);
            assert_eq!(allocs_per_message(&scenario), 4.0);
            run_briefly(&scenario, 5);
        }
    }

    #[test]
    fn under_load_every_message_is_timed() {
        for (path, load) in [("tcp-messages", Load::Rate(50_000)), ("udp-linux-4-9", Load::Max)] {
            let setting = Setting { bytes: 14, load: Some(load), ..Setting::default() };
            let replayed = run_briefly(&Scenario::of(path, &setting), 1);
            assert_eq!(replayed.latencies.len() as u64, replayed.sent);
        }
    }

    #[test]
    fn a_group_sends_400_messages_a_loop() {
        for (path, threads) in [("pipe", false), ("socket", true)] {
            let replayed = run_briefly(&of_amount(path, 3, threads), 2);
            assert_eq!(replayed.sent, 2 * 400 * 3);
            let allocs = replayed.counters.zone_allocs;
            match path {
                "pipe" => assert!(allocs <= replayed.sent, "pages are shared or kept"),
                _ => assert_eq!(allocs, 2 * replayed.sent),
            }
        }
    }

    #[test]
    fn creation_frees_nothing() {
        let replayed = run_briefly(&of_amount("files", 200, false), 2);
        assert_eq!(replayed.sent % 400, 0);
        assert_eq!(replayed.counters.zone_frees, 0);
        assert_eq!(replayed.counters.zone_allocs * 100, replayed.sent * 201);
    }

    #[test]
    fn faults_take_pages_and_tables() {
        let replayed = run_briefly(&of_amount("page-fault", 1024, true), 2);
        assert_eq!(replayed.counters.zone_allocs * 1024, replayed.sent * (1024 + 2));
        // Four sections: pages are freed in lists of 510, 510 and 4, then both page tables at once.
        assert_eq!(replayed.counters.page_sections * 1024, replayed.sent * 4);
    }

    #[test]
    fn lists_have_the_length_asked_for() {
        for length in [1, 64, 512] {
            let setting = Setting { length, amount: 2, ..Setting::default() };
            let replayed = run_briefly(&Scenario::of("page-lists", &setting), 1);
            assert_eq!(replayed.counters.zone_allocs, 0, "taking pages is not measured");
            assert_eq!(replayed.counters.page_sections * u64::from(length), replayed.sent);
        }
    }
}
