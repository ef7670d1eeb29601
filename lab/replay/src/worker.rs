//! A process that walks a path: it allocates, copies, checks and frees.

use crate::flight::Flight;
use crate::host;
use crate::memory::{Buffer, KernelMemory};
use crate::path::{Act, From, Plan, Step};

/// The byte that fills payloads; each message's tag overwrites the beginning.
const FILLER: u8 = 0x51;

/// One process, with buffers of its own.
pub(crate) struct Worker<'a, M: KernelMemory> {
    memory: &'a M,
    plan: &'a Plan<M::Cache>,
    /// The buffer from which the program sends, or into which it receives.
    payload: Vec<u8>,
    /// Pieces that will be freed together.
    list: Vec<Buffer>,
    /// Messages received so far whose payload began with their tag.
    pub(crate) verified: u64,
}

impl<'a, M: KernelMemory> Worker<'a, M> {
    pub(crate) fn new(memory: &'a M, plan: &'a Plan<M::Cache>) -> Self {
        Self { memory, plan, payload: vec![FILLER; plan.payload], list: Vec::new(), verified: 0 }
    }

    pub(crate) fn flight(&self) -> Flight {
        Flight::new(self.plan.pieces.len())
    }

    /// Takes the first leg of one more message.
    pub(crate) fn send(&mut self, flight: &mut Flight, tag: u64) {
        let message = flight.messages();
        for step in &self.plan.legs[0] {
            if message.is_multiple_of(step.batch) {
                match step.act {
                    Act::Add => self.add_to_lru(step.piece, flight),
                    Act::Drop => self.drop_page(step.piece, flight),
                    Act::AllocRange => self.alloc_range(step.piece, step.batch, flight),
                    _ => self.alloc(step.piece, flight),
                }
            }
        }
        if let Some(carrier) = self.plan.carrier {
            let bytes = tag.to_le_bytes();
            let length = self.payload.len().min(bytes.len());
            self.payload[..length].copy_from_slice(&bytes[..length]);
            let offset = self.offset(carrier, message);
            let buffer = flight.held[carrier].back_mut().expect("its carrier was just allocated");
            buffer.write(offset, &self.payload);
        }
        host::work(self.plan.work.sender);
        flight.tags.push_back(tag);
    }

    /// Takes the second leg of all messages; `see` is called with each tag.
    pub(crate) fn receive(&mut self, flight: &mut Flight, mut see: impl FnMut(u64)) {
        let count = flight.messages();
        let carriers = self.carriers(flight);
        for message in 0..count {
            let tag = flight.tags.pop_front().expect("there are as many tags as messages");
            let freed = carriers - self.carriers(flight);
            self.verified += u64::from(self.is_intact(flight, message, freed, tag));
            host::work(self.plan.work.receiver);
            host::sleep(self.plan.work.wire);
            self.later_leg(1, message, count, flight);
            see(tag);
        }
        flight.answered += count;
    }

    /// Takes the third leg of all messages that were received.
    pub(crate) fn settle(&mut self, flight: &mut Flight) {
        let count = std::mem::take(&mut flight.answered);
        for message in 0..count {
            self.later_leg(2, message, count, flight);
        }
    }

    /// Frees the recycled pieces that a queue keeps.
    pub(crate) fn dispose(&self, flight: &mut Flight) {
        let recycled = self.plan.pieces.iter().position(|piece| piece.recycled);
        if let (Some(piece), Some(buffer)) = (recycled, flight.kept.take()) {
            self.give(piece, buffer);
        }
    }

    /// Number of carriers that the messages hold.
    fn carriers(&self, flight: &Flight) -> usize {
        self.plan.carrier.map_or(0, |carrier| flight.held[carrier].len())
    }

    /// Copies the payload out and checks its beginning. `freed` is the number of carriers of
    /// earlier messages that were freed already.
    fn is_intact(&mut self, flight: &Flight, message: u32, freed: usize, tag: u64) -> bool {
        let Some(carrier) = self.plan.carrier else { return true };
        let offset = self.offset(carrier, message);
        let number = (message / self.plan.pieces[carrier].batch) as usize - freed;
        let Some(buffer) = flight.held[carrier].get(number) else { return false };
        buffer.read(offset, &mut self.payload);
        let bytes = tag.to_le_bytes();
        let length = self.payload.len().min(bytes.len());
        self.payload[..length] == bytes[..length]
    }

    /// Offset of a message's payload within its carrier.
    fn offset(&self, carrier: usize, message: u32) -> usize {
        (message % self.plan.pieces[carrier].batch) as usize * self.plan.payload
    }

    /// Takes the steps of a later leg that are due after message `message` of `count`.
    #[inline]
    fn later_leg(&mut self, leg: usize, message: u32, count: u32, flight: &mut Flight) {
        for &Step { act, piece, batch } in &self.plan.legs[leg] {
            let is_last = message + 1 == count || (message + 1).is_multiple_of(batch);
            if !is_last {
                continue;
            }
            let messages = message % batch + 1;
            let pieces = messages.div_ceil(self.plan.pieces[piece].batch);
            match act {
                Act::Alloc => self.alloc(piece, flight),
                Act::AllocRange => self.alloc_range(piece, messages, flight),
                Act::Add => self.add_to_lru(piece, flight),
                Act::Drop => self.drop_page(piece, flight),
                Act::Free => (0..pieces).for_each(|_| self.free(piece, flight)),
                Act::FreeList | Act::FreeRange | Act::FreeBulk | Act::Release => {
                    self.free_together(act, piece, pieces as usize, flight);
                }
            }
        }
    }

