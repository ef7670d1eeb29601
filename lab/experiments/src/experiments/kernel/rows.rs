//! The workloads, read from `data/kernel.toml`.

use crate::experiments::replay::beside::Beside;
use crate::witness::work::Calls;
use anyhow::Result;
use serde::Deserialize;
use std::fmt;
use std::sync::LazyLock;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    row: Vec<Row>,
}

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

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let table: Table = toml::from_str(include_str!("../../../data/kernel.toml"))
        .expect("a test reads all of them");
    table.row
});

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Row {
    pub(super) fn all() -> Vec<&'static Self> {
        ROWS.iter().collect()
    }

    /// The replay of the same kernel path.
    pub(super) fn replay(&self) -> Result<Beside> {
        let Replay { experiment, row, amount } = &self.replay;
        Beside::find(experiment, row, *amount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_its_replay() {
        let rows = Row::all();
        for row in &rows {
            row.replay().unwrap();
            assert!(row.quick <= row.operations && row.quick > 0, "{row}");
        }
        let documented = |name: &str| {
            let row = rows.iter().find(|row| row.name == name).unwrap();
            row.replay().unwrap().documented(1).len()
        };
        assert_eq!((documented("faults"), documented("delete-sparse")), (4, 2));
    }
}
