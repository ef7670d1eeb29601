//! Groups of senders and receivers that hand messages to each other, each on a task of its own.

use crate::flight::Flight;
use crate::host::{self, Moment, spawn, yield_now};
use crate::memory::KernelMemory;
use crate::path::{Path, Plan};
use crate::queue::Queue;
use crate::stage::{Replayed, Scale, Stage};
use crate::worker::Worker;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Groups of threads that send messages within their group and to no other.
#[derive(Clone, Copy, Debug)]
pub struct Crew {
    /// Senders of a group. Each sends to every receiver of the group in turn.
    pub senders: usize,
    /// Receivers of a group, each with a queue of its own.
    pub receivers: usize,
    /// Messages that a sender sends to a receiver at a time.
    pub burst: u32,
    /// Messages that a queue has room for.
    pub capacity: u32,
    /// True if a sender allocates and copies while it holds the queue's lock.
    pub pipe: bool,
    /// True if system calls count references to files, as in a process of several threads.
    pub shared_files: bool,
    /// If there is a load, tags are times of sending, and receivers record how long messages took.
    pub load: Option<Load>,
    /// The CPUs of a sender and of its receiver.
    pub place: Place,
    /// Number of turns of each sender, if the amount of work is fixed and not the time.
    pub turns: Option<u64>,
}

/// The CPUs of a sender and of its receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// Both are on the same CPU.
    Same,
    /// The receiver is on the next CPU.
    #[default]
    Next,
    /// The scheduler chooses the CPUs of both.
    Unbound,
}

impl Place {
    /// All places by name.
    pub const ALL: [(&'static str, Self); 3] =
        [("same", Self::Same), ("next", Self::Next), ("unbound", Self::Unbound)];

    /// The place of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, place)| *place)
    }
}

/// The rate at which senders send if the replay measures latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Messages per second of each sender, evenly spaced.
    Rate(u64),
    /// As many as possible.
    Max,
}

/// The length of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    /// Until this time has passed and each sender has taken at least this many turns.
    Time(Duration, u64),
    /// This many turns of each sender; a turn is a burst to each receiver of its group.
    Turns(u64),
}

/// Least number of turns in the warm-up. On a busy machine the warm-up's time may end before queues
/// and lists are as full as they get. Under slqb, which takes longest, they fill in some 40 bursts.
const WARM_UP_TURNS: u64 = 64;

struct Scene<'a, M: KernelMemory> {
    crew: &'a Crew,
    scale: Scale<'a>,
    memory: &'a M,
    plan: &'a Plan<M::Cache>,
    queues: &'a [Queue],
    stage: &'a Stage<Length>,
    sent: AtomicU64,
    /// The moment from which tags count nanoseconds.
    origin: Moment,
}

/// Lets a crew of `scale.tasks` groups send along `path`. If senders are bound, the `n`th one runs
/// on the `n`th CPU. If the number of turns is fixed, the warm-up is a tenth of it.
///
/// # Panics
/// If there is no memory left, a CPU is not ours to use, or the path does not suit the crew: a
/// socket with several senders has no answers and no batches, and no socket recycles pieces.
pub(crate) fn run<M: KernelMemory>(
    memory: &M,
    path: &Path,
    crew: Crew,
    scale: Scale<'_>,
) -> Replayed {
    let plan = path.plan(memory);
    let aligned = plan.longest_batch == 1
        || crew.burst == crew.capacity
        || crew.burst.is_multiple_of(plan.longest_batch);
    let alone = crew.senders == 1 && aligned;
    assert!(alone || crew.pipe || (plan.longest_batch == 1 && plan.legs[2].is_empty()));
    assert!(crew.pipe || plan.pieces.iter().all(|piece| !piece.recycled), "sockets keep no piece");
    let queue = || Queue::new(plan.pieces.len(), crew.capacity, crew.senders as u32);
    let queues: Vec<Queue> = (0..scale.tasks * crew.receivers).map(|_| queue()).collect();
    let stage = Stage::new(scale.tasks * crew.senders);
    let scene = Scene {
        crew: &crew,
        scale,
        memory,
        plan: &plan,
        queues: &queues,
        stage: &stage,
        sent: AtomicU64::new(0),
        origin: Moment::now(),
    };
    let (warm_up, measured) = match crew.turns {
        Some(turns) => (Length::Turns(turns.div_ceil(10)), Length::Turns(turns)),
        None => (Length::Time(scale.warm_up, WARM_UP_TURNS), Length::Time(scale.measured, 1)),
    };
    let replayed = scene.play(warm_up, measured);
    let worker = Worker::new(memory, &plan);
    queues.into_iter().for_each(|queue| worker.dispose(&mut queue.into_flight()));
    replayed
}

