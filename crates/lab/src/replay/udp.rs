//! The packets of netperf's `UDP-U-4k` (document 003): what one packet allocates, and what else it
//! costs.

use super::mailbox::Mailbox;
use super::memory::{Buffer, Counters, KernelMemory};
use crate::affinity;
use crate::patterns::window::{Budget, Window, process_cpu_ns};
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// A packet's head: `skbuff_head_cache` of that kernel, 256 bytes.
const HEAD_BYTES: usize = 256;
/// What the program sends at a time.
const PAYLOAD_BYTES: usize = 4096;
/// What it sends.
const PAYLOAD_BYTE: u8 = 0x51;
/// The data buffer holds payload, protocol headers and about 320 bytes of `skb_shared_info`: more
/// than 4,096 bytes, which kmalloc of 2.6.29 passed through to the page allocator, as two pages.
const DATA_ORDER: u8 = 1;
/// What one packet costs beside the allocator, fixed before any variant ran. The profile of
/// document 003 has 30.1 % in the two copies between program and kernel (4 KiB each) and 23.9 % in
/// the page allocator. The other 46.0 % are as much as copying 12.5 KB; sender and receiver
/// copy half of it each, between buffers of their own.
const OTHER_BYTES: usize = 6144;

/// How a replay is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape<'a> {
    /// Packets that a sender sends before the receiver gets the CPU.
    pub(crate) burst: usize,
    /// Pairs of sender and receiver.
    pub(crate) pairs: usize,
    /// CPUs that are used in turn: the sender of pair `i` on the `i`th, its receiver on the next.
    pub(crate) cpus: &'a [usize],
}

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replayed {
    /// Packets that were received, and how long it took.
    pub(crate) window: Window,
    /// What the memory counted meanwhile.
    pub(crate) counters: Counters,
}

struct Packet {
    head: Buffer,
    data: Buffer,
}

/// Buffers of one process: what it sends from or receives into, and work that is no allocator's.
struct Process {
    payload: Vec<u8>,
    other_from: Vec<u8>,
    other_to: Vec<u8>,
}

impl Process {
    fn new() -> Self {
        Self {
            payload: vec![PAYLOAD_BYTE; PAYLOAD_BYTES],
            other_from: vec![1; OTHER_BYTES],
            other_to: vec![2; OTHER_BYTES],
        }
    }

    fn other_work(&mut self) {
        black_box(&mut self.other_to).copy_from_slice(black_box(&self.other_from));
    }
}

/// Runs senders and receivers on `memory` for the budget.
///
/// # Panics
/// Where there is no memory left, or a CPU is not ours to use.
pub(crate) fn run<M: KernelMemory>(memory: &M, budget: Budget, shape: Shape<'_>) -> Replayed {
    let cache = memory.create_cache("skbuff_head_cache", HEAD_BYTES);
    // Senders and this thread meet when warm-up is over, when the window begins, and when it is
    // over: nothing is in flight while the counters are read.
    let phases = Barrier::new(shape.pairs + 1);
    let mailboxes: Vec<Mailbox<Packet>> = (0..shape.pairs).map(|_| Mailbox::new()).collect();
    thread::scope(|scope| {
        let (mut senders, mut receivers) = (Vec::new(), Vec::new());
        for (index, mailbox) in mailboxes.iter().enumerate() {
            let cpu =
                |step: usize| shape.cpus.get((index + step) % shape.cpus.len().max(1)).copied();
            let (sender_cpu, receiver_cpu, phases) = (cpu(0), cpu(1), &phases);
            receivers.push(scope.spawn(move || receive_all(memory, cache, mailbox, receiver_cpu)));
            senders.push(scope.spawn(move || {
                bind(sender_cpu);
                let mut sender = Sender { memory, cache, mailbox, process: Process::new() };
                let before = sender.send_for(budget.warm_up, shape.burst);
                phases.wait();
                phases.wait();
                let packets = sender.send_for(budget.measured, shape.burst);
                phases.wait();
                mailbox.close();
                (before, packets)
            }));
        }
        phases.wait();
        let (counters_before, cpu_before, start) =
            (memory.counters(), process_cpu_ns(), Instant::now());
        phases.wait();
        phases.wait();
        let (wall, cpu_after, after) = (start.elapsed(), process_cpu_ns(), memory.counters());
        let (mut before_the_window, mut operations) = (0, 0);
        for sender in senders {
            let (before, packets) = sender.join().expect("a sender ends well");
            before_the_window += before;
            operations += packets;
        }
        let received = receivers.into_iter().map(|it| it.join().expect("a receiver ends well"));
        let window = Window {
            operations,
            verified: received.sum::<u64>() - before_the_window,
            wall_ns: wall.as_nanos() as u64,
            cpu_ns: cpu_after - cpu_before,
        };
        Replayed { window, counters: after.since(counters_before) }
    })
}

