//! Patterns of `quarry lab run malloc-patterns` as programs that can be played, each shorter than
//! there: as long as a simulated machine of 128 CPUs needs to show what its copies share.

use super::{Op, Program, Step};
use crate::random;
use std::ops::Range;

/// A pattern: its name, and the function that makes its program, the same each time. O(calls).
pub type Pattern = (&'static str, fn() -> Program);

/// All patterns, in the order of tables. All but `random` have two threads.
pub const PATTERNS: [Pattern; 5] = [
    ("phases", phases),
    ("mixed", mixed),
    ("handover", handover),
    ("larson", larson),
    ("random", replacements),
];

/// A program under construction. Blocks pass between threads in the order of the calls here.
struct Script {
    program: Program,
    /// For each block its size, and the number of operations on it so far.
    blocks: Vec<(usize, u32)>,
    /// For each thread, what its next step awaits.
    awaits: Vec<Option<(u32, u32)>>,
    /// Time of the program between two calls: its loop, and the mark that it writes and checks.
    think_ns: u64,
    live: u64,
    random: u64,
}

impl Script {
    fn new(threads: usize, think_ns: u64) -> Self {
        let program = Program { threads: vec![Vec::new(); threads], ..Program::default() };
        let awaits = vec![None; threads];
        Self { program, blocks: Vec::new(), awaits, think_ns, live: 0, random: 1 }
    }

    fn alloc(&mut self, thread: usize, size: usize) -> u32 {
        let block = self.blocks.len() as u32;
        self.blocks.push((size, 0));
        self.live += size as u64;
        self.program.live_bytes = self.program.live_bytes.max(self.live);
        self.push(thread, block, Op::Alloc { block, size, align_shift: 0, zeroed: false });
        block
    }

    fn free(&mut self, thread: usize, block: u32) {
        self.live -= self.blocks[block as usize].0 as u64;
        self.push(thread, block, Op::Free { block });
    }

    fn push(&mut self, thread: usize, block: u32, op: Op) {
        let (awaits, turns) = (self.awaits[thread].take(), &mut self.blocks[block as usize].1);
        let step = Step { awaits, think_ns: self.think_ns, turn: *turns, op };
        *turns += 1;
        self.program.threads[thread].push(step);
    }

    /// Lets the thread's next step wait for all operations on the block so far.
    fn awaits(&mut self, thread: usize, block: u32) {
        self.awaits[thread] = Some((block, self.blocks[block as usize].1));
    }

    /// Lets the next step of each of two threads wait for all steps of the other so far.
    fn meet(&mut self) {
        for (thread, other) in [(0, 1), (1, 0)] {
            let last = self.program.threads[other].last().expect("both have begun");
            self.awaits(thread, last.op.block());
        }
    }

    fn below(&mut self, range: Range<usize>) -> usize {
        range.start + (random::next(&mut self.random) % range.len() as u64) as usize
    }

    /// Puts a new block into a place, and frees the block that was there.
    fn replace(&mut self, thread: usize, place: &mut Option<u32>, size: usize) {
        let block = self.alloc(thread, size);
        if let Some(old) = place.replace(block) {
            self.free(thread, old);
        }
    }

    fn finished(self) -> Program {
        Program { blocks: self.blocks.len() as u32, ..self.program }
    }

    /// The first thread allocates bursts of 64 heads with payloads; the second frees each burst. At
    /// most 16 bursts are on their way.
    fn hand_over(&mut self, bursts: usize, payload: usize) {
        let mut freed = Vec::new();
        for burst in 0..bursts {
            if let Some(before) = burst.checked_sub(16) {
                self.awaits(0, freed[before]);
            }
            let heads = (0..64).map(|_| (self.alloc(0, HEAD), self.alloc(0, payload)));
            let heads: Vec<_> = heads.collect();
            let (last, data) = heads[63];
            self.awaits(1, data);
            for (head, data) in heads {
                self.free(1, data);
                self.free(1, head);
            }
            freed.push(last);
        }
    }
}

const HEAD: usize = 256;

/// Both threads work on small sets; then one allocates what the other frees; then both allocate and
/// free 16,384 blocks at once. A quarter of a cycle of the original.
fn phases() -> Program {
    let mut script = Script::new(2, 6);
    for thread in 0..2 {
        let mut set = [None; 64];
        (0..8192).for_each(|step| script.replace(thread, &mut set[step * 37 % 64], HEAD));
    }
    script.meet();
    script.hand_over(128, HEAD);
    script.meet();
    for thread in 0..2 {
        for _ in 0..2 {
            let blocks: Vec<_> = (0..16_384).map(|_| script.alloc(thread, HEAD)).collect();
            blocks.into_iter().for_each(|block| script.free(thread, block));
        }
    }
    script.finished()
}

/// One thread allocates heads with payloads, the other frees them.
fn handover() -> Program {
    let mut script = Script::new(2, 8);
    script.hand_over(800, 512);
    script.finished()
}

/// Of 1,000 sizes 900 are below 256 bytes, 90 below 32 KiB, 9 below 512 KiB, and 1 below 4 MiB.
fn mixed_size(script: &mut Script) -> usize {
    let range = match script.below(0..1000) {
        0 => 512 << 10..4 << 20,
        1..10 => 32 << 10..512 << 10,
        10..100 => 256..32 << 10,
        _ => 16..256,
    };
    script.below(range)
}

/// Blocks of all sizes, one in eight of which another thread frees. Shared places are taken in
/// turn: a random one may hold a block so young that the thread would wait for its allocation.
fn mixed() -> Program {
    let mut script = Script::new(2, 12);
    let (mut own, mut shared, mut turn) = ([[None; 1024]; 2], [None; 256], 0);
    for step in 0..1024 + 40_000 {
        for (thread, own) in own.iter_mut().enumerate() {
            let size = mixed_size(&mut script);
            let place = if step < own.len() {
                &mut own[step]
            } else if script.below(0..8) == 0 {
                turn += 1;
                &mut shared[turn % 256]
            } else {
                &mut own[script.below(0..1024)]
            };
            script.replace(thread, place, size);
        }
    }
    script.finished()
}

/// Random replacement in sets of 1,000 blocks, which the threads exchange after each 10,000.
fn larson() -> Program {
    let mut script = Script::new(2, 8);
    let mut sets = [[None; 1000]; 2];
    for step in 0..1000 + 60_000 {
        if step % 10_000 == 9_999 {
            sets.reverse();
            script.meet();
        }
        for (thread, set) in sets.iter_mut().enumerate() {
            let place = if step < set.len() { step } else { script.below(0..1000) };
            let size = script.below(8..1000);
            script.replace(thread, &mut set[place], size);
        }
    }
    script.finished()
}

/// Random replacement in a set of 10,000 blocks of up to 1 KiB.
fn replacements() -> Program {
    const BLOCKS: usize = 10_000;
    let mut script = Script::new(1, 8);
    let mut set = vec![None; BLOCKS];
    for step in 0..3 * BLOCKS {
        let place = if step < BLOCKS { step } else { script.below(0..BLOCKS) };
        // Logarithmically uniform: as many blocks below 128 bytes as above.
        let doublings = script.below(0..6_000) as f64 / 1_000.0;
        script.replace(0, &mut set[place], (16.0 * doublings.exp2()) as usize);
    }
    script.finished()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Plays the threads in turn, one step each, as far as blocks let them. Returns the number of
    /// calls.
    fn played(program: &Program) -> usize {
        let mut turns = vec![0; program.blocks as usize];
        let mut threads: Vec<VecDeque<Step>> =
            program.threads.iter().map(|steps| steps.iter().copied().collect()).collect();
        let (mut calls, mut before) = (0, None);
        while before.replace(calls) != Some(calls) {
            for steps in &mut threads {
                let may = |step: &Step| {
                    turns[step.op.block() as usize] == step.turn
                        && step.awaits.is_none_or(|(block, least)| turns[block as usize] >= least)
                };
                if let Some(step) = steps.front().copied().filter(may) {
                    steps.pop_front();
                    turns[step.op.block() as usize] += 1;
                    calls += 1;
                }
            }
        }
        assert!(turns.iter().all(|turns| (1..=2).contains(turns)), "allocated, and freed at most");
        calls
    }

    #[test]
    fn every_pattern_plays_to_its_end() {
        for (name, pattern) in PATTERNS {
            let program = pattern();
            assert_eq!(played(&program), program.calls(), "{name}: threads wait for each other");
            assert!(program.calls() > 40_000 && program.live_bytes > 40_000, "{name}");
            assert_eq!(program, pattern(), "{name} is the same each time");
        }
    }

    #[test]
    fn the_receiver_waits_for_bursts_and_the_sender_for_room() {
        let program = handover();
        let [sender, receiver] = &program.threads[..] else { panic!("two threads") };
        let waits = |steps: &[Step]| steps.iter().filter(|it| it.awaits.is_some()).count();
        assert_eq!((waits(sender), waits(receiver)), (800 - 16, 800));
        assert_eq!(sender[16 * 128].awaits, Some((126, 2)), "the last head of the first burst");
        assert_eq!(receiver[0].awaits, Some((127, 1)), "its last payload");
    }
}