impl<M: KernelMemory> Scene<'_, M> {
    fn play(&self, warm_up: Length, measured: Length) -> Replayed {
        let Crew { senders, receivers, .. } = *self.crew;
        let Scale { tasks: groups, cpus, .. } = self.scale;
        let (cpus, step) = match self.crew.place {
            Place::Same => (cpus, 0),
            Place::Next => (cpus, 1),
            Place::Unbound => (&[][..], 0),
        };
        host::scope(|scope| {
            for index in 0..groups * senders {
                spawn(scope, cpus, index, move || Sender::new(self, index).follow());
            }
            let receiver = |index| {
                spawn(scope, cpus, index + step, move || self.receive_all(&self.queues[index]))
            };
            let handles: Vec<_> = (0..groups * receivers).map(receiver).collect();
            self.stage.conduct(self.memory, warm_up);
            let sent = self.sent.load(Relaxed);
            let (verified, begin) = (self.verified(), self.now());
            let mut replayed = self.stage.conduct(self.memory, measured);
            replayed.sent = self.sent.load(Relaxed) - sent;
            replayed.verified = self.verified() - verified;
            self.stage.end();
            let noted = handles.into_iter().flat_map(|it| it.join().expect("receivers end well"));
            let within = noted.filter(|(sent_at, _)| *sent_at >= begin);
            replayed.latencies = within.map(|(_, latency)| latency).collect();
            replayed.latencies.sort_unstable();
            replayed
        })
    }

    fn verified(&self) -> u64 {
        self.queues.iter().map(Queue::verified).sum()
    }

    /// Nanoseconds since `origin`.
    fn now(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    /// Receives until the last sender has ended. If latency is measured, returns the time at which
    /// each message was sent, and how long it took.
    fn receive_all(&self, queue: &Queue) -> Vec<(u64, u64)> {
        let mut worker = Worker::new(self.memory, self.plan);
        let mut inbox = worker.flight();
        let mut latencies = Vec::new();
        let timed = self.crew.load.is_some();
        let mut take = |flight: &mut Flight| {
            let before = worker.verified;
            worker.receive(flight, |tag| {
                if timed {
                    latencies.push((tag, self.now() - tag));
                }
            });
            worker.verified - before
        };
        loop {
            let _file = queue.enter(self.crew.shared_files);
            if self.crew.pipe {
                if !queue.receive_inside(&mut take) {
                    break;
                }
            } else {
                if !queue.receive(&mut inbox) {
                    break;
                }
                let verified = take(&mut inbox);
                queue.done(&mut inbox, verified);
            }
        }
        latencies
    }
}

struct Sender<'a, M: KernelMemory> {
    scene: &'a Scene<'a, M>,
    worker: Worker<'a, M>,
    queues: &'a [Queue],
    outbox: Flight,
    answers: Flight,
    /// The next tag, if tags are not times: the sender's number and a count of its messages.
    next_tag: u64,
    sent: u64,
}

impl<'a, M: KernelMemory> Sender<'a, M> {
    fn new(scene: &'a Scene<'a, M>, index: usize) -> Self {
        let worker = Worker::new(scene.memory, scene.plan);
        let Crew { senders, receivers, .. } = *scene.crew;
        let first = index / senders * receivers;
        Self {
            scene,
            queues: &scene.queues[first..first + receivers],
            outbox: worker.flight(),
            answers: worker.flight(),
            worker,
            next_tag: (index as u64) << 40,
            sent: 0,
        }
    }

    fn follow(mut self) {
        self.scene.stage.follow(|length| {
            let before = self.sent;
            self.send_for(length);
            self.scene.sent.fetch_add(self.sent - before, Relaxed);
        });
        self.queues.iter().for_each(Queue::close);
    }

    /// Sends for this length, and waits until receivers have received everything.
    fn send_for(&mut self, length: Length) {
        let (start, mut turns) = (Moment::now(), 0);
        loop {
            self.wait_for_turn(start, turns);
            let queues = self.queues;
            queues.iter().for_each(|queue| self.burst(queue));
            turns += 1;
            let over = match length {
                Length::Time(time, least) => turns >= least && start.elapsed() >= time,
                Length::Turns(count) => turns >= count,
            };
            if over {
                break;
            }
        }
        for queue in self.queues {
            queue.settle();
            self.settle_answers(queue);
        }
    }

