//! Two servers of short-lived threads, in which one thread frees what another allocates. The first
//! server starts a new thread for every 64 requests; in the second (after the benchmark of Larson
//! and Krishnan, 1998) threads leave their blocks to successors.

use super::heap::{Block, Heap, Places};
use super::others::Others;
use super::window::{self, Budget, Done, Window};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::thread;

const REQUESTS: usize = 64;
/// Bytes of a request's session, and the number of blocks that the answer needs meanwhile.
const SESSION: usize = 512;
const SCRATCH: usize = 8;
const BODIES: std::ops::Range<usize> = 64..8192;
const SHORT_LIFE: usize = 100;

struct Request {
    session: Block,
    body: Block,
}

fn serve(heap: Heap, request: Request, mark: u64, size: usize) -> Block {
    let scratch: [Block; SCRATCH] =
        std::array::from_fn(|number| heap.allocate(32 << (number % 4), number as u64));
    heap.free(request.body, mark);
    let answer = heap.allocate(size, mark);
    for (number, block) in scratch.into_iter().enumerate() {
        heap.free(block, number as u64);
    }
    heap.free(request.session, mark);
    answer
}

/// The acceptor allocates requests, a new thread serves them, and the acceptor frees the answers.
fn accept(heap: Heap, random: &mut StdRng) -> Done {
    let sizes: Vec<usize> = (0..REQUESTS).map(|_| random.random_range(BODIES)).collect();
    let allocate = |(mark, size): (usize, &usize)| Request {
        session: heap.allocate(SESSION, mark as u64),
        body: heap.allocate(*size, mark as u64),
    };
    let requests: Vec<Request> = sizes.iter().enumerate().map(allocate).collect();
    let answers: Vec<Block> = thread::scope(|scope| {
        let serve_all = || {
            let marked = requests.into_iter().zip(&sizes).enumerate();
            marked.map(|(mark, (request, size))| serve(heap, request, mark as u64, *size)).collect()
        };
        scope.spawn(serve_all).join().expect("every mark was found")
    });
    let mut verified = 0;
    for (mark, answer) in answers.into_iter().enumerate() {
        heap.free(answer, mark as u64);
        verified += 1;
    }
    Done { operations: REQUESTS as u64, verified }
}

/// Operation: one request.
pub(super) fn run(heap: Heap, budget: Budget, others: Others<'_>) -> Window {
    let make = |number| StdRng::seed_from_u64(1 + number);
    others.alike(budget, make, |random| accept(heap, random))
}

/// Starts threads one after the other; each allocates and frees little. Operation: one thread.
pub(super) fn run_short_lives(heap: Heap, budget: Budget) -> Window {
    let life = move || {
        let size = |number: usize| 16 << (number % 10);
        let allocate = |number| heap.allocate(size(number), number as u64);
        let blocks: [Block; SHORT_LIFE] = std::array::from_fn(allocate);
        let mut freed = 0;
        for (number, block) in blocks.into_iter().enumerate() {
            heap.free(block, number as u64);
            freed += 1;
        }
        freed
    };
    window::measure(budget, || {
        let freed: usize = thread::spawn(life).join().expect("every mark was found");
        Done { operations: 1, verified: u64::from(freed == SHORT_LIFE) }
    })
}

const BLOCKS: usize = 1000;
const SIZES: std::ops::Range<usize> = 8..1000;
const LIFE: usize = 10_000;

/// The blocks that a thread leaves to its successor.
struct Estate {
    places: Places,
    random: StdRng,
}

impl Estate {
    fn new(heap: Heap, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let sizes = (0..BLOCKS).map(|_| random.random_range(SIZES));
        Self { places: Places::new(heap, sizes), random }
    }

    fn replace(&mut self) -> Done {
        let mut verified = 0;
        for _ in 0..LIFE {
            let mark = self.random.random_range(0..BLOCKS);
            verified += self.places.replace(mark, self.random.random_range(SIZES));
        }
        Done { operations: LIFE as u64, verified }
    }
}

/// Runs every chunk in a new thread.
pub(super) fn run_larson(heap: Heap, budget: Budget, others: Others<'_>) -> Window {
    let generation = |estate: &mut Estate| {
        thread::scope(|scope| scope.spawn(|| estate.replace()).join())
            .expect("every mark was found")
    };
    others.alike(budget, |number| Estate::new(heap, 1 + number), generation)
}
