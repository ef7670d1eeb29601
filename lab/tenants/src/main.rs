//! Queries of DataFusion as tenants. Each runs on a thread inside a group of its own, and its pool
//! asks the group what the query is charged for, not the engine's own reservations.
//!
//! * A query that meets its limit spills to disk where its operators can, or fails with an error
//!   that names its group; others have the same results, and take the same CPU time.
//! * Charged bytes beside the engine's reservations, at each change of these.

mod pool;
mod query;

use quarry::Quarry;
use query::{Outcome, Query, table};
use std::thread;

#[global_allocator]
static ALLOCATOR: Quarry = Quarry;

const MIB: usize = 1 << 20;
const ROWS: i64 = 1_000_000;

const AGGREGATE: &str = "SELECT key, count(*), sum(value), min(text) FROM t GROUP BY key";
const SORT: &str = "SELECT * FROM t ORDER BY text, id";
const JOIN: &str = "SELECT count(*) FROM t AS a JOIN t AS b ON a.text = b.text";
const SMALL: &str = "SELECT key % 1000, sum(value) FROM t GROUP BY key % 1000";

fn row(name: &str, outcome: &Outcome) {
    let Outcome { rows, error, charged, reserved, cpu, .. } = outcome;
    let [charged, reserved] = [charged, reserved].map(|bytes| *bytes as f64 / MIB as f64);
    let result = error.clone().unwrap_or(format!("{rows} rows"));
    println!("{name:<20} {charged:>8.1} {reserved:>8.1} {:>7.2}  {result}", cpu.as_secs_f64());
}

/// Reserved bytes over charged ones, of the samples above 8 MiB.
fn ratios(name: &str, outcome: &Outcome) {
    let large = outcome.samples.iter().filter(|(charged, _)| *charged > 8 * MIB);
    let mut all: Vec<f64> = large.map(|(charged, held)| *held as f64 / *charged as f64).collect();
    all.sort_by(f64::total_cmp);
    let Some(last) = all.len().checked_sub(1) else { return };
    let [low, median, high] = [0.01, 0.5, 0.99].map(|part| all[(last as f64 * part) as usize]);
    println!("{name:<20} {low:>8.2} {median:>8.2} {high:>8.2}  of {} samples", all.len());
}

fn main() {
    let table = table(ROWS);
    let run = |name: &'static str, sql, limit| {
        let table = table.clone();
        Query { name, sql, limit, table }.run()
    };
    println!("{:<20} {:>8} {:>8} {:>7}  result", "query", "charged", "reserved", "CPU s");

    let whole = [("aggregate", AGGREGATE), ("sort", SORT), ("join", JOIN)]
        .map(|(name, sql)| (name, run(name, sql, usize::MAX)));
    whole.iter().for_each(|(name, outcome)| row(name, outcome));

    let limit = 64 * MIB;
    let spilled = run("aggregate in 64 MiB", AGGREGATE, limit);
    row("aggregate in 64 MiB", &spilled);
    let failed = [("sort in 64 MiB", SORT), ("join in 64 MiB", JOIN)]
        .map(|(name, sql)| (name, run(name, sql, limit)));
    failed.iter().for_each(|(name, outcome)| row(name, outcome));

    let alone: Vec<Outcome> = (0..5).map(|_| run("small", SMALL, usize::MAX)).collect();
    let beside: Vec<Outcome> = thread::scope(|scope| {
        let greedy = scope.spawn(|| (0..5).map(|_| run("greedy", JOIN, limit)).collect::<Vec<_>>());
        let beside = (0..5).map(|_| run("small", SMALL, usize::MAX)).collect();
        let greedy = greedy.join().expect("a query fails by an error");
        assert!(greedy.iter().all(|outcome| outcome.error.is_some()), "the limit is met");
        beside
    });
    let best = |all: &[Outcome]| all.iter().map(|it| it.cpu).min().expect("there are five");
    row("small, alone", &alone[0]);
    row("small, beside a join", &beside[0]);
    let slowed = best(&beside).as_secs_f64() / best(&alone).as_secs_f64();
    println!("{:<20} {slowed:.2} times the CPU time, least of 5 each", "beside a join");

    println!("\n{:<20} {:>8} {:>8} {:>8}  reserved / charged", "query", "1 %", "median", "99 %");
    whole.iter().for_each(|(name, outcome)| ratios(name, outcome));
    ratios("aggregate in 64 MiB", &spilled);

    assert_eq!(spilled.error, None, "it spills");
    assert_eq!((spilled.rows, spilled.sum), (whole[0].1.rows, whole[0].1.sum), "the same rows");
    assert!(spilled.charged <= limit, "it stays within its limit");
    for (name, outcome) in &failed {
        let error = outcome.error.as_deref().expect("the limit is met");
        assert!(error.contains(&format!("group {name}")), "the error names the group: {error}");
    }
    let sums: Vec<u64> = alone.iter().chain(&beside).map(|it| it.sum).collect();
    assert!(sums.iter().all(|sum| *sum == sums[0]), "others are not harmed");
    assert_eq!(quarry::Group::numbers().count(), 0, "each group went with its query");
}
