//! What a run was to reach, as a table for a terminal or a page; experiments fill it.

use crate::results::Run;
use crate::table;

/// Finds the targets of a run; `None` where its experiment has none.
pub type TargetsOf<'a> = &'a dyn Fn(&Run) -> Option<Targets>;

/// The table, for a terminal or a page.
pub struct Targets {
    /// Names of columns.
    pub header: Vec<String>,
    /// A row for each target.
    pub rows: Vec<Row>,
    /// How it is to be read.
    pub legend: String,
}

/// A row of the table.
pub struct Row {
    /// As they are printed.
    pub cells: Vec<String>,
    /// What it says.
    pub outcome: Outcome,
}

/// The column of outcomes.
pub const VERDICT: usize = 4;
/// Columns of words: work, against, verdict, peer, worst.
const TEXT_COLUMNS: [usize; 5] = [0, 1, VERDICT, 5, 6];

/// Whether a target is met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The whole interval lies at or below the aim.
    Met,
    /// The whole interval lies above it.
    Missed,
    /// Neither can be said, and why.
    Unclear(String),
    /// No sample was taken of it.
    NotRun,
}

impl Targets {
    /// The table with its legend.
    pub fn text(self) -> String {
        let rows = self.rows.into_iter().map(|row| row.cells).collect();
        let table = table::render_aligned(self.header, rows, &TEXT_COLUMNS);
        format!("{table}\n\n{}", self.legend)
    }
}
