//! Tasks that allocate and free without sending to each other, in phases: faults and `munmap`,
//! creation and reclaim, freeing of lists of pages.

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Timed {
    /// Both legs; the tasks do not wait for each other.
    #[default]
    Both,
    /// The first leg; all tasks wait for each other between legs.
    First,
    /// The second leg; all tasks wait for each other between legs.
    Second,
}

/// The address space that a task changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Space {
    /// No lock is taken.
    #[default]
    None,
    /// Each task changes an address space of its own, as processes do.
    Private,
    /// All tasks change one address space, as threads do.
    Shared,
}

/// When tasks begin a round, and when they stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// All tasks begin a round together, and stop after the round in which the time runs out.
    #[default]
    InStep,
    /// Each task begins its first round at a different place, and may stop at any place. Warm-up
    /// and measurement last until all tasks together have sent as many messages as one round of
    /// every task has, or for the measurement so many halves of a round.
    OutOfStep(u32),
}

/// The work of the tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Solo {
    /// Messages of a round: all of them take the first leg, then all take the second.
    pub round: u32,
    /// The legs that are measured.
    pub timed: Timed,
    /// The address space into which the first leg maps a message's page; the second leg unmaps it.
    pub space: Space,
    /// When tasks begin a round.
    pub pace: Pace,
}

/// The order that a task receives.
#[derive(Clone, Copy, Debug)]
enum Order {
    Rounds(Duration),
    /// Send until all tasks together have sent this many messages.
    Sent(u64),
    First,
    Second,
}

/// The state that all tasks share.
#[derive(Default)]
struct Shared {
    /// Messages of all tasks that have taken the first leg.
    sent: AtomicU64,
    verified: AtomicU64,
    /// The longest time that a task needed for the last order.
    longest_ns: AtomicU64,
    /// Messages per second: the sum of the tasks' rates, each over the task's own time.
    rate: AtomicU64,
}

/// Runs rounds along `path` until the measured legs have taken as long as `scale` states. A warm-up
/// comes first: at least one round, and at least the warm-up's time.
pub(crate) fn run<M: KernelMemory>(
    memory: &M,
    path: &Path,
    solo: Solo,
    scale: Scale<'_>,
) -> Replayed {
    let plan = path.plan(memory);
    let stage = Stage::new(scale.tasks);
    let shared = Shared::default();
    let tasks = scale.tasks as u64;
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
                if solo.pace != Pace::InStep {
                    task.left = (u64::from(solo.round) * (index as u64 + 1) / tasks) as u32;
                }
                stage.follow(|order| task.carry_out(order, shared));
                task.second_leg();
                task.worker.dispose(&mut task.flight);
            });
        }
        let rounds = |time, pace| match pace {
            Pace::InStep => rounds(memory, &stage, &shared, solo.timed, time),
            Pace::OutOfStep(halves) => {
                let messages = u64::from(solo.round) * tasks * u64::from(halves) / 2;
                stage.conduct(memory, Order::Sent(shared.sent.load(Relaxed) + messages))
            }
        };
        let is_in_step = solo.pace == Pace::InStep;
        rounds(scale.warm_up, if is_in_step { Pace::InStep } else { Pace::OutOfStep(2) });
        shared.rate.store(0, Relaxed);
        let (sent, verified) = (shared.sent.load(Relaxed), shared.verified.load(Relaxed));
        let replayed = rounds(scale.measured, solo.pace);
        stage.end();
        Replayed {
            sent: shared.sent.load(Relaxed) - sent,
            verified: shared.verified.load(Relaxed) - verified,
            rate: shared.rate.load(Relaxed),
            ..replayed
        }
    })
}

/// Runs whole rounds until the measured legs have taken `time`.
fn rounds<M: KernelMemory>(
    memory: &M,
    stage: &Stage<Order>,
    shared: &Shared,
    timed: Timed,
    time: Duration,
) -> Replayed {
    if timed == Timed::Both {
        return stage.conduct(memory, Order::Rounds(time));
    }
    let mut replayed = Replayed::default();
    while replayed.wall_ns == 0 || replayed.wall_ns < time.as_nanos() as u64 {
        for (order, leg) in [(Order::First, Timed::First), (Order::Second, Timed::Second)] {
            shared.longest_ns.store(0, Relaxed);
            let mut observed = stage.conduct(memory, order);
            if leg == timed {
                // The time that threads need to wake each other is left out.
                observed.wall_ns = shared.longest_ns.load(Relaxed).max(1);
                replayed.add(&observed);
            }
        }
    }
    replayed
}