fn bind(cpu: Option<usize>) {
    if let Some(cpu) = cpu {
        affinity::pin(cpu).expect("the CPU is one of those allowed");
    }
}

struct Sender<'a, M: KernelMemory> {
    memory: &'a M,
    cache: M::Cache,
    mailbox: &'a Mailbox<Packet>,
    process: Process,
}

impl<M: KernelMemory> Sender<'_, M> {
    /// Sends bursts until the time is over; returns the number of packets.
    fn send_for(&mut self, time: std::time::Duration, burst: usize) -> u64 {
        let start = Instant::now();
        let mut packets = Vec::with_capacity(burst);
        let mut sent = 0;
        loop {
            packets.extend((0..burst).map(|_| self.packet()));
            packets = self.mailbox.send(packets);
            sent += burst as u64;
            if start.elapsed() >= time {
                return sent;
            }
        }
    }

    fn packet(&mut self) -> Packet {
        let mut head = self.memory.alloc(self.cache).expect("memory for a head");
        let mut data = self.memory.alloc_pages(DATA_ORDER).expect("memory for a packet");
        head.write(&[0; HEAD_BYTES]);
        data.write(&self.process.payload);
        self.process.other_work();
        Packet { head, data }
    }
}

/// Frees all that comes, and returns how many packets came with their data.
fn receive_all<M: KernelMemory>(
    memory: &M,
    cache: M::Cache,
    mailbox: &Mailbox<Packet>,
    cpu: Option<usize>,
) -> u64 {
    bind(cpu);
    let mut process = Process::new();
    let mut received = 0;
    let mut take = |Packet { head, data }: Packet, process: &mut Process| {
        data.read(&mut process.payload);
        // The first and the last byte: the rest was copied by the same call.
        let ends = (process.payload.first(), process.payload.last());
        received += u64::from(ends == (Some(&PAYLOAD_BYTE), Some(&PAYLOAD_BYTE)));
        process.payload[0] = 0;
        process.other_work();
        memory.free_pages(DATA_ORDER, data);
        memory.free(cache, head);
    };
    while mailbox.receive(|packet| take(packet, &mut process)) {}
    received
}

#[cfg(test)]
mod tests {
    use super::super::memory::tests::Uncached;
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_packet_is_a_head_and_a_block_of_pages() {
        let memory = Uncached::default();
        let budget = Budget { warm_up: Duration::ZERO, measured: Duration::from_millis(1) };
        let shape = Shape { burst: 30, pairs: 2, cpus: &[] };
        let Replayed { window, counters } = run(&memory, budget, shape);
        assert!(window.operations >= 60 && window.operations % 30 == 0);
        assert_eq!(window.verified, window.operations, "every packet arrived");
        assert_eq!(counters.zone_allocs, 2 * window.operations);
        assert_eq!(counters.zone_frees, 2 * window.operations);
        assert_eq!(memory.live(), 0, "everything was received and freed");
    }
}
