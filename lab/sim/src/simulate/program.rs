//! The steps of each thread of a recorded program.

use quarry_trace::{Call, Event, Trace};
use std::collections::HashMap;

/// A thread's operation on a block: the memory of one allocation, numbered in allocation order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Allocates the block.
    Alloc {
        /// The block.
        block: u32,
        /// Its bytes.
        size: usize,
        /// log2 of the alignment in bytes; 0 = any alignment.
        align_shift: u8,
        /// True if the block has to be zeroed.
        zeroed: bool,
    },
    /// Frees the block.
    Free {
        /// The block.
        block: u32,
    },
    /// Changes the size of the block.
    Resize {
        /// The block.
        block: u32,
        /// Its new bytes.
        size: usize,
    },
}

impl Op {
    /// The block.
    #[must_use]
    pub fn block(self) -> u32 {
        let (Self::Alloc { block, .. } | Self::Free { block } | Self::Resize { block, .. }) = self;
        block
    }
}

/// An operation and the work before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The step begins when this block has had so many operations. Threads of a pattern wait so for
    /// each other; no step of a trace does.
    pub awaits: Option<(u32, u32)>,
    /// Nanoseconds of work between the thread's previous operation and this one.
    pub think_ns: u64,
    /// How many operations of any thread on the same block precede this one, which waits for them.
    pub turn: u32,
    /// The operation.
    pub op: Op,
}

/// A part of a recorded program that can be played: every block is allocated before it is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The steps of each thread. A thread without steps is left out.
    pub threads: Vec<Vec<Step>>,
    /// Number of blocks.
    pub blocks: u32,
    /// The largest number of bytes that the program had requested and not yet freed.
    pub live_bytes: u64,
    /// Number of frees and resizes that were left out, because their blocks were allocated before
    /// the chosen part of the trace, or while calls were not recorded.
    pub left_out: usize,
}

/// The longest time between two calls that counts as work. The rest of a longer time was a wait for
/// something, and such waits are not simulated.
const LONGEST_WORK_NS: u64 = 100_000;
/// Roughly how long a call on glibc and its recording took, which is not the program's work. The
/// recording was measured on an AMD EPYC of family 25 (docs/trace.md).
const CALL_NS: u64 = 80;

/// The time at which a call takes effect. A resize has two, its start and its end. Between them its
/// block has no address here, because another thread may get the old address, or free the new one.
#[derive(Clone, Copy)]
struct Moment<'a> {
    at_ns: u64,
    thread: usize,
    event: &'a Event,
    /// True at the end of a resize.
    ends: bool,
}

struct Builder {
    /// For each address in use: the block's number, its size, and the operations on it so far.
    blocks: HashMap<u64, (u32, usize, u32)>,
    /// The block that each thread is resizing, with the same facts.
    moving: Vec<Option<(u32, usize, u32)>>,
    /// For each thread, when its last call ended.
    last_ns: Vec<Option<u64>>,
    program: Program,
    live: u64,
}

impl Program {
    /// The program of a trace's middle `calls` calls, or of all if fewer. O(calls of the trace).
    #[must_use]
    pub fn of(trace: &Trace, calls: usize) -> Self {
        let mut events: Vec<(usize, &Event)> = Vec::with_capacity(trace.calls());
        for (thread, recorded) in trace.threads.iter().enumerate() {
            events.extend(recorded.iter().map(|event| (thread, event)));
        }
        // The sort is stable, so the events of a thread stay in order.
        events.sort_by_key(|(_, event)| event.at_ns);
        let skipped = events.len().saturating_sub(calls) / 2;
        let part = events.into_iter().skip(skipped).take(calls);
        let mut moments: Vec<Moment<'_>> = part.flat_map(Moment::of).collect();
        moments.sort_by_key(|moment| moment.at_ns);
        let threads = vec![Vec::new(); trace.threads.len()];
        let mut builder = Builder {
            blocks: HashMap::new(),
            moving: vec![None; trace.threads.len()],
            last_ns: vec![None; trace.threads.len()],
            program: Self { threads, ..Self::default() },
            live: 0,
        };
        moments.iter().for_each(|moment| builder.add(moment));
        let mut program = builder.program;
        program.threads.retain(|steps| !steps.is_empty());
        program
    }

    /// Number of steps of all threads.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.threads.iter().map(Vec::len).sum()
    }
}

impl<'a> Moment<'a> {
    /// The moments of an event, in the order of time.
    fn of((thread, event): (usize, &'a Event)) -> impl Iterator<Item = Self> {
        let begin = Self { at_ns: event.at_ns, thread, event, ends: false };
        let end = match event.call {
            Call::Resize { took_ns, .. } => {
                Some(Self { at_ns: event.at_ns.saturating_add(took_ns), ends: true, ..begin })
            }
            _ => None,
        };
        [begin].into_iter().chain(end)
    }
}

impl Builder {
    fn add(&mut self, moment: &Moment<'_>) {
        let Moment { thread, event, ends, .. } = *moment;
        if ends {
            if let (Call::Resize { address, .. }, Some((block, size, turns))) =
                (event.call, self.moving[thread].take())
            {
                self.put(address, block, size, turns);
            }
            self.last_ns[thread] = Some(moment.at_ns);
            return;
        }
        let since_ns = self.last_ns[thread].map_or(0, |last| event.at_ns.saturating_sub(last));
        self.last_ns[thread] = Some(event.at_ns);
        let think_ns = since_ns.saturating_sub(CALL_NS).min(LONGEST_WORK_NS);
        if let Some((turn, op)) = self.op(event.call, thread) {
            self.program.threads[thread].push(Step { awaits: None, think_ns, turn, op });
        }
    }

