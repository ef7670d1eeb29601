//! A prediction beside the figure of a document.

use serde::Serialize;

/// One figure of a document's table.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cell {
    pub(crate) row: String,
    pub(crate) column: String,
    /// In the document.
    pub(crate) document: f64,
    pub(crate) predicted: f64,
    /// Percentage points between two percentages; per cent of the document's figure between others.
    pub(crate) error_points: f64,
    /// True if a constant was fitted to this cell.
    pub(crate) calibrated: bool,
    /// What a reader has to know of it; empty as a rule.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) note: &'static str,
}

impl Cell {
    /// A percentage.
    pub(crate) fn percent(row: &str, column: &str, document: f64, predicted: f64) -> Self {
        let error_points = predicted - document;
        let (row, column) = (row.to_owned(), column.to_owned());
        Self { row, column, document, predicted, error_points, calibrated: false, note: "" }
    }

    /// A rate or a time.
    pub(crate) fn figure(row: &str, column: &str, document: f64, predicted: f64) -> Self {
        let error_points = gain(document, predicted);
        Self { error_points, ..Self::percent(row, column, document, predicted) }
    }

    /// A constant was fitted to it.
    pub(crate) fn calibrated(self) -> Self {
        Self { calibrated: true, ..self }
    }

    pub(crate) fn noting(self, note: &'static str) -> Self {
        Self { note, ..self }
    }
}

/// What `to` is more than `from`, in per cent.
pub(crate) fn gain(from: f64, to: f64) -> f64 {
    (to / from - 1.0) * 100.0
}
