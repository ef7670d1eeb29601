//! Threads that work in a window which another thread opens and closes.

use crate::patterns::window::{Window, process_cpu_ns};
use anyhow::Result;
use quarry_harness::affinity;
use std::sync::Barrier;
use std::time::Instant;
use std::{process, thread};

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) operations: u64,
    /// Operations that have provably happened.
    pub(super) verified: u64,
    /// Nanoseconds of each operation, if operations are timed one by one.
    pub(super) each_ns: Vec<u64>,
}

/// The gate through which a thread enters the window.
pub(super) struct Gate(Barrier);

impl Gate {
    /// Waits for the window to open. A thread calls this once, after its preparations.
    pub(super) fn pass(&self) {
        // The first wait signals that the thread is ready; the second one waits for the window.
        self.0.wait();
        self.0.wait();
    }
}

/// The end of a thread's work, which `run` calls after the window: it checks and cleans up.
pub(super) type End<'a> = Box<dyn FnOnce() -> Done + Send + 'a>;

/// The work of one thread: it prepares, passes the gate once, and works.
pub(super) type Task<'a> = Box<dyn FnOnce(&Gate) -> Result<End<'a>> + Send + 'a>;

/// Starts a thread for each task, on its CPU if it has one, and measures while all of them work.
/// Calls `open` when all threads are ready, and `close` when all have finished. A task that fails
/// ends the process, because the other threads would wait for it. Returns the measured window, and
/// the times of operations that tasks have timed.
pub(super) fn run<T>(
    tasks: Vec<(Option<usize>, Task<'_>)>,
    open: impl FnOnce() -> Result<T>,
    close: impl FnOnce(T) -> Result<()>,
) -> Result<(Window, Vec<u64>)> {
    let count = tasks.len();
    let (gate, done) = (Gate(Barrier::new(count + 1)), Barrier::new(count + 1));
    thread::scope(|scope| {
        let (gate, done) = (&gate, &done);
        let mut threads = Vec::new();
        for (cpu, task) in tasks {
            threads.push(scope.spawn(move || {
                let worked = cpu.map_or(Ok(()), affinity::pin).map_err(Into::into);
                let worked = worked.and_then(|()| task(gate)).unwrap_or_else(|error| {
                    eprintln!("{error:#}");
                    process::exit(1)
                });
                done.wait();
                worked
            }));
        }
        gate.0.wait();
        let opened = open()?;
        let (begin, cpu) = (Instant::now(), process_cpu_ns());
        gate.0.wait();
        done.wait();
        let (wall, cpu_ns) = (begin.elapsed(), process_cpu_ns() - cpu);
        close(opened)?;
        let wall_ns = wall.as_nanos() as u64;
        let mut window = Window { wall_ns, cpu_ns, ..Window::default() };
        let mut each_ns = Vec::new();
        for thread in threads {
            let end = thread.join().expect("a task that fails ends the process");
            let done = end();
            window.operations += done.operations;
            window.verified += done.verified;
            each_ns.extend(done.each_ns);
        }
        Ok((window, each_ns))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    #[test]
    fn tasks_work_between_opening_and_closing() {
        let (prepared, worked) = (AtomicU32::new(0), AtomicU32::new(0));
        let task = || -> Task<'_> {
            Box::new(|gate| {
                prepared.fetch_add(1, SeqCst);
                gate.pass();
                worked.fetch_add(1, SeqCst);
                Ok(Box::new(|| Done { operations: 3, verified: 2, each_ns: vec![5] }))
            })
        };
        let tasks = vec![(None, task()), (None, task())];
        let open = || Ok((prepared.load(SeqCst), worked.load(SeqCst)));
        let close = |opened| {
            assert_eq!((opened, worked.load(SeqCst)), ((2, 0), 2));
            Ok(())
        };
        let (window, each_ns) = run(tasks, open, close).unwrap();
        assert_eq!(each_ns, [5, 5]);
        assert_eq!((window.operations, window.verified), (6, 4));
    }
}
