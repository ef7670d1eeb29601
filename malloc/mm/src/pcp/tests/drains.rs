//! The lists from which a drain takes blocks, for the lists and drain orders of many policies.

use super::*;
use crate::frame::Memory;
use crate::pcp::drain::Drain;
use crate::pcp::lists::Lists;
use crate::pcp::ring::{MAX_LISTS, Ring, Rings};

/// The lists of document 000.
const ORDERS_2016: &[u8] = &[0, 0, 0, 1, 2, 3];
/// The lists of Linux 5.14.
const ORDERS_5_14: &[u8] = &[0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 9, 9, 9];
const BATCHES_FROM_0: DrainWalk = DrainWalk::GrowingBatches { first: 0 };
const BATCHES_FROM_1: DrainWalk = DrainWalk::GrowingBatches { first: 1 };

/// Drains `pages` pages from lists with `blocks[i]` blocks each. Returns the list of each block.
fn drained(
    orders: &'static [u8],
    walk: DrainWalk,
    blocks: &[u32],
    pages: u32,
    first: usize,
) -> Vec<u8> {
    let os = fake_os();
    let memory = Memory::reserve(os, 64 << 20).unwrap();
    memory.take_for_zone(32).unwrap();
    let frames = memory.frames();
    let rings = Rings::reserve(os, 1, orders, &RingSizes::default()).unwrap();
    let mut lists = Lists {
        tuning: Tuning::default(),
        rings: [Ring::default(); MAX_LISTS],
        counters: PcpCounters::default(),
    };
    for (list, blocks) in blocks.iter().enumerate() {
        let order = Order::new(orders[list]);
        for block in 0..*blocks {
            let pfn = Pfn((list as u32) << 10 | block << order.get());
            frames.set_state(pfn, FrameState::in_pcp(order, false));
            rings.at(0).push_tail(list, &mut lists.rings[list], pfn);
            lists.tuning.count += order.frames();
        }
    }
    let before = lists.tuning.count;
    let drain = Drain::new(&mut lists, rings.at(0), frames, (orders, walk), pages, first);
    let drained: Vec<_> = drain.collect();
    let taken: u32 = drained.iter().map(|block| block.order.frames()).sum();
    assert_eq!(lists.tuning.count, before - taken, "the count follows what was taken");
    drained.iter().map(|block| (block.pfn.0 >> 10) as u8).collect()
}

#[test]
fn the_2016_drain_starves_order_3() {
    // Document 000: with batch 7, the lists before order 3 give 1 + 1 + 1 + 2 + 4 = 9 pages.
    let lists = drained(ORDERS_2016, BATCHES_FROM_0, &[9; 6], 7, 3);
    assert_eq!(lists, [0, 1, 2, 3, 4]);
}

#[test]
fn the_2016_drain_takes_more_from_lists_behind_empty_ones() {
    let lists = drained(ORDERS_2016, BATCHES_FROM_0, &[9, 0, 0, 9, 0, 0], 12, 0);
    // 1 from list 0, 3 from list 3 (two empty lists were passed), 3 from list 0 likewise.
    assert_eq!(lists, [0, 3, 3, 3, 0, 0, 0, 3]);
    let alone = drained(ORDERS_2016, BATCHES_FROM_0, &[0, 9, 0, 0, 0, 0], 5, 0);
    assert_eq!(alone, [1; 5], "a list that is alone gives all");
}

#[test]
fn the_current_drain_takes_whole_lists_beginning_with_the_one_freed_to() {
    let mut blocks = [0; 14];
    (blocks[0], blocks[4], blocks[11]) = (5, 3, 2);
    let lists = drained(V6_18.orders(), V6_18.walk(), &blocks, 11, 4);
    // Three blocks of order 1, then one of order 3, which overshoots by 3 pages.
    assert_eq!(lists, [4, 4, 4, 11]);
    let all = drained(V6_18.orders(), V6_18.walk(), &blocks, u32::MAX, 4);
    assert_eq!(all, [4, 4, 4, 11, 11, 0, 0, 0, 0, 0]);
}

#[test]
fn drains_in_batches_begin_with_their_list_whichever_was_freed_to() {
    assert_eq!(drained(&[0, 0, 0], BATCHES_FROM_1, &[9; 3], 4, 0), [1, 2, 0, 1]);
    assert_eq!(drained(ORDERS_2016, BATCHES_FROM_0, &[9; 6], 4, 4), [0, 1, 2, 3]);
    assert_eq!(drained(ORDERS_5_14, BATCHES_FROM_1, &[9; 15], 5, 0), [1, 2, 3, 4]);
    // List 3 gives three blocks (three lists were passed), then list 0 twelve.
    let mut blocks = [0; 15];
    (blocks[0], blocks[3]) = (40, 9);
    let round = [[3; 3].as_slice(), &[0; 12], &[3; 3], &[0; 12], &[3; 3]].concat();
    assert_eq!(drained(ORDERS_5_14, BATCHES_FROM_1, &blocks, 42, 0), round);
    let whole = DrainWalk::WholeLists;
    assert_eq!(drained(ORDERS_5_14, whole, &[9; 15], 5, 4), [4, 4, 4], "the list freed to");
}
