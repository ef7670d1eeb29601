//! A prediction beside the figure of a document.

use serde::{Deserialize, Serialize};

/// One figure of a document's table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The row, as the document has it, with the machine where there are several.
    pub row: String,
    /// The column, with its unit.
    pub column: String,
    /// In the document.
    pub document: f64,
    /// On the simulated machine.
    pub predicted: f64,
    /// Percentage points between two percentages; per cent of the document's figure between others.
    pub error_points: f64,
    /// True if a constant was fitted to this cell.
    pub calibrated: bool,
    /// A remark for readers; empty as a rule.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl Cell {
    /// A percentage.
    #[must_use]
    pub fn percent(row: &str, column: &str, document: f64, predicted: f64) -> Self {
        let error_points = predicted - document;
        let (row, column, note) = (row.to_owned(), column.to_owned(), String::new());
        Self { row, column, document, predicted, error_points, calibrated: false, note }
    }

    /// A rate or a time.
    #[must_use]
    pub fn figure(row: &str, column: &str, document: f64, predicted: f64) -> Self {
        let error_points = gain(document, predicted);
        Self { error_points, ..Self::percent(row, column, document, predicted) }
    }

    /// A constant was fitted to it.
    #[must_use]
    pub fn calibrated(self) -> Self {
        Self { calibrated: true, ..self }
    }

    /// The same with a note.
    #[must_use]
    pub fn noting(self, note: &str) -> Self {
        Self { note: note.to_owned(), ..self }
    }

    /// Returns whether it is a prediction: nothing was fitted to it, and its document stands by it.
    #[must_use]
    pub fn is_prediction(&self) -> bool {
        !self.calibrated && self.note.is_empty()
    }
}

/// The cell of a row and a column.
#[must_use]
pub fn find<'a>(cells: &'a [Cell], row: &str, column: &str) -> Option<&'a Cell> {
    cells.iter().find(|cell| cell.row == row && cell.column == column)
}

/// The increase from `from` to `to`, in per cent.
#[must_use]
pub fn gain(from: f64, to: f64) -> f64 {
    (to / from - 1.0) * 100.0
}
