//! Threads in a ring: each allocates for the next thread and frees the blocks of the previous one.
//! The cost of passing blocks on is measured with preallocated blocks and subtracted.

use super::handover::{BURST, CAPACITY, CHUNK_BURSTS, Queue, WORDS, wait};
use super::heap::{Heap, PREALLOCATED};
use super::others::Others;
use super::window::{self, Budget, Done, Window};
use quarry_harness::statistics::median;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A preallocated block is used again only after its burst has left the queue.
const _: () = assert!(PREALLOCATED >= (CAPACITY + BURST) * WORDS);

struct Place<'a> {
    heap: Heap,
    payload: usize,
    inbox: &'a Queue,
    outbox: &'a Queue,
    sent: usize,
    received: usize,
}

impl Place<'_> {
    /// Frees the blocks that have arrived; returns whether there were any.
    fn receive(&mut self) -> bool {
        let sent = self.inbox.sent();
        let has_news = sent > self.received;
        if has_news {
            self.inbox.free_up_to(self.heap, &mut self.received, sent);
        }
        has_news
    }

    /// Sends a burst. Receives while the queue has no room, unless `gives_up`.
    fn send(&mut self, gives_up: impl Fn() -> bool) {
        let mut spins = 0;
        while !self.outbox.has_room(self.sent) {
            if gives_up() {
                return;
            }
            if !self.receive() {
                wait(&mut spins);
            }
        }
        self.outbox.put_burst(self.heap, &mut self.sent, self.payload);
        self.receive();
    }
}

/// Slices of a sample: half on the heap, half on preallocated blocks, in turn.
const SLICES: u32 = 10;
/// A difference of fewer nanoseconds per operation is noise, and counts as this many.
const LEAST: f64 = 1.0;

/// Measures slices on the heap and on preallocated blocks in turn. The time of an operation is the
/// median of the differences between a slice on the heap and the next one on preallocated blocks;
/// the median leaves out slices that were disturbed. Returns all operations on the heap, each with
/// that time.
pub(super) fn run(heap: Heap, budget: Budget, payload: usize, others: Others<'_>) -> Window {
    let slice = Budget { warm_up: budget.warm_up / SLICES, measured: budget.measured / SLICES };
    let mut total = Window::default();
    let (mut wall, mut cpu) = (Vec::new(), Vec::new());
    for _ in 0..SLICES / 2 {
        let with = turn(heap, slice, payload, others);
        let floor = turn(Heap::of_preallocated(), slice, payload, others);
        total.operations += with.operations;
        total.verified += with.verified;
        let longer = |of: fn(&Window) -> u64| {
            let each = |window: &Window| of(window) as f64 / window.operations as f64;
            each(&with) - each(&floor)
        };
        wall.push(longer(|window| window.wall_ns));
        cpu.push(longer(|window| window.cpu_ns));
    }
    let in_all = |differences: &[f64]| {
        let each = median(differences).unwrap_or(LEAST).max(LEAST);
        (each * total.operations as f64) as u64
    };
    Window { wall_ns: in_all(&wall), cpu_ns: in_all(&cpu), ..total }
}

/// Measures the ring once. Operation: a head with its payload that the first thread sends.
fn turn(heap: Heap, budget: Budget, payload: usize, others: Others<'_>) -> Window {
    let threads = others.count + 1;
    let queues: Vec<Queue> = (0..threads).map(|_| Queue::new()).collect();
    let place = |number: usize| Place {
        heap,
        payload,
        inbox: &queues[number],
        outbox: &queues[(number + 1) % threads],
        sent: 0,
        received: 0,
    };
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let start = |number: usize| {
            let mut place = place(number + 1);
            let stop = &stop;
            scope.spawn(move || {
                others.pin(number);
                let is_over = || stop.load(Ordering::Acquire);
                while !is_over() {
                    place.send(is_over);
                }
                place
            })
        };
        let companions: Vec<_> = (0..others.count).map(start).collect();
        let mut first = place(0);
        let window = window::measure(budget, || {
            for _ in 0..CHUNK_BURSTS {
                first.send(|| false);
            }
            Done { operations: (CHUNK_BURSTS * BURST) as u64, verified: 0 }
        });
        stop.store(true, Ordering::Release);
        let mut places = vec![first];
        places.extend(companions.into_iter().map(|it| it.join().expect("every mark was found")));
        // No thread sends any more: blocks still in the queues are freed here.
        for place in &mut places {
            place.receive();
        }
        for (number, place) in places.iter().enumerate() {
            assert_eq!(place.sent, places[(number + 1) % threads].received, "a burst was lost");
        }
        let before_the_window = places[0].sent as u64 - window.operations;
        Window { verified: places[1 % threads].received as u64 - before_the_window, ..window }
    })
}
