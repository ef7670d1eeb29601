//! Connections through a network card. Each process sends a request and sleeps until the answer;
//! the card interrupts one CPU for all of them.
//!
//! Under NAPI (Linux from 2.6, `net/core/dev.c`) an interrupt of the card only starts a poll. A
//! poll takes at most `poll` packets and wakes the process of each packet. If it found as many as
//! it may take, another poll follows; otherwise the card may interrupt again, once `frames` packets
//! have come or `frames_us` after the first of them. The interrupted CPU does all work on a packet
//! up to its socket, one packet after the other.
//!
//! The other host is not simulated. It is assumed to be an equal machine under the same load: a
//! request stays there as long as the connection's last answer stayed here, from the wire until the
//! process had sent its next request.

use crate::flight::Flight;
use crate::host::{self, Condvar, Moment, Mutex, spawn, spawn_handler};
use crate::memory::KernelMemory;
use crate::path::{Path, Plan};
use crate::stage::{Replayed, Scale, Stage};
use crate::worker::Worker;
use quarry_sys::lock::CountedLock;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A network card, its driver, and the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// Maximum number of packets that a poll takes.
    pub poll: u32,
    /// Number of arrived packets at which the card interrupts.
    pub frames: usize,
    /// Microseconds after the first packet at which the card interrupts even if fewer packets came.
    pub frames_us: u64,
    /// Nanoseconds that a packet spends on the wire, there and back together.
    pub wire_ns: u64,
}

/// A packet that the card has sent, or that is on its way back.
struct Packet {
    connection: usize,
    flight: Flight,
    /// When its answer reaches the card.
    arrives: Moment,
}

/// The packets that the driver has handed to the card for sending. The ring starts at a page
/// boundary, so that its lock has the same cache lines in every process.
#[repr(align(4096))]
struct Ring(CountedLock<Vec<Packet>>);

/// The receiving end of a connection.
#[derive(Debug, Default)]
struct Socket {
    /// The answer, and when it reached the card.
    answer: Mutex<Option<(Flight, Moment)>>,
    filled: Condvar,
}

impl Socket {
    fn fill(&self, answer: Flight, arrived: Moment) {
        *self.answer.lock() = Some((answer, arrived));
        self.filled.notify_one();
    }

    fn wait(&self) -> (Flight, Moment) {
        let mut answer = self.answer.lock();
        loop {
            match answer.take() {
                Some(answer) => return answer,
                None => answer = self.filled.wait(answer),
            }
        }
    }
}

struct Scene<'a, M: KernelMemory> {
    card: Card,
    memory: &'a M,
    plan: &'a Plan<M::Cache>,
    ring: &'a Ring,
    sockets: &'a [Socket],
    stage: &'a Stage<Duration>,
    /// Number of answers that processes have received so far, and of intact ones among them.
    sent: AtomicU64,
    verified: AtomicU64,
    is_over: AtomicBool,
}

/// Lets `scale.tasks` processes send along `path`. The scheduler chooses their CPUs, and the card
/// interrupts the first CPU of `scale.cpus`.
pub(crate) fn run<M: KernelMemory>(
    memory: &M,
    path: &Path,
    card: Card,
    scale: Scale<'_>,
) -> Replayed {
    assert_eq!(path.longest_batch, 1, "connections share no piece");
    let plan = path.plan(memory);
    let ring = Box::new(Ring(CountedLock::new(Vec::new())));
    let sockets: Vec<Socket> = (0..scale.tasks).map(|_| Socket::default()).collect();
    let stage = Stage::new(scale.tasks);
    let scene = Scene {
        card,
        memory,
        plan: &plan,
        ring: &ring,
        sockets: &sockets,
        stage: &stage,
        sent: AtomicU64::new(0),
        verified: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
    };
    let scene = &scene;
    host::scope(|scope| {
        for index in 0..scale.tasks {
            spawn(scope, &[], index, move || scene.converse(index));
        }
        spawn_handler(scope, scale.cpus, move || scene.poll());
        stage.conduct(memory, scale.warm_up);
        let (sent, verified) = (scene.sent.load(Relaxed), scene.verified.load(Relaxed));
        let mut replayed = stage.conduct(memory, scale.measured);
        replayed.sent = scene.sent.load(Relaxed) - sent;
        replayed.verified = scene.verified.load(Relaxed) - verified;
        stage.end();
        scene.is_over.store(true, Relaxed);
        replayed
    })
}

