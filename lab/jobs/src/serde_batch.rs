//! A batch job on two threads: it parses documents of JSON as values and as structs, builds an
//! index of words, and sorts strings.

use fastrand::Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashMap;

const DOCUMENTS: u64 = 5_000;
/// Entries of the index, per hundredth of the job.
const ENTRIES: u64 = 300_000;
/// Keys of the index, per hundredth of the job.
const KEYS: u64 = 60_000;
/// Strings to sort, per hundredth of the job.
const STRINGS: u64 = 40_000;

#[derive(Serialize, Deserialize)]
struct Order {
    id: u64,
    customer: String,
    tags: Vec<String>,
    lines: Vec<Line>,
    note: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    article: String,
    count: u32,
    price: f64,
}

fn order(random: &mut Rng, id: u64) -> Order {
    let word = |random: &mut Rng, stem: &str| format!("{stem}-{}", random.u64(..100_000));
    let lines = (0..1 + random.u64(..12)).map(|_| Line {
        article: word(random, "article"),
        count: random.u64(..100) as u32,
        price: random.u64(..100_000) as f64 / 100.0,
    });
    let lines = lines.collect();
    Order {
        id,
        customer: word(random, "customer"),
        tags: (0..random.u64(..6)).map(|_| word(random, "tag")).collect(),
        lines,
        note: (random.u64(..3) == 0).then(|| "x".repeat(random.u64(..400) as usize)),
    }
}

fn batch(number: u64) -> u64 {
    let mut random = Rng::with_seed(number + 1);
    let documents: Vec<String> = (0..DOCUMENTS)
        .map(|id| serde_json::to_string(&order(&mut random, id)).expect("an order is JSON"))
        .collect();
    let orders: Vec<Order> = documents
        .iter()
        .map(|text| serde_json::from_str(text).expect("it was written from an order"))
        .collect();
    let values: Vec<Value> = documents
        .iter()
        .map(|text| serde_json::from_str(text).expect("it was written from an order"))
        .collect();
    let counts: u64 = orders.iter().flat_map(|it| &it.lines).map(|it| u64::from(it.count)).sum();
    let tags: usize =
        values.iter().filter_map(|it| it["tags"].as_array()).map(|tags| tags.len()).sum();
    counts + tags as u64
}

fn index(part: u64, hundredths: u64) -> u64 {
    let mut random = Rng::with_seed(100 + part);
    let mut index: HashMap<String, Vec<u64>> = HashMap::new();
    for entry in 0..hundredths * ENTRIES / 2 {
        let key = format!("word-{}-{part}", random.u64(..hundredths * KEYS / 2));
        index.entry(key).or_default().push(entry);
    }
    index.values().map(|entries| entries.len() as u64 * entries[0] % 1009).sum()
}

/// Does this many hundredths of the job on two threads, and prints the sums.
pub fn run(hundredths: u64) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("two threads");
    pool.install(|| {
        let batches: u64 = (0..hundredths / 2).into_par_iter().map(batch).sum();
        let words: u64 = (0..2u64).into_par_iter().map(|part| index(part, hundredths)).sum();
        let mut strings: Vec<String> = (0..hundredths * STRINGS)
            .into_par_iter()
            .map(|at| format!("{:016x}", Rng::with_seed(at).u64(..)))
            .collect();
        strings.par_sort_unstable();
        println!("batches {batches}, words {words}, first {}", strings[0]);
    });
}

/// Does as many hundredths of the job as the first argument says, or all of it.
pub fn main() {
    let hundredths = std::env::args().nth(1).map_or(Ok(100), |text| text.parse());
    match hundredths {
        Ok(hundredths @ 1..=1000) => run(hundredths),
        _ => eprintln!("usage: serde-batch [HUNDREDTHS], 1 to 1000; 100 is the whole job"),
    }
}
