//! Draining: blocks leave the tails of the lists for the zone. `DrainWalk` says which lists first.

use super::lists::Lists;
use super::policy::DrainWalk;
use super::ring::SlotRings;
use crate::frame::{FrameTable, Order};
use crate::zone::Block;

/// Takes blocks off the lists until `left` pages or a few more are gone; drops bad blocks.
pub(super) struct Drain<'a> {
    lists: &'a mut Lists,
    rings: SlotRings<'a>,
    frames: &'a FrameTable,
    orders: &'static [u8],
    walk: DrainWalk,
    left: u32,
    at: usize,
    /// Blocks that the list may still give in this turn; 0 = go on to the next list.
    turn: u32,
}

impl<'a> Drain<'a> {
    pub(super) fn new(
        lists: &'a mut Lists,
        rings: SlotRings<'a>,
        frames: &'a FrameTable,
        (orders, walk): (&'static [u8], DrainWalk),
        pages: u32,
        first: usize,
    ) -> Self {
        let left = pages.min(lists.tuning.count);
        let first = match walk {
            DrainWalk::GrowingBatches { first } => first,
            DrainWalk::WholeLists => first,
        };
        let at = (first + orders.len() - 1) % orders.len();
        Self { lists, rings, frames, orders, walk, left, at, turn: 0 }
    }

    fn next_list(&mut self) -> Option<()> {
        for passed in 1..=self.orders.len() as u32 {
            self.at = if self.at + 1 == self.orders.len() { 0 } else { self.at + 1 };
            let listed = self.lists.rings[self.at].len();
            if listed != 0 {
                // The list may give one block for itself, one for each empty list passed before it,
                // and those that the last list was to give but lacked. If these are as many as
                // there are lists, this list is taken for the only one with blocks, and gives all.
                let lists = self.orders.len() as u32;
                self.turn = match self.walk {
                    DrainWalk::WholeLists => u32::MAX,
                    DrainWalk::GrowingBatches { .. } if self.turn + passed == lists => self.left,
                    DrainWalk::GrowingBatches { .. } => self.turn + passed,
                };
                return Some(());
            }
        }
        None
    }
}

impl Iterator for Drain<'_> {
    type Item = Block;

    fn next(&mut self) -> Option<Block> {
        while self.left > 0 {
            if self.turn == 0 || self.lists.rings[self.at].is_empty() {
                self.next_list()?;
            }
            let order = Order::new(self.orders[self.at]);
            let pfn = self.rings.pop_tail(self.at, &mut self.lists.rings[self.at])?;
            self.turn -= 1;
            self.left = self.left.saturating_sub(order.frames());
            self.lists.tuning.count -= order.frames();
            let state = self.frames.state(pfn);
            if state.is_listed(order) {
                return Some(Block { pfn, order, zeroed: state.is_zeroed() });
            }
            self.lists.counters.bad_blocks += 1;
        }
        None
    }
}
