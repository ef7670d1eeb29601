//! Allocates and frees few blocks, again and again: the latency of the shortest paths.
//!
//! The latency depends on how soon a call reads data that an earlier call has written: soonest with
//! one block of one size, later if other sizes come in between or several blocks exist at once.

use super::heap::{Block, Heap, Places};
use super::window::{self, Budget, Done, Window};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Form {
    /// One block.
    #[default]
    One,
    /// A block, and during its life a block of the next size.
    Nested,
    /// One block, of two sizes in turn.
    TwoInTurn,
    /// One block, of four sizes in turn.
    FourInTurn,
    /// Two blocks of one size, first in, first out.
    Two,
    /// Eight blocks of one size, first in, first out.
    Eight,
    /// A random one of 1,000 blocks of one size is replaced.
    Random,
}

/// Pairs per chunk. A chunk takes about 10 us on a fast allocator.
const CHUNK: u64 = 4096;
/// Largest size of a form of several sizes.
const LARGEST: usize = 32 << 10;
const REPLACED: usize = 1000;

pub(super) fn run(heap: Heap, budget: Budget, size: usize, form: Form) -> Window {
    let other = next_size(size);
    match form {
        Form::One => in_turn(heap, budget, [size]),
        Form::TwoInTurn => in_turn(heap, budget, [size, other]),
        Form::FourInTurn => {
            let third = next_size(other);
            in_turn(heap, budget, [size, other, third, next_size(third)])
        }
        Form::Nested => nested(heap, budget, size, other),
        Form::Two => at_once::<2>(heap, budget, size),
        Form::Eight => at_once::<8>(heap, budget, size),
        Form::Random => random(heap, budget, size),
    }
}

/// Twice the size, or half of it if twice the size exceeds `LARGEST`.
fn next_size(size: usize) -> usize {
    if 2 * size <= LARGEST { 2 * size } else { size / 2 }
}

fn in_turn<const SIZES: usize>(heap: Heap, budget: Budget, sizes: [usize; SIZES]) -> Window {
    measure(budget, SIZES, |mark| {
        for size in sizes {
            let block = heap.allocate(size, mark);
            heap.free(block, mark);
        }
    })
}

fn nested(heap: Heap, budget: Budget, outer: usize, inner: usize) -> Window {
    measure(budget, 2, |mark| {
        let around = heap.allocate(outer, mark);
        let inside = heap.allocate(inner, mark);
        heap.free(inside, mark);
        heap.free(around, mark);
    })
}

fn at_once<const BLOCKS: usize>(heap: Heap, budget: Budget, size: usize) -> Window {
    measure(budget, BLOCKS, |mark| {
        let blocks: [Block; BLOCKS] = std::array::from_fn(|_| heap.allocate(size, mark));
        for block in blocks {
            heap.free(block, mark);
        }
    })
}

fn random(heap: Heap, budget: Budget, size: usize) -> Window {
    let mut random = StdRng::seed_from_u64(REPLACED as u64);
    let order: Vec<usize> = (0..CHUNK).map(|_| random.random_range(0..REPLACED)).collect();
    let mut places = Places::new(heap, (0..REPLACED).map(|_| size));
    window::measure(budget, || {
        let verified = order.iter().map(|place| places.replace(*place, size)).sum();
        Done { operations: CHUNK, verified }
    })
}

/// Calls `pairs`, which makes `count` pairs with a mark, until the window is over.
fn measure(budget: Budget, count: usize, mut pairs: impl FnMut(u64)) -> Window {
    window::measure(budget, || {
        let mut verified = 0;
        for mark in 0..CHUNK / count as u64 {
            pairs(mark);
            verified += count as u64;
        }
        Done { operations: verified, verified }
    })
}
