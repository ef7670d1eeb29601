//! One thread allocates and another frees, so memory moves between CPUs.

use super::heap::{Block, Heap};
use super::others::Others;
use super::window::{self, Budget, Done, Window};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{hint, thread};

/// Bytes of a head, like a network packet's in the kernel's `skbuff_head_cache`.
pub(super) const HEAD: usize = 256;
pub(super) const BURST: usize = 64;
/// Bursts per chunk. A chunk takes about 15 us on a fast allocator.
pub(super) const CHUNK_BURSTS: usize = 16;
pub(super) const CAPACITY: usize = 1024;
/// Words per entry of the queue: head and payload.
pub(super) const WORDS: usize = 2;
/// Reads of an unchanged queue before the thread yields the CPU.
const SPINS: u32 = 200;

const _: () = assert!(CAPACITY.is_multiple_of(BURST) && CAPACITY.is_power_of_two());

/// A counter alone on its cache line and on the neighbour line that the CPU prefetches with it.
#[repr(align(128))]
struct Padded(AtomicUsize);

/// A bounded queue between one sender and one receiver. It holds the heads `received..sent`.
pub(super) struct Queue {
    words: Vec<AtomicUsize>,
    sent: Padded,
    received: Padded,
    closed: AtomicBool,
}

impl Queue {
    pub(super) fn new() -> Self {
        Self {
            words: (0..CAPACITY * WORDS).map(|_| AtomicUsize::new(0)).collect(),
            sent: Padded(AtomicUsize::new(0)),
            received: Padded(AtomicUsize::new(0)),
            closed: AtomicBool::new(false),
        }
    }

    pub(super) fn has_room(&self, sent: usize) -> bool {
        sent + BURST - self.received() <= CAPACITY
    }

    /// Allocates a burst of heads with payloads and sends it. The queue must have room.
    pub(super) fn put_burst(&self, heap: Heap, sent: &mut usize, payload: usize) {
        for number in *sent..*sent + BURST {
            let entry = self.entry(number);
            let head = heap.allocate(HEAD, number as u64);
            let data = heap.allocate(payload, number as u64);
            entry[0].store(head.into_word(), Ordering::Relaxed);
            entry[1].store(data.into_word(), Ordering::Relaxed);
        }
        *sent += BURST;
        self.sent.0.store(*sent, Ordering::Release);
    }

    pub(super) fn received(&self) -> usize {
        self.received.0.load(Ordering::Acquire)
    }

    pub(super) fn sent(&self) -> usize {
        self.sent.0.load(Ordering::Acquire)
    }

    /// Frees the heads `received..sent` with their payloads, and sets `received` to `sent`. Only
    /// one thread calls this for a queue. `received` is the value of `sent` in the previous call,
    /// and `sent` is at most a value that [`Queue::sent`] has returned.
    pub(super) fn free_up_to(&self, heap: Heap, received: &mut usize, sent: usize) {
        for number in *received..sent {
            let entry = self.entry(number);
            // SAFETY: the sender has stored two live blocks as words in each entry below `sent`. As
            // `received` only grows, each word becomes a block once.
            let (head, data) = unsafe {
                (
                    Block::from_word(entry[0].load(Ordering::Relaxed)),
                    Block::from_word(entry[1].load(Ordering::Relaxed)),
                )
            };
            heap.free(data, number as u64);
            heap.free(head, number as u64);
        }
        *received = sent;
        self.received.0.store(*received, Ordering::Release);
    }

    fn entry(&self, number: usize) -> &[AtomicUsize] {
        let start = number % CAPACITY * WORDS;
        &self.words[start..start + WORDS]
    }
}

/// Spins once; every `SPINS`th call yields the CPU instead. `spins` counts the calls.
pub(super) fn wait(spins: &mut u32) {
    *spins += 1;
    if spins.is_multiple_of(SPINS) {
        thread::yield_now();
    } else {
        hint::spin_loop();
    }
}

pub(super) fn wait_until<T>(mut ready: impl FnMut() -> Option<T>) -> T {
    let mut spins = 0;
    loop {
        match ready() {
            Some(value) => return value,
            None => wait(&mut spins),
        }
    }
}

pub(super) fn run(heap: Heap, budget: Budget, payload: usize, others: Others<'_>) -> Window {
    let queue = Queue::new();
    thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            others.pin(0);
            receive(heap, &queue)
        });
        let mut sent = 0;
        let window = window::measure(budget, || {
            for _ in 0..CHUNK_BURSTS {
                send_burst(heap, &queue, &mut sent, payload);
            }
            // The receiver checks the blocks; their number is added at the end.
            Done { operations: (CHUNK_BURSTS * BURST) as u64, verified: 0 }
        });
        queue.closed.store(true, Ordering::Release);
        let received = receiver.join().expect("the receiver found every mark");
        let before_the_window = sent as u64 - window.operations;
        Window { verified: received as u64 - before_the_window, ..window }
    })
}

pub(super) fn send_burst(heap: Heap, queue: &Queue, sent: &mut usize, payload: usize) {
    wait_until(|| queue.has_room(*sent).then_some(()));
    queue.put_burst(heap, sent, payload);
}

fn receive(heap: Heap, queue: &Queue) -> usize {
    let mut received = 0;
    loop {
        let sent = wait_until(|| {
            let closed = queue.closed.load(Ordering::Acquire);
            let sent = queue.sent();
            (sent > received || closed).then_some(sent)
        });
        if sent == received {
            return received;
        }
        queue.free_up_to(heap, &mut received, sent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn more_heads_than_the_queue_holds_all_arrive() {
        let budget =
            Budget { warm_up: Duration::from_millis(2), measured: Duration::from_millis(2) };
        let window = run(Heap::of_this_process(), budget, 64, Others { count: 1, cpus: &[] });
        assert!(window.operations >= (CHUNK_BURSTS * BURST) as u64);
    }
}
