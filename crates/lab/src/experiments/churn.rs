//! `churn`: whether memory grows over phases of different sizes and threads that come and go.

use crate::FindLibrary;
use crate::allocators::{self, Allocator};
use crate::environment::Environment;
use crate::statistics;
use crate::table;
use crate::watch::{Watched, watch};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

const MIB: f64 = (1 << 20) as f64;
/// Whether memory grows over phases of different sizes and threads that come and go.
///
/// A week of a server in small. Each phase replaces half of about 64 MiB of live blocks, chosen at
/// random, by blocks of another family of sizes, while four short-lived threads with working sets
/// of their own allocate and free beside it. The sequence of calls is the same for every allocator
/// but for how far it gets in the time; so the drift is told per 1,000 phases as well. As a soak:
/// `--seconds 600`.
#[derive(Args)]
pub struct Churn {
    /// Which allocators: glibc, jemalloc, tcmalloc, mimalloc, quarry, or NAME=FILE.
    #[arg(long, value_delimiter = ',', default_value = "jemalloc,quarry")]
    allocators: Vec<String>,
    /// How long each runs.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Three seconds each.
    #[arg(long, conflicts_with = "seconds")]
    quick: bool,
    /// Write every reading to a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Churn {
    /// Runs the experiment and prints its table.
    pub(crate) fn run(mut self, find_library: FindLibrary<'_>, out: &mut dyn Write) -> Result<()> {
        if self.quick {
            self.seconds = 3;
        }
        let found = allocators::find(&self.allocators, find_library)?;
        for absent in &found.absent {
            writeln!(out, "absent: {absent}")?;
        }
        if found.allocators.is_empty() {
            bail!("none of the allocators is there");
        }
        writeln!(
            out,
            "{}\n{} s each, one after the other.\n",
            Environment::capture().summary(),
            self.seconds
        )?;
        let (mut rows, mut all, mut failures) = (Vec::new(), Vec::new(), Vec::new());
        for allocator in &found.allocators {
            match self.take(allocator) {
                Ok(watched) => {
                    rows.push(row(&allocator.name, &watched));
                    all.push((allocator.name.clone(), watched));
                }
                Err(error) => failures.push(format!("{}: {error:#}", allocator.name)),
            }
        }
        let header = [
            "resident above live, MiB",
            "phases",
            "second quarter",
            "last quarter",
            "drift",
            "drift per 1,000 phases",
            "peak",
        ];
        writeln!(out, "{}", table::render(header.map(str::to_owned).to_vec(), rows))?;
        if let Some(path) = &self.json {
            fs::write(path, serde_json::to_string(&all)?)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        if !failures.is_empty() {
            bail!("samples failed:\n{}", failures.join("\n"));
        }
        Ok(())
    }

    fn take(&self, allocator: &Allocator) -> Result<Watched> {
        let arguments = ["churn".to_owned(), format!("--seconds={}", self.seconds)];
        let last = ("idle", Duration::from_millis(100));
        let interval = Duration::from_millis(200);
        let watched = watch(&arguments, allocator.preload.as_deref(), &[], interval, last)?;
        allocator.check(&watched.measurement).map_err(anyhow::Error::msg)?;
        Ok(watched)
    }
}

/// Resident memory above the live bytes after each phase, and where it went.
fn row(name: &str, watched: &Watched) -> Vec<String> {
    let above: Vec<f64> = watched
        .phases
        .iter()
        .filter_map(|(_, line)| {
            let mut words = line.strip_prefix("phase ")?.split(' ').skip(1);
            let mut number = || words.next()?.parse::<f64>().ok();
            let (live, resident) = (number()?, number()?);
            Some((resident - live) / MIB)
        })
        .collect();
    let quarter = |number: usize| {
        let (from, to) = (above.len() * number / 4, above.len() * (number + 1) / 4);
        statistics::median(&above[from..to]).unwrap_or(f64::NAN)
    };
    let (early, late) = (quarter(1), quarter(3));
    let peak = above.iter().copied().fold(f64::NAN, f64::max);
    let drift = late - early;
    // From the middle of the second quarter to that of the last one.
    let per_thousand = drift / (above.len() as f64 / 2.0) * 1e3;
    let mut row = vec![name.to_owned(), above.len().to_string()];
    row.extend([early, late, drift, per_thousand, peak].map(|mib| format!("{mib:.1}")));
    row
}
