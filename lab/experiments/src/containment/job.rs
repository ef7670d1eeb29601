//! A recorded program as steps, and a job that goes through them.

use super::charged::{CPUS, Payer};
use super::machine::{Block, Machine};
use anyhow::Result;
use quarry_mm::frame::Pfn;
use quarry_mm::slab::SlabPolicy;
use quarry_sim::simulate::{Op, Program};
use quarry_sys::percpu::VirtualSlots;
use quarry_trace::Trace;
use std::path::Path;

/// Puts a block of `bytes` bytes, or nothing, into a place. A place holds one block at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    place: u32,
    bytes: Option<usize>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Recorded {
    pub(super) steps: Vec<Step>,
    /// The maximum number of blocks that the program has at a time.
    places: usize,
}

impl Recorded {
    /// Reads a trace.
    pub(super) fn read(trace: &Path) -> Result<Self> {
        Ok(Self::of(&Program::of(&Trace::read(trace)?, usize::MAX)))
    }

    /// The steps of all threads, merged; each block's steps stay in order. O(calls * threads).
    pub(super) fn of(program: &Program) -> Self {
        let mut all = Self::default();
        let mut threads: Vec<_> =
            program.threads.iter().map(|steps| (0, steps.as_slice())).collect();
        // For each block: the number of operations on it so far, and its place.
        let mut blocks = vec![(0, 0); program.blocks as usize];
        let mut free = Vec::new();
        loop {
            let runnable = threads.iter_mut().filter_map(|(now_ns, steps)| {
                let (next, _) = steps.split_first()?;
                let (turns, _) = blocks[next.op.block() as usize];
                (turns == next.turn).then_some((*now_ns + next.think_ns, now_ns, steps))
            });
            let Some((then_ns, now_ns, steps)) = runnable.min_by_key(|it| it.0) else { return all };
            let (next, rest) = steps.split_first().expect("it has a step");
            (*now_ns, *steps) = (then_ns, rest);
            let (turns, place) = &mut blocks[next.op.block() as usize];
            *turns += 1;
            let bytes = match next.op {
                Op::Alloc { size, .. } => {
                    *place = free.pop().unwrap_or_else(|| {
                        all.places += 1;
                        all.places as u32 - 1
                    });
                    Some(size)
                }
                Op::Resize { size, .. } => Some(size),
                Op::Free { .. } => {
                    free.push(*place);
                    None
                }
            };
            all.steps.push(Step { place: *place, bytes });
        }
    }
}

/// A job runs a recorded program again and again, in a group of its own.
pub(super) struct Job<'a, S> {
    machine: &'a Machine<S>,
    recorded: &'a Recorded,
    group: Payer,
    cpu: u32,
    next: usize,
    /// Steps taken in all runs of the program.
    pub(super) steps: u64,
    blocks: Vec<Option<Block>>,
    files: Vec<Pfn>,
}

impl<'a, S: SlabPolicy<VirtualSlots>> Job<'a, S> {
    /// Starts a job in a group of its own. The group first takes the pages of the job's files;
    /// `None` if it cannot have that many.
    pub(super) fn start(
        machine: &'a Machine<S>,
        recorded: &'a Recorded,
        files: usize,
        cpu: u32,
    ) -> Option<Self> {
        let group = machine.memory.group();
        machine.enter(cpu, group);
        let files = machine.pages(files)?;
        let blocks = (0..recorded.places).map(|_| None).collect();
        Some(Self { machine, recorded, group, cpu, next: 0, steps: 0, blocks, files })
    }

    pub(super) fn life(&self) -> usize {
        self.recorded.steps.len()
    }

    /// Takes `steps` steps; false if one of them was refused memory. After its last step the
    /// program runs again, on the next CPU.
    pub(super) fn advance(&mut self, steps: usize) -> bool {
        self.machine.enter(self.cpu, self.group);
        (0..steps).all(|_| {
            if self.next == self.life() {
                self.exit();
                self.cpu = (self.cpu + 1) % CPUS;
                self.machine.enter(self.cpu, self.group);
            }
            self.step()
        })
    }

    fn step(&mut self) -> bool {
        let Step { place, bytes } = self.recorded.steps[self.next];
        self.next += 1;
        self.steps += 1;
        let block = &mut self.blocks[place as usize];
        match (block.as_mut(), bytes) {
            (Some(old), Some(bytes)) => self.machine.resize(old, bytes),
            (None, Some(bytes)) => {
                *block = self.machine.alloc(bytes);
                block.is_some()
            }
            (_, None) => {
                self.machine.free(block.take().expect("it was allocated"));
                true
            }
        }
    }

    /// Ends a run of the program: frees all its blocks. The program can then run again.
    fn exit(&mut self) {
        self.blocks.iter_mut().filter_map(Option::take).for_each(|it| self.machine.free(it));
        self.next = 0;
    }

    /// Ends the job: frees also the pages of its files.
    pub(super) fn end(mut self) {
        self.machine.enter(self.cpu, self.group);
        self.exit();
        self.machine.free(Block::Pages(self.files));
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use quarry_sim::simulate::Step as Recording;

    fn alloc(block: u32, size: usize) -> Recording {
        let op = Op::Alloc { block, size, align_shift: 0, zeroed: false };
        Recording { awaits: None, think_ns: 10, turn: 0, op }
    }

    /// A program of one thread that allocates blocks of these sizes and never frees them.
    pub(in super::super) fn hoarder(sizes: impl Iterator<Item = usize>) -> Recorded {
        let steps: Vec<_> = sizes.enumerate().map(|(at, size)| alloc(at as u32, size)).collect();
        let blocks = steps.len() as u32;
        Recorded::of(&Program { threads: vec![steps], blocks, ..Program::default() })
    }

    #[test]
    fn threads_wait_for_their_blocks_and_places_are_used_again() {
        let free =
            |block, turn| Recording { awaits: None, think_ns: 0, turn, op: Op::Free { block } };
        let resize = Op::Resize { block: 0, size: 70 };
        let resize = Recording { awaits: None, think_ns: 5_000, turn: 1, op: resize };
        // The second thread frees what the first one resizes before.
        let one = vec![alloc(0, 7), resize, alloc(2, 9)];
        let two = vec![alloc(1, 8), free(0, 2), free(1, 1)];
        let threads = vec![one, two];
        let recorded = Recorded::of(&Program { threads, blocks: 3, ..Program::default() });
        let step = |place, bytes| Step { place, bytes };
        let (first, second) = (step(0, Some(7)), step(1, Some(8)));
        let rest = [step(0, Some(70)), step(0, None), step(1, None), step(1, Some(9))];
        assert_eq!(recorded.steps[..2], [first, second]);
        assert_eq!(recorded.steps[2..], rest);
        assert_eq!(recorded.places, 2);
    }
}
