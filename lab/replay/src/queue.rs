//! A receive queue between threads: the socket or pipe that a receiver reads from.
//!
//! A sender reserves room before it allocates, as the kernel charges a socket's buffer, and waits
//! if there is no room. A receiver takes all messages at once, and releases their room when it has
//! processed all of them. So each side has the CPU for a whole burst, as it would under a
//! scheduler's time slices.

use crate::flight::Flight;
use crate::host::{Condvar, Mutex, MutexGuard};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A queue with any number of senders and one receiver.
#[derive(Debug)]
pub(crate) struct Queue {
    inside: Mutex<Inside>,
    /// Signalled when there are messages to receive, or when the last sender has ended.
    filled: Condvar,
    /// Signalled when a receiver releases room and threads wait for it.
    emptied: Condvar,
    /// References to the open file, counted if threads share the table of files.
    file: AtomicU64,
}

#[derive(Debug, Default)]
struct Inside {
    /// Messages that are not received yet.
    flight: Flight,
    /// Pieces that return to the sender.
    back: Flight,
    /// Messages in use: room that was reserved and not yet released.
    used: u32,
    /// The maximum number of messages in use. A message always fits into an empty queue.
    capacity: u32,
    /// Senders that may still send.
    senders: u32,
    /// Threads that wait for `emptied`. The thread that makes room signals only if there are any.
    waiting: u32,
    receiver_waits: bool,
    /// Messages that arrived with their payload intact.
    verified: u64,
}

impl Queue {
    /// Makes a queue for messages that hold `pieces` kinds of pieces.
    pub(crate) fn new(pieces: usize, capacity: u32, senders: u32) -> Self {
        let inside = Inside {
            flight: Flight::new(pieces),
            back: Flight::new(pieces),
            capacity,
            senders,
            ..Inside::default()
        };
        let (filled, emptied) = Default::default();
        Self { inside: Mutex::new(inside), filled, emptied, file: AtomicU64::new(1) }
    }

    /// Takes the reference that a system call holds on an open file while it runs. Threads share
    /// the table of files and count the reference; a process that has the table alone does not.
    pub(crate) fn enter(&self, shared: bool) -> FileReference<'_> {
        if shared {
            self.file.fetch_add(1, Relaxed);
        }
        FileReference { file: shared.then_some(&self.file) }
    }

    /// Waits for room for this many messages, and reserves it.
    pub(crate) fn reserve(&self, messages: u32) {
        drop(self.take_room(self.inside.lock(), messages));
    }

    fn take_room<'a>(
        &self,
        inside: MutexGuard<'a, Inside>,
        messages: u32,
    ) -> MutexGuard<'a, Inside> {
        let is_full = |inside: &Inside| inside.used > 0 && inside.used + messages > inside.capacity;
        let mut inside = self.wait_while(inside, is_full);
        inside.used += messages;
        inside
    }

    fn wait_while<'a>(
        &self,
        mut inside: MutexGuard<'a, Inside>,
        condition: impl Fn(&Inside) -> bool,
    ) -> MutexGuard<'a, Inside> {
        while condition(&inside) {
            inside.waiting += 1;
            inside = self.emptied.wait(inside);
            inside.waiting -= 1;
        }
        inside
    }

    /// Sends messages for which room was reserved.
    pub(crate) fn send(&self, burst: &mut Flight) {
        let mut inside = self.inside.lock();
        inside.flight.append(burst);
        self.wake_receiver(inside);
    }

    /// Waits for room for one message and lets `fill` send it with the queue locked, as the kernel
    /// holds a pipe's mutex while it allocates and copies.
    pub(crate) fn send_inside(&self, fill: impl FnOnce(&mut Flight)) {
        let mut inside = self.take_room(self.inside.lock(), 1);
        fill(&mut inside.flight);
        self.wake_receiver(inside);
    }

    fn wake_receiver(&self, mut inside: MutexGuard<'_, Inside>) {
        if std::mem::take(&mut inside.receiver_waits) {
            drop(inside);
            self.filled.notify_one();
        }
    }

    /// Waits for messages and moves all of them to `inbox`, which must be empty. Returns `false` if
    /// there are no messages and no sender that could send any.
    pub(crate) fn receive(&self, inbox: &mut Flight) -> bool {
        let Some(mut inside) = self.wait_for_messages() else { return false };
        std::mem::swap(&mut inside.flight, inbox);
        true
    }

    fn wait_for_messages(&self) -> Option<MutexGuard<'_, Inside>> {
        let mut inside = self.inside.lock();
        while inside.flight.messages() == 0 {
            if inside.senders == 0 {
                return None;
            }
            inside.receiver_waits = true;
            inside = self.filled.wait(inside);
        }
        Some(inside)
    }

    /// Releases the room of the received messages, and returns their answers, if any, to the
    /// sender. `verified` of the messages were intact. `inbox` is empty afterwards.
    pub(crate) fn done(&self, inbox: &mut Flight, verified: u64) {
        let mut inside = self.inside.lock();
        inside.used -= inbox.answered;
        inside.verified += verified;
        if inbox.is_empty() {
            inbox.answered = 0;
        } else {
            inside.back.append(inbox);
        }
        self.wake_senders(inside);
    }

    /// Waits for messages and lets `take` receive them, with the queue locked; `take` returns how
    /// many were intact. Returns `false` if no message is there and no sender can send any.
    pub(crate) fn receive_inside(&self, take: impl FnOnce(&mut Flight) -> u64) -> bool {
        let Some(mut inside) = self.wait_for_messages() else { return false };
        let verified = take(&mut inside.flight);
        inside.used -= std::mem::take(&mut inside.flight.answered);
        inside.verified += verified;
        self.wake_senders(inside);
        true
    }

    fn wake_senders(&self, inside: MutexGuard<'_, Inside>) {
        if inside.waiting > 0 {
            drop(inside);
            self.emptied.notify_all();
        }
    }

    /// Moves the answers that have come back to `answers`, which must be empty.
    pub(crate) fn answers(&self, answers: &mut Flight) {
        std::mem::swap(&mut self.inside.lock().back, answers);
    }

    /// Waits until nothing is on its way.
    pub(crate) fn settle(&self) {
        drop(self.wait_while(self.inside.lock(), |inside| inside.used > 0));
    }

    pub(crate) fn close(&self) {
        let mut inside = self.inside.lock();
        inside.senders -= 1;
        self.wake_receiver(inside);
    }

    pub(crate) fn verified(&self) -> u64 {
        self.inside.lock().verified
    }

    /// Returns what the queue still holds at the end: a recycled piece, if the queue kept one.
    pub(crate) fn into_flight(self) -> Flight {
        self.inside.into_inner().flight
    }
}

