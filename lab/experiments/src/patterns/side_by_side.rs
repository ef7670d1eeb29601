//! Several tasks at once, each running the pattern on the one heap of the process.

use super::Pattern;
use super::heap::Heap;
use super::window::{self, Budget, Window};
use quarry_harness::affinity;
use std::sync::Barrier;
use std::thread;

/// Runs `tasks` threads that begin together, each on the next CPU in turn; a task's further threads
/// take the CPUs after its own. Returns the windows [`together`](window::together).
///
/// # Panics
/// If a CPU is not allowed, or a task finds that memory was handed out twice.
pub(crate) fn run(
    pattern: Pattern,
    heap: Heap,
    budget: Budget,
    tasks: usize,
    cpus: &[usize],
) -> (Window, u64) {
    let own_cpus = |index: usize| {
        let mut own = cpus.to_vec();
        own.rotate_left(index % cpus.len().max(1));
        own
    };
    let start = Barrier::new(tasks);
    let windows: Vec<Window> = thread::scope(|scope| {
        let task = |index: usize| {
            let (start, own_cpus) = (&start, &own_cpus);
            scope.spawn(move || {
                let cpus = own_cpus(index);
                if let Some(&cpu) = cpus.first() {
                    affinity::pin(cpu).expect("the CPU is one of those allowed");
                }
                start.wait();
                pattern.run(heap, budget, &cpus).window
            })
        };
        let threads: Vec<_> = (0..tasks).map(task).collect();
        threads.into_iter().map(|it| it.join().expect("a task found every mark")).collect()
    });
    window::together(&windows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patterns::pair::Form;
    use std::time::Duration;

    const PAIR: Pattern = Pattern::Pair { size: 64, form: Form::One };

    #[test]
    fn the_work_of_all_tasks_is_counted() {
        let budget = Budget { warm_up: Duration::ZERO, measured: Duration::from_micros(300) };
        for pattern in [PAIR, Pattern::Handover { payload: 64 }] {
            let (window, time_ns) = run(pattern, Heap::of_this_process(), budget, 3, &[]);
            assert!(window.operations > 0, "{pattern}");
            assert_eq!(window.verified, window.operations, "{pattern}");
            assert!(
                time_ns >= 3 * 300_000 && time_ns >= window.wall_ns,
                "{pattern}: three windows"
            );
        }
    }
}
