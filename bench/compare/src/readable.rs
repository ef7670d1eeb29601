//! A run in units that suit its size: milliseconds where seconds would be `0.00`.

use quarry_harness::results::{Cell, Metric, Run};
use std::time::Duration;

/// Runs of this time and more are shown in seconds.
const LEAST_SECONDS: f64 = 1.0;

/// Shorter runs mostly measure the start of a process and its libraries, which takes 1 or 2 ms.
pub(super) const SHORT: Duration = Duration::from_millis(10);

/// Returns the run with times in milliseconds if its shortest workload takes less than a second.
/// Recorded times stay in seconds, so that results of a program remain comparable.
pub(super) fn readable(run: &Run) -> Run {
    let mut shown = run.clone();
    let workloads = run.meta.workloads.iter();
    let shortest = workloads.filter_map(|it| seconds(run, &it.name)).min_by(f64::total_cmp);
    if shortest.is_some_and(|wall| wall < LEAST_SECONDS) {
        let metrics = run.meta.metrics.iter().cloned();
        shown.meta.metrics = metrics.map(Metric::in_milliseconds).collect();
    }
    shown
}

pub(super) fn too_short(run: &Run, workload: &str) -> Option<String> {
    let wall = seconds(run, workload).filter(|wall| *wall < SHORT.as_secs_f64())?;
    Some(format!(
        "warning: a run takes {:.1} ms, most of which is starting a process and loading its \
         libraries; give it more to do, or read the verdicts as those on its start",
        wall * 1e3
    ))
}

fn seconds(run: &Run, workload: &str) -> Option<f64> {
    let wall = run.meta.metrics.iter().find(|metric| metric.name == "wall")?;
    let cell = Cell { workload, tasks: 1, variant: &run.meta.baseline };
    run.median(cell, wall)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_harness::results::Direction;
    use quarry_harness::results::examples::run_of;

    fn run(seconds: [f64; 2]) -> Run {
        let wall = Metric::new("wall", "s", Direction::Lower, "value").primary();
        let of = |name: &str, value: f64| (name.to_owned(), 1, "a".to_owned(), vec![value; 3]);
        run_of("test", wall, &vec![of("v", seconds[0]), of("w", seconds[1])])
    }

    #[test]
    fn the_shortest_workload_decides_on_the_unit() {
        let unit = |seconds| readable(&run(seconds)).meta.metrics[0].unit.clone();
        assert_eq!(unit([1.5, 2.0]), "s");
        assert_eq!(unit([1.5, 0.2]), "ms");
    }

    #[test]
    fn a_run_that_mostly_starts_is_warned_of() {
        let run = run([0.0021, 0.2]);
        let text = too_short(&run, "v").unwrap();
        assert!(text.starts_with("warning: a run takes 2.1 ms, most of which is st"), "{text}");
        assert_eq!(too_short(&run, "w"), None);
    }
}
