//! The program `cache-hit`: `quarry lab run cache-hit` starts it for every sample.
//!
//! `cache-hit list` prints the variants and workloads as one line of JSON. `cache-hit __sample
//! cache-hit '{..}'` prints a measurement as one line of JSON.
//!
//! A new cache is a file in `caches`, a line in `variants`, and its name in
//! `lab/experiments/src/experiments/cache_hit.rs`.

use anyhow::Result;
use cache_hit::trace::Workload;
use cache_hit::variants::{CacheHit, VARIANTS};
use clap::{Parser, Subcommand};
use quarry_harness::launch::{SampleArgs, WorkKind};
use serde_json::{Value, json};

/// Caches of pages, measured by `quarry lab run cache-hit`.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Cmd,
}

#[derive(Subcommand)]
enum Cmd {
    /// Print the variants and workloads as JSON.
    List,
    /// Take one sample in this process, and print it as one line of JSON.
    #[command(name = "__sample", hide = true)]
    Sample(SampleArgs),
}

fn list() -> Value {
    let variants = VARIANTS
        .iter()
        .map(|it| json!({ "name": it.name, "about": it.about, "is_simulator": it.is_simulator }));
    let workloads = Workload::ALL
        .iter()
        .map(|it| json!({ "name": it.name(), "about": it.about(), "fits": it.fits() }));
    json!({
        "variants": variants.collect::<Vec<_>>(),
        "workloads": workloads.collect::<Vec<_>>(),
    })
}

fn main() -> Result<()> {
    let line = match Cli::parse().command {
        Cmd::List => list().to_string(),
        Cmd::Sample(order) => {
            let kinds = [WorkKind::of::<CacheHit>()];
            serde_json::to_string(&order.measure(kinds.into_iter())?)?
        }
    };
    println!("{line}");
    Ok(())
}