    /// Waits until this turn is due at the load's rate; other tasks run meanwhile.
    fn wait_for_turn(&self, start: Moment, turns: u64) {
        if let Some(Load::Rate(rate)) = self.scene.crew.load {
            let due = start.after(turns * 1_000_000_000 / rate.max(1));
            while Moment::now() < due {
                yield_now();
            }
        }
    }

    fn burst(&mut self, queue: &Queue) {
        let crew = self.scene.crew;
        let _file = queue.enter(crew.shared_files);
        if crew.pipe {
            let tag = self.tag();
            return queue.send_inside(|flight| self.worker.send(flight, tag));
        }
        queue.reserve(crew.burst);
        self.settle_answers(queue);
        for _ in 0..crew.burst {
            let tag = self.tag();
            self.worker.send(&mut self.outbox, tag);
        }
        queue.send(&mut self.outbox);
    }

    fn settle_answers(&mut self, queue: &Queue) {
        if !self.scene.plan.legs[2].is_empty() {
            queue.answers(&mut self.answers);
            self.worker.settle(&mut self.answers);
        }
    }

    fn tag(&mut self) -> u64 {
        self.sent += 1;
        self.next_tag += 1;
        if self.scene.crew.load.is_some() { self.scene.now() } else { self.next_tag }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::Uncached;
    use crate::path::tests::path;

    const PAIRS: Crew = Crew {
        senders: 1,
        receivers: 1,
        burst: 30,
        capacity: 30,
        pipe: false,
        shared_files: false,
        load: None,
        place: Place::Next,
        turns: Some(10),
    };

    /// Two groups.
    const SCALE: Scale<'_> =
        Scale { tasks: 2, cpus: &[], warm_up: Duration::ZERO, measured: Duration::ZERO };

    /// A path on which every `batch` messages share one piece named `page`.
    fn one(page: &str, batch: u32) -> Path {
        let steps = ["sender alloc", "receiver free"].map(|it| format!("{it} {page} per {batch}"));
        path(&steps.each_ref().map(String::as_str), Some(page), 100)
    }

    fn check(path: &Path, crew: Crew, messages: u64) -> Replayed {
        let memory = Uncached::default();
        let replayed = run(&memory, path, crew, SCALE);
        assert_eq!((replayed.sent, replayed.verified), (messages, messages));
        assert_eq!(memory.check_at_end(), Ok(()));
        replayed
    }

    #[test]
    fn everything_sent_is_received_and_freed() {
        let replayed = check(&one("page", 1), PAIRS, 2 * 10 * 30);
        assert_eq!(replayed.counters.zone_allocs, replayed.sent);
        assert!(replayed.latencies.is_empty());
        let capacity = 100;
        check(&one("page", 1), Crew { capacity, ..PAIRS }, 2 * 10 * 30);
        check(&one("page", 40), PAIRS, 2 * 10 * 30);
    }

    #[test]
    fn every_sender_of_a_group_reaches_every_receiver() {
        let crew = Crew { senders: 3, receivers: 2, burst: 1, capacity: 5, ..PAIRS };
        check(&one("page", 1), crew, 2 * 10 * 3 * 2);
        let pipe = Crew { pipe: true, shared_files: true, ..crew };
        check(&one("kept", 40), pipe, 2 * 10 * 3 * 2);
    }

    #[test]
    fn answers_come_back_before_the_next_request() {
        let steps = [
            "sender alloc page",
            "receiver free page",
            "receiver alloc answer",
            "sender free answer",
        ];
        let path = path(&steps, Some("page"), 100);
        let replayed = check(&path, Crew { burst: 1, capacity: 1, ..PAIRS }, 20);
        assert_eq!(replayed.counters.zone_allocs, 2 * 20);
    }

    /// A sender on any CPU waits while the queue is full, so nothing is lost.
    #[test]
    fn a_small_socket_holds_its_sender_back() {
        let crew = Crew { burst: 1, capacity: 2, place: Place::Unbound, ..PAIRS };
        check(&one("page", 1), crew, 2 * 10);
    }

    #[test]
    fn latencies_are_those_of_the_window() {
        let crew = Crew { burst: 1, capacity: 100, load: Some(Load::Rate(50_000)), ..PAIRS };
        let replayed = check(&one("page", 1), crew, 20);
        assert_eq!(replayed.latencies.len(), 20);
        assert!(replayed.latencies.is_sorted());
        assert!(replayed.wall_ns >= 9 * 20_000, "ten messages, 20 us apart");
    }

    #[test]
    #[should_panic(expected = "alone")]
    fn batches_of_several_senders_do_not_mix() {
        let crew = Crew { senders: 2, burst: 1, capacity: 5, ..PAIRS };
        run(&Uncached::default(), &one("page", 40), crew, SCALE);
    }
}
