//! Names the variants whose lists were still filling while a short run measured them.

use quarry_harness::judge::{Row, Selection};
use quarry_harness::results::{Cell, Run};
use quarry_harness::table::counted;

/// Samples below this length are short; usual ones have 200 ms.
const SHORT_MS: u64 = 100;

/// A variant with at least this many new slabs per operation is named; a warm one has almost none.
const SLABS: f64 = 0.01;

/// A line that names the variants that were not warm in a run of short samples, if there are any.
pub(super) fn note(run: &Run) -> Option<String> {
    let millis: u64 = run.meta.options.get("millis")?.parse().ok()?;
    if millis >= SHORT_MS {
        return None;
    }
    let selection = Selection::of(run);
    let mut cold = Vec::new();
    for &row in &selection.rows {
        for variant in &run.meta.variants {
            let slabs = slabs_per_operation(run, row, &variant.name);
            if slabs >= SLABS && variant.copy_of.is_none() {
                let (name, Row { workload, tasks }) = (&variant.name, row);
                let tasks = counted(tasks, "task");
                cold.push(format!("{name} ({workload}, {tasks}: {slabs:.2})"));
            }
        }
    }
    (!cold.is_empty()).then(|| {
        format!(
            "Not warm after {millis} ms, or never at rest: {}. The figure is new slabs per \
             operation while the sample ran; until lists and arrays are full, slow allocations and \
             locks are those of filling them. --millis=200 or more shows which it is.",
            cold.join(", ")
        )
    })
}

fn slabs_per_operation(run: &Run, Row { workload, tasks }: Row<'_>, variant: &str) -> f64 {
    let (mut slabs, mut operations) = (0, 0);
    for sample in run.samples_of(Cell { workload, tasks, variant }) {
        if let Some(measured) = &sample.measurement {
            slabs += measured.counters.get("slabs").copied().unwrap_or(0);
            operations += measured.operations;
        }
    }
    slabs as f64 / operations.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_harness::results::examples;

    fn run(millis: u64, slabs: u64) -> Run {
        let value: &[Option<f64>] = &[Some(5.0)];
        let mut run = examples::run("base", &[("base", value), ("base A/A", value)]);
        run.meta.options.insert("millis".to_owned(), millis.to_string());
        for sample in &mut run.samples {
            let measured = sample.measurement.as_mut().expect("a value");
            measured.counters.insert("slabs".to_owned(), slabs * measured.operations);
        }
        run
    }

    #[test]
    fn a_short_run_that_makes_slabs_is_not_warm() {
        let said = note(&run(20, 2)).expect("a note");
        assert!(
            said.starts_with("Not warm after 20 ms, or never at rest: base (w, 1 task: 2.00). ")
        );
        assert_eq!(said.matches("base").count(), 1, "the copy is not named: {said}");
        assert_eq!(note(&run(20, 0)), None);
        assert_eq!(note(&run(200, 2)), None);
    }
}
