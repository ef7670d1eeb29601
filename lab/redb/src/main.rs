//! Fills and reads a redb database with its own cache and on Quarry, checks that both give the same
//! answers, and prints how fast they are.

use anyhow::{Context, Result, ensure};
use clap::Parser;
use quarry::{PageCache, Quarry};
use redb_on_quarry::database::CachedBy;
use redb_on_quarry::workload::{Amount, Answers, fill, read};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// redb with its own cache, and with its pages in Quarry's page cache, under one limit with the
/// heap.
#[derive(Parser)]
struct Cli {
    /// Records that are inserted.
    #[arg(long, default_value = "200000")]
    records: u64,
    /// Records that are looked up at random.
    #[arg(long, default_value = "300000")]
    lookups: u64,
    /// Bytes that heap and cached pages may have together, in MiB; redb's own cache has a half.
    #[arg(long, default_value = "64")]
    limit_mib: usize,
    /// The folder of the database files, which are made anew.
    #[arg(long, value_name = "FOLDER", default_value_os_t = std::env::temp_dir())]
    folder: PathBuf,
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let amount = Amount { records: cli.records, lookups: cli.lookups };
    Quarry::set_limit(cli.limit_mib << 20)?;
    println!("{amount:?}, heap and cached pages have {} MiB", cli.limit_mib);
    let both = [CachedBy::Redb(cli.limit_mib << 19), CachedBy::Quarry];
    let mut answers = Vec::new();
    for by in both {
        let name = format!("redb-on-quarry-{}-{}.redb", std::process::id(), answers.len());
        let file = cli.folder.join(name);
        let done = work(by, &file, amount);
        std::fs::remove_file(&file).context("the database file")?;
        answers.push(done?);
    }
    ensure!(answers[0] == answers[1], "the answers differ: {answers:#?}");
    println!("both give the same answers: {:x?}", answers[0]);
    Ok(())
}

/// Fills a new database, closes it, opens it again, reads all, and checks the database's integrity.
fn work(by: CachedBy, file: &Path, amount: Amount) -> Result<Answers> {
    let start = Instant::now();
    fill(&by.open(file)?, amount)?;
    let filled = start.elapsed();
    let mut database = by.open(file)?;
    let (answers, looked_up) = read(&database, amount)?;
    let cached = PageCache::stats().pages() * 4096;
    ensure!(database.check_integrity()?, "the engine had to repair its file");
    println!(
        "{by}: filled in {filled:.2?}, {:.0} lookups per second, {:.1} MiB of pages cached",
        amount.lookups as f64 / looked_up.as_secs_f64(),
        cached as f64 / f64::from(1 << 20),
    );
    Ok(answers)
}
