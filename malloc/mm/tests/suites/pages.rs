//! Blocks of pages that callers request: their contents, their place among the blocks of the heap,
//! and the memory for requests that cannot wait.

use crate::support::{Backing, Bed, Direct, VirtualConfig, check, on_cpu, small};
use proptest::prelude::*;
use quarry_mm::frame::{FRAME_BYTES, NodeId, Order};
use quarry_mm::heap::options::StackOptions;
use quarry_mm::stack::{PageFlags, StackHost};
use quarry_sys::percpu::Object;
use std::collections::BTreeMap;

const PLAIN: PageFlags = PageFlags { atomic: false, zeroed: false };
const ATOMIC: PageFlags = PageFlags { atomic: true, ..PLAIN };

type PagesBed = Bed<VirtualConfig<Direct>>;

fn bed(options: &StackOptions) -> PagesBed {
    on_cpu(0);
    PagesBed::new(Backing::Fake, 4096, 2, options)
}

fn alloc_one(bed: &PagesBed, order: Order, flags: PageFlags) -> Option<Object> {
    let mut out = [None];
    assert_eq!(bed.stack.alloc_pages(order, flags, &mut out), usize::from(out[0].is_some()));
    out[0]
}

#[derive(Clone, Debug)]
enum Op {
    Alloc {
        order: u8,
        zeroed: bool,
        atomic: bool,
    },
    AllocBulk {
        order: u8,
        zeroed: bool,
        count: usize,
    },
    Free {
        number: usize,
    },
    FreeBulk {
        number: usize,
    },
    /// Frees a block by `free`, which accepts blocks of pages as well.
    FreeAsBlock {
        number: usize,
    },
    Trim,
}

fn step() -> impl Strategy<Value = (u32, Op)> {
    let order = prop_oneof![4 => 0u8..4, 1 => 4u8..10];
    let number = any::<u16>().prop_map(usize::from);
    let op = prop_oneof![
        6 => (order.clone(), any::<bool>(), any::<bool>())
            .prop_map(|(order, zeroed, atomic)| Op::Alloc { order, zeroed, atomic }),
        3 => (0u8..4, any::<bool>(), 0usize..150)
            .prop_map(|(order, zeroed, count)| Op::AllocBulk { order, zeroed, count }),
        6 => number.clone().prop_map(|number| Op::Free { number }),
        3 => number.clone().prop_map(|number| Op::FreeBulk { number }),
        2 => number.prop_map(|number| Op::FreeAsBlock { number }),
        1 => Just(Op::Trim),
    ];
    (0u32..2, op)
}

/// Blocks in use, each with its order and the byte that it is filled with.
struct Play {
    bed: PagesBed,
    live: BTreeMap<usize, (u8, u8)>,
    next: u8,
}

impl Play {
    fn adopt(&mut self, object: Object, order: u8, zeroed: bool) {
        let (start, bytes) = (object.as_ptr() as usize, Order::new(order).bytes());
        assert!(start.is_multiple_of(bytes));
        let below = self.live.range(..start + bytes).next_back();
        assert!(below.is_none_or(|(at, (order, _))| at + Order::new(*order).bytes() <= start));
        // SAFETY: the block has `bytes` bytes, and only the test uses them. Bytes that were not
        // requested as zero are written before they are read.
        unsafe {
            if zeroed {
                assert!((0..bytes).step_by(8).all(|at| object.add(at).cast::<u64>().read() == 0));
            }
            self.next = self.next.wrapping_add(1);
            object.write_bytes(self.next, bytes);
        }
        self.live.insert(start, (order, self.next));
    }

    fn give_up(&mut self, number: usize) -> Option<(Object, Order)> {
        let number = number.checked_rem(self.live.len())?;
        let start = *self.live.keys().nth(number)?;
        let (order, filled) = self.live.remove(&start)?;
        let object = Object::new(start as *mut u8).expect("not null");
        let order = Order::new(order);
        // SAFETY: the block was filled, and only the test uses it.
        let holds = |at| unsafe { object.add(at).read() == filled };
        assert!((0..order.bytes()).step_by(61).all(holds), "{object:p} has changed");
        Some((object, order))
    }

