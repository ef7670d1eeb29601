//! How numbers are printed: Markdown tables, which read as well in a terminal as in a document.

use crate::statistics::{Estimate, Interval};
use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};

/// A table with a left-aligned first column and right-aligned others.
pub fn render(header: Vec<String>, rows: Vec<Vec<String>>) -> String {
    render_aligned(header, rows, &[0])
}

/// A table with some left-aligned columns; the others are right-aligned.
pub fn render_aligned(header: Vec<String>, rows: Vec<Vec<String>>, left: &[usize]) -> String {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    let columns = header.len();
    table.set_header(header);
    table.add_rows(rows);
    for index in (0..columns).filter(|index| !left.contains(index)) {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.to_string()
}

/// Three significant digits (two below 1), or all digits before the point.
pub fn figure(value: f64) -> String {
    let decimals = match value.abs() {
        v if v < 0.0995 => 3,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// A ratio: three digits behind the point where it is near 1, where they matter.
pub fn multiple(ratio: f64) -> String {
    if (0.1..10.0).contains(&ratio) { format!("{ratio:.3}") } else { figure(ratio) }
}

/// `median [low, high]`, with an asterisk where `noise`, the interval of an identical copy, has
/// nothing in common with it.
pub fn ratio(estimate: Option<Estimate>, noise: Option<Interval>) -> String {
    let Some(Estimate { median, interval }) = estimate else { return "failed".to_owned() };
    let Some(interval) = interval else { return figure(median) };
    let differs = noise.is_some_and(|noise| !noise.overlaps(&interval));
    let mark = if differs { " *" } else { "  " };
    format!("{} [{}, {}]{mark}", figure(median), figure(interval.low), figure(interval.high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        let of = [0.004, 0.38, 3.8049, 9.996, 16.04, 99.96, 12345.6].map(figure);
        assert_eq!(of, ["0.004", "0.38", "3.80", "10.0", "16.0", "100", "12346"]);
    }

    #[test]
    fn ratios_near_one_keep_their_digits() {
        assert_eq!([1.0042, 12.345, 0.0471].map(multiple), ["1.004", "12.3", "0.047"]);
    }

    #[test]
    fn asterisks_mark_what_an_identical_copy_does_not_explain() {
        let interval = |low, high| Interval { low, high };
        let estimate =
            |median, low, high| Some(Estimate { median, interval: Some(interval(low, high)) });
        let noise = Some(interval(0.97, 1.03));
        assert_eq!(ratio(estimate(2.0, 1.9, 2.1), noise), "2.00 [1.90, 2.10] *");
        assert_eq!(ratio(estimate(1.02, 1.01, 1.04), noise), "1.02 [1.01, 1.04]  ");
        assert_eq!(ratio(Some(Estimate { median: 2.0, interval: None }), noise), "2.00");
        assert_eq!(ratio(None, noise), "failed");
    }

    #[test]
    fn tables_are_markdown() {
        let cells = |cells: &[&str]| cells.iter().map(|c| (*c).to_owned()).collect::<Vec<_>>();
        let text = render(cells(&["name", "ns"]), vec![cells(&["a", "1"]), cells(&["bb", "22"])]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "| name | ns |");
        assert_eq!(lines[2], "| a    |  1 |");
        assert_eq!(lines[3], "| bb   | 22 |");
        assert!(lines[1].starts_with("|---"), "{}", lines[1]);
    }
}
