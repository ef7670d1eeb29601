//! `quarry-sqlite-load`: work for SQLite with its own page cache or Quarry's. It prints its figures
//! as one line of JSON; `quarry lab run sqlite-budget` and related experiments start it.

mod api;
mod breathe;
mod connection;
mod databases;
mod device;
mod faults;
mod histogram;
mod lookups;
mod memory;
mod script;
mod stress;
mod truncate;
mod variant;
mod zipf;

use anyhow::Result;
use clap::{Parser, Subcommand};
use serde::Serialize;
use std::path::PathBuf;

/// Work for SQLite with its own page cache or Quarry's.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make the databases that `lookups` reads.
    Create {
        /// Folder for the databases.
        folder: PathBuf,
        /// Number of databases.
        #[arg(long, default_value = "256")]
        databases: usize,
        /// Bytes of each database.
        #[arg(long, default_value = "8388608")]
        bytes: u64,
    },
    /// Look rows up by their keys.
    Lookups(lookups::Lookups),
    /// Write and read by many threads at once, and check all rows.
    Stress(stress::Stress),
    /// Truncate and close a large cache while another thread works.
    Truncate(truncate::Truncate),
    /// Let every request for memory fail once, and look at what is left.
    Faults(faults::Faults),
    /// Let a heap breathe beside readers and writers of the page cache, without SQLite.
    Breathe(breathe::Breathe),
    /// Run SQL and print every row and every error.
    Script(script::Script),
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Create { folder, databases, bytes } => {
            databases::create(&folder, databases, bytes)
        }
        Command::Lookups(load) => print(&load.run()?),
        Command::Truncate(load) => print(&load.run()?),
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
