//! A run in units that show something: milliseconds where seconds would be `0.00`.

use quarry_harness::results::{Cell, Metric, Run};
use quarry_harness::statistics;

/// Seconds are shown from this time of a run on.
const LEAST_SECONDS: f64 = 1.0;

/// Returns the run with its times in milliseconds where its shortest workload takes less than a
/// second. What is recorded stays in seconds: results of a program must be comparable with others
/// of it, whichever side of the bound they fell on.
pub(super) fn readable(run: &Run) -> Run {
    let mut shown = run.clone();
    let wall = run.meta.metrics.iter().find(|metric| metric.name == "wall");
    if wall.and_then(|wall| shortest(run, wall)).is_some_and(|wall| wall < LEAST_SECONDS) {
        let metrics = run.meta.metrics.iter().cloned();
        shown.meta.metrics = metrics.map(Metric::in_milliseconds).collect();
    }
    shown
}

/// The smallest median of a metric over all workloads of the baseline.
pub(super) fn shortest(run: &Run, metric: &Metric) -> Option<f64> {
    let of = |workload: &str| {
        let cell = Cell { workload, tasks: 1, variant: &run.meta.baseline };
        let values: Vec<f64> = run.values(cell, metric).into_iter().flatten().collect();
        statistics::median(&values)
    };
    run.meta.workloads.iter().filter_map(|it| of(&it.name)).min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_harness::results::Direction;
    use quarry_harness::results::examples::run_of;

    #[test]
    fn the_shortest_workload_decides_on_the_unit() {
        let unit = |seconds: [f64; 2]| {
            let wall = Metric::new("wall", "s", Direction::Lower, "value").primary();
            let of = |name: &str, value: f64| (name.to_owned(), 1, "a".to_owned(), vec![value; 3]);
            let run = run_of("test", wall, &vec![of("v", seconds[0]), of("w", seconds[1])]);
            readable(&run).meta.metrics[0].unit.clone()
        };
        assert_eq!(unit([1.5, 2.0]), "s");
        assert_eq!(unit([1.5, 0.2]), "ms");
    }
}