struct Task<'a, M: KernelMemory> {
    worker: Worker<'a, M>,
    flight: Flight,
    round: u32,
    /// Messages of this round that have not yet taken the first leg.
    left: u32,
    space: Option<&'a RwLock>,
    next_tag: u64,
}

impl<'a, M: KernelMemory> Task<'a, M> {
    fn new(memory: &'a M, plan: &'a Plan<M::Cache>, round: u32, space: Option<&'a RwLock>) -> Self {
        let worker = Worker::new(memory, plan);
        let flight = worker.flight();
        Self { worker, flight, round, left: round, space, next_tag: 0 }
    }

    fn carry_out(&mut self, order: Order, shared: &Shared) {
        let (start, verified) = (Moment::now(), self.worker.verified);
        let sent = match order {
            Order::First => self.first_leg(shared, None),
            Order::Second => self.second_leg(),
            Order::Rounds(time) => {
                let mut sent = 0;
                while sent == 0 || start.elapsed() < time {
                    sent += self.first_leg(shared, None) + self.second_leg();
                }
                sent
            }
            Order::Sent(until) => {
                let mut sent = self.first_leg(shared, Some(until));
                while shared.sent.load(Relaxed) < until {
                    sent += self.second_leg() + self.first_leg(shared, Some(until));
                }
                sent
            }
        };
        let own_ns = start.elapsed().as_nanos() as u64;
        shared.longest_ns.fetch_max(own_ns, Relaxed);
        if !matches!(order, Order::Sent(_)) {
            shared.sent.fetch_add(sent, Relaxed);
        }
        if matches!(order, Order::Rounds(_) | Order::Sent(_)) {
            shared.rate.fetch_add(sent * 1_000_000_000 / own_ns.max(1), Relaxed);
        }
        shared.verified.fetch_add(self.worker.verified - verified, Relaxed);
    }

    /// Runs the first leg of a round, or what is left of it. If `until` is a number, the leg also
    /// stops once all tasks together have sent as many messages. Returns how many this call sent.
    fn first_leg(&mut self, shared: &Shared, until: Option<u64>) -> u64 {
        if self.left == self.round {
            // Mapping an address range changes the address space, as unmapping does.
            drop(self.space.map(RwLock::write));
        }
        let before = self.next_tag;
        while self.left > 0 && until.is_none_or(|until| shared.sent.load(Relaxed) < until) {
            let reading = self.space.map(RwLock::read);
            self.worker.send(&mut self.flight, self.next_tag);
            drop(reading);
            self.left -= 1;
            self.next_tag += 1;
            if until.is_some() {
                shared.sent.fetch_add(1, Relaxed);
            }
        }
        self.next_tag - before
    }

    /// Runs the second leg of a round. It sends no message, so it returns 0.
    fn second_leg(&mut self) -> u64 {
        let _writing = self.space.map(RwLock::write);
        self.worker.receive(&mut self.flight, |_| ());
        self.worker.settle(&mut self.flight);
        self.left = self.round;
        0
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
        let solo = Solo { round: 64, timed, space, pace: Pace::InStep };
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
    fn tasks_that_stop_anywhere_give_everything_back() {
        let steps = ["sender alloc page", "receiver free-list page per 16"];
        let memory = Uncached::default();
        for halves in [1, 2, 4] {
            let (timed, space, pace) = (Timed::Both, Space::Shared, Pace::OutOfStep(halves));
            let solo = Solo { round: 64, timed, space, pace };
            let (warm_up, measured) = (Duration::ZERO, Duration::ZERO);
            let scale = Scale { tasks: 3, cpus: &[], warm_up, measured };
            let replayed = run(&memory, &path(&steps, Some("page"), 8), solo, scale);
            let sent = 3 * 32 * u64::from(halves);
            assert!((sent - 3..=sent + 3).contains(&replayed.sent), "{}", replayed.sent);
            assert!(replayed.rate > 0);
        }
        assert_eq!(memory.check_at_end(), Ok(()));
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