    fn run(&mut self, op: &Op) {
        let bytes: usize = self.live.values().map(|(order, _)| Order::new(*order).bytes()).sum();
        let has_room = bytes < 24 << 20;
        match *op {
            Op::Alloc { order, zeroed, atomic } if has_room => {
                let flags = PageFlags { atomic, zeroed };
                let block = alloc_one(&self.bed, Order::new(order), flags);
                assert!(block.is_some() || atomic, "there is memory");
                block.into_iter().for_each(|block| self.adopt(block, order, zeroed));
            }
            Op::AllocBulk { order, zeroed, count } if has_room => {
                let mut out = vec![None; count];
                let flags = PageFlags { atomic: false, zeroed };
                let order_of = Order::new(order);
                assert_eq!(self.bed.stack.alloc_pages(order_of, flags, &mut out), count);
                out.into_iter().flatten().for_each(|block| self.adopt(block, order, zeroed));
            }
            Op::Free { number } => {
                if let Some((object, order)) = self.give_up(number) {
                    // SAFETY: the block was live, and the test has forgotten it.
                    unsafe { self.bed.stack.free_pages(&[object], order) };
                }
            }
            Op::FreeBulk { number } => {
                let Some((first, order)) = self.give_up(number) else { return };
                let mut blocks = vec![first];
                while let Some(next) =
                    self.live.iter().position(|(_, (of, _))| Order::new(*of) == order)
                {
                    blocks.push(self.give_up(next).expect("it is live").0);
                }
                // SAFETY: as above.
                unsafe { self.bed.stack.free_pages(&blocks, order) };
            }
            Op::FreeAsBlock { number } => {
                if let Some((object, _)) = self.give_up(number) {
                    // SAFETY: as above.
                    unsafe { self.bed.stack.free(object) };
                }
            }
            Op::Trim => drop(self.bed.stack.trim()),
            Op::Alloc { .. } | Op::AllocBulk { .. } => {}
        }
    }
}

#[test]
fn blocks_agree_with_the_oracle() {
    let steps = prop::collection::vec(step(), 1..100);
    check(32, (steps,), |(steps,)| {
        let mut play = Play { bed: bed(&small()), live: BTreeMap::new(), next: 0 };
        for (number, (cpu, op)) in steps.iter().enumerate() {
            on_cpu(*cpu);
            play.run(op);
            if number % 8 == 0 {
                assert_eq!(play.bed.stack.validate(), Ok(()));
            }
        }
        while !play.live.is_empty() {
            play.run(&Op::Free { number: 0 });
        }
        let blocks = play.bed.stack.stats().blocks;
        assert_eq!(blocks.allocated, blocks.freed);
        play.bed.assert_empty(&[]);
    });
}

#[test]
fn who_cannot_wait_makes_no_system_call() {
    let bed = bed(&small());
    let calls = bed.os.calls();
    assert_eq!(alloc_one(&bed, Order::ZERO, ATOMIC), None, "the heap has not grown yet");
    assert_eq!(bed.os.calls(), calls);
    let first = alloc_one(&bed, Order::ZERO, PLAIN).expect("there is memory");
    let calls = bed.os.calls();
    let mut taken = vec![first];
    while let Some(page) = alloc_one(&bed, Order::ZERO, ATOMIC) {
        taken.push(page);
    }
    assert_eq!(bed.os.calls(), calls, "system calls");
    assert!(taken.len() > 256, "{} pages of what there was", taken.len());
    let more = alloc_one(&bed, Order::ZERO, PLAIN).expect("the heap grows for others");
    assert!(bed.os.calls() > calls);
    taken.push(more);
    // SAFETY: the blocks are live, differ, and are freed once.
    unsafe { bed.stack.free_pages(&taken, Order::ZERO) };
    bed.assert_empty(&[]);
}

/// The reserve of `zone/highatomic.rs`: if a high-order request that cannot wait goes below the low
/// mark, its pageblock is reserved for later requests of this kind.
#[test]
fn high_orders_that_cannot_wait_have_a_reserve() {
    let mut options = small();
    options.pages.reserve_bytes = 512 << 20;
    options.pages.initial_frames = (256 << 20) / FRAME_BYTES as u32;
    options.pages.grow = false;
    let bed = bed(&options);
    let (order, mut taken) = (Order::new(5), Vec::new());
    let pages = bed.stack.pages();
    let reserved = || pages.zones().zone(NodeId(0)).reserved_high_atomic();
    while reserved() == 0 {
        let block = alloc_one(&bed, order, ATOMIC).expect("the reserve of the min mark");
        taken.push(block);
    }
    assert_eq!(reserved(), 512);
    let last = taken.pop().expect("there are some");
    // SAFETY: the block is live, and freed once.
    unsafe { bed.stack.free_pages(&[last], order) };
    pages.drain_all();
    let again = alloc_one(&bed, order, ATOMIC).expect("the reserve");
    taken.push(again);
    assert_eq!(bed.stack.validate(), Ok(()));
    // SAFETY: the blocks are live, differ, and are freed once.
    unsafe { bed.stack.free_pages(&taken, order) };
    assert_eq!(bed.stack.validate(), Ok(()));
}