/// A system call on an open file.
pub(crate) struct FileReference<'a> {
    file: Option<&'a AtomicU64>,
}

impl Drop for FileReference<'_> {
    fn drop(&mut self) {
        if let Some(file) = self.file {
            file.fetch_sub(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::KernelMemory;
    use std::thread;

    /// Sends `count` numbers in bursts of `burst`, from `senders` threads; returns what arrived.
    fn trade(senders: u32, capacity: u32, burst: u32, count: u64) -> Vec<u64> {
        let queue = Queue::new(0, capacity, senders);
        let arrived = thread::scope(|scope| {
            for sender in 0..u64::from(senders) {
                let queue = &queue;
                scope.spawn(move || {
                    let mut outbox = Flight::new(0);
                    for first in (0..count).step_by(burst as usize) {
                        queue.reserve(burst);
                        assert!(outbox.tags.is_empty());
                        let tags = (0..u64::from(burst)).map(|n| (first + n) << 8 | sender);
                        outbox.tags.extend(tags);
                        queue.send(&mut outbox);
                    }
                    queue.settle();
                    queue.close();
                });
            }
            let (mut inbox, mut arrived) = (Flight::new(0), Vec::new());
            while queue.receive(&mut inbox) {
                assert!(capacity < burst || inbox.messages() <= capacity);
                inbox.answered = inbox.messages();
                arrived.extend(inbox.tags.drain(..));
                let verified = u64::from(inbox.answered);
                queue.done(&mut inbox, verified);
            }
            arrived
        });
        assert_eq!(queue.verified(), arrived.len() as u64);
        arrived
    }

    #[test]
    fn messages_arrive_in_order_and_once() {
        assert_eq!(trade(1, 3, 3, 300), (0..300).map(|n| n << 8).collect::<Vec<u64>>());
        assert_eq!(trade(1, 1, 5, 100).len(), 100, "a burst fits into an empty queue");
    }

    #[test]
    fn messages_of_each_sender_arrive_in_order() {
        let arrived = trade(4, 10, 2, 500);
        assert_eq!(arrived.len(), 2000);
        for sender in 0..4 {
            let of = arrived.iter().filter(|tag| **tag & 0xff == sender).map(|tag| tag >> 8);
            assert_eq!(of.collect::<Vec<u64>>(), (0..500).collect::<Vec<u64>>());
        }
    }

    #[test]
    fn what_is_sent_inside_is_received_inside() {
        let queue = Queue::new(0, 4, 2);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for tag in 0..1000 {
                        let _file = queue.enter(true);
                        queue.send_inside(|flight| flight.tags.push_back(tag));
                    }
                    queue.close();
                });
            }
            let take = |flight: &mut Flight| {
                flight.answered = flight.messages();
                flight.tags.drain(..).count() as u64
            };
            while queue.receive_inside(take) {}
        });
        assert_eq!(queue.verified(), 2000);
        assert_eq!(queue.file.load(Relaxed), 1, "every reference was dropped");
        assert!(queue.into_flight().is_empty());
    }

    #[test]
    fn answers_go_back() {
        let memory = crate::memory::tests::Uncached::default();
        let queue = Queue::new(1, 9, 1);
        let mut flight = Flight::new(1);
        flight.tags.extend([1, 2]);
        queue.reserve(2);
        queue.send(&mut flight);
        assert!(queue.receive(&mut flight));
        (flight.answered, flight.tags) = (2, Default::default());
        flight.held[0].extend(memory.alloc(8));
        queue.done(&mut flight, 2);
        queue.settle();
        assert!(flight.is_empty());
        queue.answers(&mut flight);
        assert_eq!((flight.answered, flight.held[0].len()), (2, 1));
        memory.free(8, flight.held[0].pop_front().unwrap());
        queue.close();
        assert!(!queue.receive(&mut Flight::new(1)));
    }
}
