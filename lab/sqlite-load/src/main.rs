//! `quarry-sqlite-load`: work for Quarry's page cache. With SQLite on it, or on SQLite's own, tests
//! start it; without SQLite, the experiment `one-budget`.

mod api;
mod breathe;
mod connection;
mod faults;
mod histogram;
mod random;
mod script;
mod stress;
mod variant;

use anyhow::Result;
use clap::{Parser, Subcommand};
use serde::Serialize;

/// Work for Quarry's page cache, with SQLite and without.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write and read by many threads at once, and check all rows.
    Stress(stress::Stress),
    /// Let every request for memory fail once, and look at what is left.
    Faults(faults::Faults),
    /// Let a heap breathe beside readers and writers of the page cache, without SQLite.
    Breathe(breathe::Breathe),
    /// Run SQL and print every row and every error.
    Script(script::Script),
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Faults(load) => print(&load.run()?),
        Command::Breathe(load) => print(&load.run()?),
        Command::Stress(load) => load.run(),
        Command::Script(script) => script.run(),
    }
}

fn print(figures: &impl Serialize) -> Result<()> {
    println!("{}", serde_json::to_string(figures)?);
    Ok(())
}
