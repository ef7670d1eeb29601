//! The table of document 002: a row per number of tasks, a rate per variant, the difference to the
//! first in percent.

use crate::judge::Selection;

/// The table: one per workload where there are several.
pub(super) fn table(selection: &Selection<'_>) -> String {
    let labels: Vec<&str> = selection.originals().map(|column| column.label.as_str()).collect();
    let width = labels.iter().map(|label| label.len() + 2).max().unwrap_or(0).max(10);
    let mut text = String::new();
    let mut last = None;
    for &row in &selection.rows {
        if last != Some(row.workload) {
            text += &head(row.workload, &labels, width, last.is_some());
            last = Some(row.workload);
        }
        let medians: Vec<Option<f64>> = selection
            .originals()
            .map(|column| selection.median(column, row, selection.metric))
            .collect();
        text += &line(row.tasks, &medians, width);
    }
    text.trim_end().to_owned()
}

fn head(workload: &str, labels: &[&str], width: usize, is_next: bool) -> String {
    let gap = if is_next { "\n" } else { "" };
    let mut text = format!("{gap}{workload}:\n{:<7}{:>width$}", "threads", labels[0]);
    for label in &labels[1..] {
        text += &format!("{label:>width$}{:>8}", "diff");
    }
    text + "\n"
}

/// `16     76345     74973  - 1.8%`: the sign stands apart, as the document has it.
fn line(tasks: u32, values: &[Option<f64>], width: usize) -> String {
    let number = |value: Option<f64>| value.map_or("failed".to_owned(), |it| format!("{it:.0}"));
    let mut text = format!("{tasks:<7}{:>width$}", number(values[0]));
    for &value in &values[1..] {
        text += &format!("{:>width$}", number(value));
        text += &match (value, values[0]) {
            (Some(value), Some(base)) => {
                let percent = (value - base) / base * 100.0;
                let sign = if percent < 0.0 { '-' } else { '+' };
                format!("  {sign}{:>4.1}%", percent.abs())
            }
            _ => format!("{:>8}", ""),
        };
    }
    text + "\n"
}
