//! One pattern of requests, or one job: `musl-patterns PATTERN` prints its nanoseconds for each
//! request (of a job, for all of it), the peak of its resident memory in KiB, and how much at its
//! end was in no file. `scripts/musl.sh` runs it with each allocator.
//!
//! With the feature `quarry` or `mimalloc` that allocator serves, else musl's own.

use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{env, fs, iter, thread};

#[cfg(feature = "quarry")]
#[global_allocator]
static ALLOCATOR: quarry::Quarry = quarry::Quarry;
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A pattern returns how many requests it made.
type Pattern = fn() -> u64;

const PATTERNS: [(&str, Pattern); 11] = [
    ("pairs", pairs),
    ("batches", batches),
    ("working-set", working_set),
    ("two-threads", two_threads),
    ("handover", handover),
    ("strings", strings),
    ("tree", tree),
    ("sqlite", sqlite),
    ("json", json),
    ("compiler", compiler),
    ("sleep", sleep),
];

/// A generator of random numbers (xorshift), the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A size of up to 1 KiB; small ones are more frequent.
    fn size(&mut self) -> usize {
        let number = self.next();
        let most = 16 << (number % 7);
        (number >> 8) as usize % most + 1
    }
}

fn object(size: usize) -> Box<[u8]> {
    let mut bytes = Vec::with_capacity(size);
    bytes.resize(size, 1);
    bytes.into_boxed_slice()
}

/// An object lives until the next request.
fn pairs() -> u64 {
    const COUNT: u64 = 20_000_000;
    for round in 0..COUNT {
        black_box(Vec::<u8>::with_capacity(black_box(16 + (round as usize & 255))));
    }
    COUNT
}

/// A thousand objects, freed in the order in which they came.
fn batches() -> u64 {
    const ROUNDS: u64 = 6_000;
    let mut random = Random(7);
    let mut objects = Vec::with_capacity(1000);
    for _ in 0..ROUNDS {
        objects.extend(iter::repeat_with(|| object(random.size())).take(1000));
        black_box(&objects);
        objects.clear();
    }
    ROUNDS * 1000
}

/// 50,000 live objects, each replaced at a random time.
fn replace(seed: u64, rounds: u64) -> u64 {
    let mut random = Random(seed);
    let mut objects: Vec<_> = (0..50_000).map(|_| object(random.size())).collect();
    for _ in 0..rounds {
        let at = random.next() as usize % objects.len();
        objects[at] = object(random.size());
    }
    rounds + objects.len() as u64
}

fn working_set() -> u64 {
    replace(3, 4_000_000)
}

fn two_threads() -> u64 {
    thread::scope(|scope| {
        let threads = [11, 13].map(|seed| scope.spawn(move || replace(seed, 3_000_000)));
        threads.map(|thread| thread.join().expect("it does not panic")).iter().sum()
    })
}

/// One thread makes objects, and another frees them.
fn handover() -> u64 {
    const BATCHES: u64 = 12_000;
    let (sender, receiver) = mpsc::sync_channel::<Vec<Box<[u8]>>>(8);
    thread::scope(|scope| {
        scope.spawn(move || receiver.iter().for_each(drop));
        let mut random = Random(17);
        for _ in 0..BATCHES {
            let batch = (0..256).map(|_| object(random.size())).collect();
            sender.send(batch).expect("the other thread receives");
        }
        drop(sender);
    });
    BATCHES * 256
}

/// A map of texts that grow word by word, as a report does.
fn strings() -> u64 {
    const ROUNDS: u64 = 3_000_000;
    let mut random = Random(19);
    let mut texts: HashMap<u64, String> = HashMap::new();
    for round in 0..ROUNDS {
        let text = texts.entry(random.next() % 20_000).or_default();
        text.push_str(&format!("{round} "));
        if text.len() > 400 {
            *text = String::new();
        }
    }
    ROUNDS
}

/// A document of nested maps and lists, built and dropped, as a parser does.
fn tree() -> u64 {
    const DOCUMENTS: u64 = 120;
    for document in 0..DOCUMENTS {
        let mut records = Vec::new();
        for record in 0..1000 {
            let mut fields = BTreeMap::new();
            for field in 0..12 {
                fields.insert(format!("field-{field}"), format!("{document} {record} {field}"));
            }
            records.push(fields);
        }
        black_box(records);
    }
    DOCUMENTS * 1000 * 26
}

/// Tables in memory: rows, an index, changes, a join.
fn sqlite() -> u64 {
    for _ in 0..4 {
        let database = rusqlite::Connection::open_in_memory().expect("there is memory");
        database.execute_batch(include_str!("../job.sql")).expect("it is SQL");
    }
    1
}

/// A document of some hundred KiB, read, changed and written.
fn json() -> u64 {
    let mut random = Random(23);
    let record = |number: usize, random: &mut Random| {
        serde_json::json!({
            "id": number, "name": format!("record {number}"), "score": random.next() as f64 / 7.0,
            "tags": ["a", "longer tag", format!("{:x}", random.next())], "parent": null,
        })
    };
    let records = (0..3000).map(|number| record(number, &mut random)).collect();
    let mut text = serde_json::Value::Array(records).to_string();
    for _ in 0..30 {
        let mut value: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        let number = random.next() as usize;
        let records = value.as_array_mut().expect("an array");
        let at = number % records.len();
        records[at] = record(number, &mut random);
        text = value.to_string();
    }
    black_box(text);
    1
}

/// The syntax trees of this file, of which each function stays for a while.
fn compiler() -> u64 {
    let mut functions: BTreeMap<String, syn::ItemFn> = BTreeMap::new();
    for round in 0..60 {
        let file = syn::parse_file(include_str!("main.rs")).expect("it compiles");
        for item in file.items {
            if let syn::Item::Fn(item) = item {
                functions.insert(format!("{} {}", item.sig.ident, round % 7), item);
            }
        }
    }
    black_box(functions);
    1
}

/// A program that does nothing.
fn sleep() -> u64 {
    thread::sleep(Duration::from_millis(20));
    1
}

/// A number of KiB in the kernel's description of this process.
fn kib(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).expect("the kernel prints this line")
}

fn main() {
    let name = env::args().nth(1).unwrap_or_default();
    let names = || PATTERNS.map(|(name, _)| name).join(", ");
    let pattern = PATTERNS.iter().find(|(known, _)| *known == name);
    let Some((_, pattern)) = pattern else {
        eprintln!("musl-patterns: {name}: accepted: {}", names());
        std::process::exit(2);
    };
    let start = Instant::now();
    let requests = pattern();
    let ns = start.elapsed().as_nanos() as f64 / requests as f64;
    println!("{ns:.2} {} {}", kib("VmHWM"), kib("RssAnon"));
}