    #[inline]
    fn alloc(&mut self, piece: usize, flight: &mut Flight) {
        let planned = &self.plan.pieces[piece];
        let kept = if planned.recycled { flight.kept.take() } else { None };
        let fresh = kept.or_else(|| match planned.source {
            From::Cache(cache) => self.memory.alloc(cache),
            From::Pages(pages) => self.memory.alloc_pages(pages),
        });
        let mut buffer = fresh.expect("memory for every message of the replay");
        host::clear(planned.cleared, || buffer.clear(planned.cleared));
        flight.held[piece].push_back(buffer);
    }

    fn alloc_range(&self, piece: usize, count: u32, flight: &mut Flight) {
        let From::Pages(pages) = self.plan.pieces[piece].source else { panic!("a range of pages") };
        let held = &mut flight.held[piece];
        let is_whole = self.memory.alloc_range(count, pages, &mut |page| held.push_back(page));
        assert!(is_whole, "memory for every range of the replay");
    }

    #[inline]
    fn free(&mut self, piece: usize, flight: &mut Flight) {
        let buffer = flight.held[piece].pop_front().expect("messages hold what they free");
        if self.plan.pieces[piece].recycled && flight.kept.is_none() {
            flight.kept = Some(buffer);
        } else {
            self.give(piece, buffer);
        }
    }

    #[inline]
    fn give(&self, piece: usize, buffer: Buffer) {
        // The kernel reads a structure before it frees it, but it does not read a cleared page.
        let cleared = self.plan.pieces[piece].cleared;
        if cleared < host::CLEARED_PAGE {
            buffer.inspect(cleared);
        }
        match self.plan.pieces[piece].source {
            From::Cache(cache) => self.memory.free(cache, buffer),
            From::Pages(pages) => self.memory.free_pages(pages, buffer),
        }
    }

    #[inline]
    fn add_to_lru(&self, piece: usize, flight: &Flight) {
        let page = flight.held[piece].back().expect("what is added was just allocated");
        self.memory.add_to_lru(page);
    }

    fn drop_page(&self, piece: usize, flight: &mut Flight) {
        let page = flight.held[piece].pop_back().expect("what is dropped was just allocated");
        let From::Pages(pages) = self.plan.pieces[piece].source else { panic!("a page") };
        self.memory.drop_page(pages, page);
    }

    fn free_together(&mut self, act: Act, piece: usize, pieces: usize, flight: &mut Flight) {
        self.list.extend(flight.held[piece].drain(..pieces));
        match self.plan.pieces[piece].source {
            From::Cache(cache) => self.memory.free_bulk(cache, &mut self.list),
            From::Pages(pages) if act == Act::Release => {
                self.memory.release(pages, &mut self.list);
            }
            From::Pages(pages) if act == Act::FreeRange => {
                self.memory.free_range(pages, &mut self.list);
            }
            From::Pages(pages) => self.memory.free_list(pages, &mut self.list),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::Uncached;
    use crate::path::tests::path;

    #[test]
    fn batches_end_with_the_burst() {
        let memory = Uncached::default();
        let path = path(
            &[
                "sender alloc page per 40",
                "sender alloc table",
                "receiver free page per 40",
                "receiver free-list table per 16",
            ],
            Some("page"),
            100,
        );
        let plan = path.plan(&memory);
        let mut worker = Worker::new(&memory, &plan);
        let mut flight = worker.flight();
        (0..90).for_each(|tag| worker.send(&mut flight, tag));
        assert_eq!(memory.counters().zone_allocs, 3 + 90);
        let mut seen = Vec::new();
        worker.receive(&mut flight, |tag| seen.push(tag));
        assert_eq!(seen, (0..90).collect::<Vec<u64>>());
        assert_eq!(worker.verified, 90);
        assert_eq!(memory.counters().page_sections, 6, "90 tables in lists of 16");
        assert!(flight.is_empty());
        assert_eq!(memory.check_at_end(), Ok(()));
    }

    #[test]
    fn payloads_that_were_overwritten_are_found() {
        let memory = Uncached::default();
        let path = path(&["sender alloc page", "receiver free page"], Some("page"), 100);
        let plan = path.plan(&memory);
        let mut worker = Worker::new(&memory, &plan);
        let mut flight = worker.flight();
        (1..=3).for_each(|tag| worker.send(&mut flight, tag));
        flight.held[0][1].write(0, b"something else");
        worker.receive(&mut flight, |_| ());
        assert_eq!(worker.verified, 2);
    }

    #[test]
    fn answers_are_freed_by_who_asked() {
        let memory = Uncached::default();
        let path = path(
            &[
                "sender alloc page",
                "receiver free page",
                "receiver alloc table per 2",
                "sender free table per 2",
            ],
            None,
            100,
        );
        let plan = path.plan(&memory);
        let mut worker = Worker::new(&memory, &plan);
        let mut flight = worker.flight();
        (0..5).for_each(|tag| worker.send(&mut flight, tag));
        worker.receive(&mut flight, |_| ());
        assert_eq!(flight.held[1].len(), 3);
        worker.settle(&mut flight);
        assert_eq!(memory.check_at_end(), Ok(()));
        assert_eq!(memory.counters().zone_allocs, 5 + 3);
    }

    #[test]
    fn a_recycled_piece_is_kept_for_the_next() {
        let memory = Uncached::default();
        let path = path(&["sender alloc kept", "receiver free kept"], Some("kept"), 100);
        let plan = path.plan(&memory);
        let mut worker = Worker::new(&memory, &plan);
        let mut flight = worker.flight();
        for _ in 0..10 {
            (0..3).for_each(|tag| worker.send(&mut flight, tag));
            worker.receive(&mut flight, |_| ());
        }
        assert_eq!(memory.counters().zone_allocs, 3 + 9 * 2);
        assert!(!flight.is_empty());
        worker.dispose(&mut flight);
        assert_eq!(memory.check_at_end(), Ok(()));
    }
}
