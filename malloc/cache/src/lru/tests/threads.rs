//! Threads add, truncate and scan at full speed, and share two slots and two nodes. The tests of
//! other eras' policies include this file too, so it uses only items of its parent module.

use super::*;
use std::sync::Mutex;

const THREADS: u32 = 4;
const PAGES: u32 = 200;
const ROUNDS: usize = if cfg!(miri) { 2 } else { 60 };

struct World<P: LruPolicy> {
    set: LruSet<P>,
    table: DescriptorTable,
    /// Descriptors of freed pages, by the thread that uses them.
    freed: [Mutex<Vec<PageNo>>; THREADS as usize],
}

impl<P: LruPolicy> World<P> {
    fn free(&self, page: PageNo) {
        free(&self.table, page);
        let owner = (page.0 / PAGES) as usize;
        self.freed[owner].lock().expect("no panic").push(page);
    }

    fn scan(&self, slot: SlotIndex, round: usize) {
        let mut out = [PageNo(0); 48];
        let from = (NodeId((round / 2 % 2) as u8), ListKind::ALL[round % 2]);
        let waiting = if round.is_multiple_of(3) { Waiting::Waits } else { Waiting::ForOthers };
        let taken = self.set.isolate(&self.table, from, waiting, &mut out);
        let back: Vec<_> =
            out[..taken].iter().map(|page| (*page, page.0 % 3 == round as u32 % 3)).collect();
        self.set.put_back(&self.table, slot, &back, &mut |page| self.free(page));
    }

    /// Adds the free pages of a thread, and truncates half of all its pages.
    fn round(&self, thread: usize, round: usize) {
        let slot = SlotIndex(thread as u32 % 2);
        let free = std::mem::take(&mut *self.freed[thread].lock().expect("no panic"));
        for page in free {
            begin(&self.table, page);
            let active = page.0.is_multiple_of(5);
            self.set.add(&self.table, slot, page, active, &mut |page| self.free(page));
            assert!(!self.table.at(page).state.unpin(), "it lives");
        }
        self.scan(slot, round + thread);
        let first = PAGES * thread as u32;
        let mut own = Vec::new();
        for page in (first..first + PAGES).map(PageNo) {
            let state = &self.table.at(page).state;
            if !(page.0 as usize / 7 + round).is_multiple_of(2)
                || state.try_pin(State::LIVE).is_none()
            {
                continue;
            }
            state.clear(State::LIVE);
            if state.unpin() {
                own.push(page);
            }
        }
        self.set.remove(&self.table, &own);
        own.into_iter().for_each(|page| self.free(page));
        if round.is_multiple_of(4) {
            self.set.drain_all(&self.table, &mut |page| self.free(page));
        }
    }
}

pub(super) fn all_pages_are_somewhere<P: LruPolicy>(policy: P) {
    let options = LruOptions { policy, ..LruOptions::default() };
    let set = LruSet::build(fake_os(), options, 2, 2).expect("the OS serves");
    let freed = std::array::from_fn(|thread| {
        let first = PAGES * thread as u32;
        Mutex::new((first..first + PAGES).map(PageNo).collect())
    });
    let world = World { set, table: table(THREADS * PAGES, 2), freed };
    std::thread::scope(|scope| {
        for thread in 0..THREADS as usize {
            let world = &world;
            scope.spawn(move || (0..ROUNDS).for_each(|round| world.round(thread, round)));
        }
    });
    world.set.drain_all(&world.table, &mut |page| world.free(page));
    assert_eq!(world.set.validate(&world.table), Ok(()));
    let sizes = [NodeId(0), NodeId(1)].map(|node| world.set.sizes(node));
    let listed: u64 = sizes.iter().map(|sizes| sizes.inactive + sizes.active).sum();
    let freed: usize = world.freed.iter().map(|freed| freed.lock().expect("no panic").len()).sum();
    assert_eq!(listed + freed as u64, (THREADS * PAGES).into());
    let counters = world.set.counters();
    assert_eq!(counters.added - counters.removed, listed);
}