    fn op(&mut self, call: Call, thread: usize) -> Option<(u32, Op)> {
        match call {
            Call::Alloc { address, size, align_shift, zeroed } => {
                let block = self.program.blocks;
                self.program.blocks += 1;
                let size = size as usize;
                self.put(address, block, size, 1);
                Some((0, Op::Alloc { block, size, align_shift, zeroed }))
            }
            Call::Free { address } => {
                let (block, turn) = self.take(address)?;
                Some((turn, Op::Free { block }))
            }
            Call::Resize { old, size, .. } => {
                let (block, turn) = self.take(old)?;
                let size = size as usize;
                self.moving[thread] = Some((block, size, turn + 1));
                Some((turn, Op::Resize { block, size }))
            }
        }
    }

    /// Notes a new or moved block at `address`. A block that is still there had an unrecorded free.
    fn put(&mut self, address: u64, block: u32, size: usize, turns: u32) {
        if let Some((_, lost, _)) = self.blocks.insert(address, (block, size, turns)) {
            self.live -= lost as u64;
        }
        self.live += size as u64;
        self.program.live_bytes = self.program.live_bytes.max(self.live);
    }

    /// Removes the block at `address`. Returns its number and the operations on it so far.
    fn take(&mut self, address: u64) -> Option<(u32, u32)> {
        let Some((block, size, turns)) = self.blocks.remove(&address) else {
            self.program.left_out += 1;
            return None;
        };
        self.live -= size as u64;
        Some((block, turns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at_ns: u64, call: Call) -> Event {
        Event { at_ns, cpu: 0, call }
    }

    fn alloc(at_ns: u64, address: u64, size: u64) -> Event {
        event(at_ns, Call::Alloc { address, size, align_shift: 0, zeroed: false })
    }

    fn free(at_ns: u64, address: u64) -> Event {
        event(at_ns, Call::Free { address })
    }

    fn trace(threads: &[&[Event]]) -> Trace {
        Trace {
            command: "prog".into(),
            lost: 0,
            threads: threads.iter().map(|events| events.to_vec()).collect(),
            event_bytes: 0,
            chunks: 0,
        }
    }

    #[test]
    fn blocks_are_followed_from_thread_to_thread() {
        let resize = Call::Resize { old: 0x10, address: 0x30, size: 500, took_ns: 50 };
        let one = [alloc(1_000, 0x10, 100), alloc(2_000, 0x20, 200), event(3_000, resize)];
        let two = [free(4_000, 0x30), free(10_000_000, 0x20), free(10_000_100, 0x20)];
        let program = Program::of(&trace(&[&one, &two]), 100);
        let plain = |block, size| Op::Alloc { block, size, align_shift: 0, zeroed: false };
        let step = |think_ns, turn, op| Step { awaits: None, think_ns, turn, op };
        assert_eq!(
            program.threads,
            [
                vec![
                    step(0, 0, plain(0, 100)),
                    step(1_000 - CALL_NS, 0, plain(1, 200)),
                    step(1_000 - CALL_NS, 1, Op::Resize { block: 0, size: 500 }),
                ],
                vec![
                    step(0, 2, Op::Free { block: 0 }),
                    step(LONGEST_WORK_NS, 1, Op::Free { block: 1 })
                ],
            ]
        );
        assert_eq!((program.blocks, program.live_bytes, program.left_out), (2, 700, 1));
    }

    /// A resized block may get an address that another thread has just freed.
    #[test]
    fn a_resized_block_is_elsewhere_when_the_call_ends() {
        let resize = Call::Resize { old: 0x10, address: 0x20, size: 500, took_ns: 500 };
        let one = [alloc(100, 0x10, 100), event(1_000, resize), free(2_000, 0x20)];
        let two = [alloc(200, 0x20, 200), free(1_200, 0x20), alloc(1_300, 0x10, 8)];
        let program = Program::of(&trace(&[&one, &two]), 100);
        let ops = |thread: usize| program.threads[thread].iter().map(|step| (step.turn, step.op));
        let plain = |block, size| Op::Alloc { block, size, align_shift: 0, zeroed: false };
        assert_eq!(
            ops(0).collect::<Vec<_>>(),
            [
                (0, plain(0, 100)),
                (1, Op::Resize { block: 0, size: 500 }),
                (2, Op::Free { block: 0 }),
            ]
        );
        assert_eq!(
            ops(1).collect::<Vec<_>>(),
            [(0, plain(1, 200)), (1, Op::Free { block: 1 }), (0, plain(2, 8)),]
        );
        assert_eq!((program.live_bytes, program.left_out), (508, 0));
    }

    #[test]
    fn a_part_uses_nothing_from_before_it() {
        let events: Vec<_> = (0..50)
            .flat_map(|turn| [alloc(turn * 100, 0x10, 8), free(turn * 100 + 50, 0x10)])
            .collect();
        for calls in [2, 7, 40, 99] {
            let program = Program::of(&trace(&[&events]), calls);
            assert_eq!(program.calls() + program.left_out, calls);
            assert!(program.left_out <= 1);
            assert_eq!(program.live_bytes, 8);
        }
    }
}
