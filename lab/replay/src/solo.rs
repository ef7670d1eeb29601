//! Tasks that allocate and free by themselves, in phases: faults and `munmap`, creation and
//! reclaim, lists of pages that are freed.

use crate::flight::Flight;
use crate::host::{self, Moment, RwLock, spawn};
use crate::memory::KernelMemory;
use crate::path::{Path, Plan};
use crate::stage::{Replayed, Scale, Stage};
use crate::worker::Worker;
use serde::Deserialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The legs that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Timed {
    /// Both; each task goes round by itself.
    Both,
    /// The first; all tasks wait for each other between legs.
    First,
    /// The second, likewise.
    Second,
}

/// The address space that a task changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// No lock is taken.
    None,
    /// Its own: processes.
    Private,
    /// One for all: threads.
    Shared,
}

/// The work of the tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Solo {
    /// Messages of a round: the first leg for all of them, then the second.
    pub round: u32,
    /// The part that is measured.
    pub timed: Timed,
    /// The address space that a message's page is mapped into, and the second leg takes it out of.
    pub space: Space,
}

/// The order to a task.
#[derive(Clone, Copy, Debug)]
enum Order {
    Rounds(Duration),
    First,
    Second,
}

/// The state that all tasks share.
struct Shared {
    /// Messages of all tasks whose first leg is done.
    sent: AtomicU64,
    verified: AtomicU64,
    /// The longest that a task took for the last order.
    longest_ns: AtomicU64,
    /// Messages a second, each task over its own time.
    rate: AtomicU64,
}

/// Runs rounds along `path` until as much time as `scale` says has passed in what is measured,
/// after a warm-up round and its time.
///
/// # Panics
/// If there is no memory left, or a CPU is not ours to use.
pub(crate) fn run<M: KernelMemory>(
    memory: &M,
    path: &Path,
    solo: Solo,
    scale: Scale<'_>,
) -> Replayed {
    let plan = path.plan(memory);
    let stage = Stage::new(scale.tasks);
    let zero = || AtomicU64::new(0);
    let shared = Shared { sent: zero(), verified: zero(), longest_ns: zero(), rate: zero() };
    let spaces: Vec<RwLock> = (0..scale.tasks).map(|_| RwLock::default()).collect();
    host::scope(|scope| {
        for index in 0..scale.tasks {
            let (stage, shared, plan) = (&stage, &shared, &plan);
            let space = match solo.space {
                Space::None => None,
                Space::Private => Some(&spaces[index]),
                Space::Shared => Some(&spaces[0]),
            };
            spawn(scope, scale.cpus, index, move || {
                let mut task = Task::new(memory, plan, solo.round, space);
                stage.follow(|order| task.carry_out(order, shared));
                task.worker.dispose(&mut task.flight);
            });
        }
        rounds(memory, &stage, &shared, solo.timed, scale.warm_up);
        shared.rate.store(0, Relaxed);
        let (sent, verified) = (shared.sent.load(Relaxed), shared.verified.load(Relaxed));
        let replayed = rounds(memory, &stage, &shared, solo.timed, scale.measured);
        stage.end();
        Replayed {
            sent: shared.sent.load(Relaxed) - sent,
            verified: shared.verified.load(Relaxed) - verified,
            rate: shared.rate.load(Relaxed),
            ..replayed
        }
    })
}

/// Whole rounds until what is measured has taken `time`.
fn rounds<M: KernelMemory>(
    memory: &M,
    stage: &Stage<Order>,
    shared: &Shared,
    timed: Timed,
    time: Duration,
) -> Replayed {
    let mut replayed = Replayed::default();
    if timed == Timed::Both {
        replayed.add(stage.conduct(memory, Order::Rounds(time)));
        return replayed;
    }
    while replayed.wall_ns == 0 || replayed.wall_ns < time.as_nanos() as u64 {
        for (order, leg) in [(Order::First, Timed::First), (Order::Second, Timed::Second)] {
            shared.longest_ns.store(0, Relaxed);
            let mut observed = stage.conduct(memory, order);
            if leg == timed {
                // The time in which threads wake each other up does not count.
                observed.wall = Duration::from_nanos(shared.longest_ns.load(Relaxed).max(1));
                replayed.add(observed);
            }
        }
    }
    replayed
}