impl<M: KernelMemory> Scene<'_, M> {
    /// A process: one request after the other.
    fn converse(&self, connection: usize) {
        let mut worker = Worker::new(self.memory, self.plan);
        let mut tag = (connection as u64) << 40;
        let mut last = Duration::ZERO;
        self.stage.follow(|time| {
            let start = Moment::now();
            let mut arrived = None;
            while start.elapsed() < time {
                let mut flight = worker.flight();
                tag += 1;
                worker.send(&mut flight, tag);
                last = arrived.map_or(last, Moment::elapsed);
                let arrives = Moment::now().after(self.card.wire_ns + last.as_nanos() as u64);
                self.ring.0.lock().push(Packet { connection, flight, arrives });
                let (mut answer, at) = self.sockets[connection].wait();
                worker.settle(&mut answer);
                arrived = Some(at);
                self.sent.fetch_add(1, Relaxed);
            }
        });
    }

    /// The card's driver. It runs in the interrupts of its CPU.
    fn poll(&self) {
        let mut worker = Worker::new(self.memory, self.plan);
        // Sorted by time of arrival, then by the order of sending.
        let mut coming: BTreeMap<(Moment, u64), Packet> = BTreeMap::new();
        let mut number = 0;
        while !self.is_over.load(Relaxed) {
            for packet in std::mem::take(&mut *self.ring.0.lock()) {
                number += 1;
                coming.insert((packet.arrives, number), packet);
            }
            let mut polled = 0;
            while polled < self.card.poll
                && let Some(first) = coming.first_entry()
                && first.key().0 <= Moment::now()
            {
                let Packet { connection, mut flight, arrives } = first.remove();
                worker.receive(&mut flight, |_| ());
                // Counted before the process goes on, because the measurement may then end.
                self.verified.fetch_add(std::mem::take(&mut worker.verified), Relaxed);
                self.sockets[connection].fill(flight, arrives);
                polled += 1;
            }
            if polled < self.card.poll {
                self.wait_for_interrupt(&coming);
            }
        }
    }

    /// Sleeps until the card interrupts. A packet sent during this sleep cannot arrive before the
    /// sleep ends, because the packet is on the wire for at least as long.
    fn wait_for_interrupt(&self, coming: &BTreeMap<(Moment, u64), Packet>) {
        let Card { frames, frames_us, wire_ns, .. } = self.card;
        let arrival = |packet: usize| coming.keys().nth(packet).map(|(arrives, _)| *arrives);
        let now = Moment::now();
        let mut next = now.after(wire_ns);
        if let Some(first) = arrival(0) {
            next = next.min(first.after(frames_us * 1_000));
        }
        next = arrival(frames.saturating_sub(1)).map_or(next, |full| next.min(full));
        host::sleep(next.since(now).as_nanos() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::Uncached;
    use crate::path::tests::path;

    const STEPS: [&str; 4] =
        ["sender alloc page", "receiver alloc answer", "receiver free page", "sender free answer"];

    #[test]
    fn every_request_is_answered_and_everything_freed() {
        let memory = Uncached::default();
        let path = path(&STEPS, Some("page"), 100);
        let measured = Duration::from_millis(5);
        let scale = Scale { tasks: 9, cpus: &[], warm_up: Duration::ZERO, measured };
        let card = Card { poll: 2, frames: 3, frames_us: 20, wire_ns: 50_000 };
        let replayed = run(&memory, &path, card, scale);
        assert!(replayed.sent >= 9, "each process sends at least once: {}", replayed.sent);
        assert_eq!(replayed.verified, replayed.sent);
        assert_eq!(replayed.counters.zone_allocs, 2 * replayed.sent);
        assert_eq!(memory.check_at_end(), Ok(()));
    }
}
