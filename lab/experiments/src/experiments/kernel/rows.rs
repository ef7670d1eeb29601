//! The workloads, read from `data/kernel.toml`.

use crate::experiments::replay::beside::Beside;
use crate::tables::tables;
use crate::witness::work::Calls;
use anyhow::Result;
use serde::Deserialize;
use std::fmt;
use std::sync::LazyLock;

/// A workload; the file describes the fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) each: String,
    pub(super) about: String,
    pub(super) calls: Calls,
    pub(super) operations: u64,
    pub(super) quick: u64,
    replay: Replay,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Replay {
    experiment: String,
    row: String,
    amount: Option<u32>,
}

static ROWS: LazyLock<Vec<Row>> =
    LazyLock::new(|| tables(include_str!("../../../data/kernel.toml"), "row"));

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Row {
    pub(super) fn all() -> Vec<&'static Self> {
        ROWS.iter().collect()
    }

    /// The experiment that replays the same kernel path.
    pub(super) fn experiment(&self) -> &str {
        &self.replay.experiment
    }

    /// The replay of the same kernel path.
    pub(super) fn replay(&self) -> Result<Beside> {
        let Replay { experiment, row, amount } = &self.replay;
        Beside::find(experiment, row, *amount)
    }
}
