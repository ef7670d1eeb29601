//! The table of document 002: a row per number of tasks, with rates and differences in percent.

use quarry_harness::judge::{Column, Row, Selection};
use quarry_harness::table::Table;

pub(super) fn table(selection: &Selection<'_>) -> String {
    let columns: Vec<&Column<'_>> = selection.columns.iter().collect();
    let mut head = vec!["threads".to_owned(), columns[0].label.clone()];
    for column in &columns[1..] {
        head.extend([column.label.clone(), "diff".to_owned()]);
    }
    let of_workload = selection.rows.chunk_by(|one, other| one.workload == other.workload);
    let tables = of_workload.map(|rows| {
        let lines = rows.iter().map(|row| line(selection, &columns, *row));
        format!("{}:\n{}", rows[0].workload, Table::of(&head, lines).plain())
    });
    tables.collect::<Vec<String>>().join("\n\n")
}

/// Writes `16  76345  74973  - 1.8%`, with a blank after the sign, as in the document.
fn line(selection: &Selection<'_>, columns: &[&Column<'_>], row: Row<'_>) -> Vec<String> {
    let median = |column| selection.median(column, row, selection.metric);
    let number = |value: Option<f64>| value.map_or("failed".to_owned(), |it| format!("{it:.0}"));
    let base = median(columns[0]);
    let mut line = vec![row.tasks.to_string(), number(base)];
    for column in &columns[1..] {
        let value = median(column);
        let difference = value.zip(base).map_or(String::new(), |(value, base)| {
            let percent = (value - base) / base * 100.0;
            format!("{}{:>4.1}%", if percent < 0.0 { '-' } else { '+' }, percent.abs())
        });
        line.extend([number(value), difference]);
    }
    line
}