struct Task<'a, M: KernelMemory> {
    worker: Worker<'a, M>,
    flight: Flight,
    round: u32,
    space: Option<&'a RwLock>,
    next_tag: u64,
}

impl<'a, M: KernelMemory> Task<'a, M> {
    fn new(memory: &'a M, plan: &'a Plan<M::Cache>, round: u32, space: Option<&'a RwLock>) -> Self {
        let worker = Worker::new(memory, plan);
        let flight = worker.flight();
        Self { worker, flight, round, space, next_tag: 0 }
    }

    fn carry_out(&mut self, order: Order, shared: &Shared) {
        let (start, tags, verified) = (Moment::now(), self.next_tag, self.worker.verified);
        match order {
            Order::First => self.first_leg(),
            Order::Second => self.second_leg(),
            Order::Rounds(time) => loop {
                self.first_leg();
                self.second_leg();
                if start.elapsed() >= time {
                    break;
                }
            },
        }
        let (own_ns, sent) = (start.elapsed().as_nanos() as u64, self.next_tag - tags);
        shared.longest_ns.fetch_max(own_ns, Relaxed);
        shared.sent.fetch_add(sent, Relaxed);
        if matches!(order, Order::Rounds(_)) {
            shared.rate.fetch_add(sent * 1_000_000_000 / own_ns.max(1), Relaxed);
        }
        shared.verified.fetch_add(self.worker.verified - verified, Relaxed);
    }

    fn first_leg(&mut self) {
        // The address range is mapped: a change, like unmapping it.
        drop(self.space.map(RwLock::write));
        for _ in 0..self.round {
            let _reading = self.space.map(RwLock::read);
            self.worker.send(&mut self.flight, self.next_tag);
            self.next_tag += 1;
        }
    }

    fn second_leg(&mut self) {
        let _writing = self.space.map(RwLock::write);
        self.worker.receive(&mut self.flight, |_| ());
        self.worker.settle(&mut self.flight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::Uncached;
    use crate::path::tests::path;

    fn check(timed: Timed, space: Space) -> Replayed {
        let steps = [
            "sender alloc page",
            "sender alloc table per 8",
            "receiver free-list page per 16",
            "receiver free-list table per 64",
        ];
        let memory = Uncached::default();
        let solo = Solo { round: 64, timed, space };
        let measured = Duration::from_millis(1);
        let scale = Scale { tasks: 2, cpus: &[], warm_up: Duration::ZERO, measured };
        let replayed = run(&memory, &path(&steps, Some("table"), 8), solo, scale);
        assert!(replayed.sent >= 2 * 64 && replayed.sent.is_multiple_of(64));
        assert_eq!(replayed.verified, replayed.sent);
        assert_eq!(memory.check_at_end(), Ok(()));
        replayed
    }

    #[test]
    fn rounds_give_everything_back() {
        for space in [Space::None, Space::Private, Space::Shared] {
            let replayed = check(Timed::Both, space);
            let rounds = replayed.sent / 64;
            assert_eq!(replayed.counters.zone_allocs, rounds * (64 + 8));
            assert_eq!(replayed.counters.zone_frees, rounds * (64 + 8));
            assert_eq!(replayed.counters.page_sections, rounds * (4 + 1));
        }
    }

    #[test]
    fn only_the_measured_leg_counts() {
        let created = check(Timed::First, Space::None);
        assert_eq!(created.counters.zone_frees, 0);
        assert_eq!(created.counters.zone_allocs, created.sent / 64 * (64 + 8));
        let freed = check(Timed::Second, Space::None);
        assert_eq!(freed.counters.zone_allocs, 0);
        assert_eq!(freed.counters.zone_frees, freed.sent / 64 * (64 + 8));
    }
}
