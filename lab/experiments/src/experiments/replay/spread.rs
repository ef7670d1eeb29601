//! The spread of a replay's samples in mmtests' statistics, which document 000 also reports.

use super::documents::beside;
use super::spec::Spec;
use anyhow::Result;
use quarry_harness::judge::Selection;
use quarry_harness::results::Direction;
use quarry_harness::statistics::mmtests::Sorted;
use quarry_harness::table;
use quarry_replay::policies::Policies;

/// Mean, standard deviation and coefficient of variation of each row and variant.
pub(super) fn table(selection: &Selection<'_>, spec: &'static Spec) -> Result<String> {
    let higher = selection.metric.direction == Direction::Higher;
    let mean = if higher { "Hmean" } else { "Amean" };
    let document = format!("Stddev, document {}", spec.document.number);
    let header = ["row", "tasks", "policies", mean, "Stddev", "CoeffVar, %", &document];
    let several = |value: f64| Some(value).filter(|value| value.is_finite());
    let mut lines = Vec::new();
    for &row in &selection.rows {
        for column in selection.originals() {
            let samples = selection.samples(column, row, selection.metric);
            let Some(sorted) = Sorted::new(samples) else { continue };
            let name = &column.variant.name;
            let of = spec.row(row.workload)?;
            let documented = spec.document.spread(&of, row.tasks, &name.parse::<Policies>()?);
            lines.push(vec![
                row.workload.to_owned(),
                row.tasks.to_string(),
                name.clone(),
                table::figure(if higher { sorted.hmean() } else { sorted.amean() }),
                table::figure_or(several(sorted.stddev()), "-"),
                table::figure_or(several(sorted.coeff()), "-"),
                beside(documented),
            ]);
        }
    }
    Ok(table::render(header.map(str::to_owned).to_vec(), lines))
}
