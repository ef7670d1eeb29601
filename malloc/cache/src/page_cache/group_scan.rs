//! Reclaim from one group and its parts: a clock goes over the pages of their mappings in the order
//! of their indexes, and touches no page of another group.
//!
//! The kernel has a pair of LRU lists for each group. Here the lists of a node hold the pages of
//! all groups, so a scan for one group would move pages of others. The clock is Corbato's (1968):
//! the hand evicts unused pages, and clears the marks of used pages. After `MOST_USED` used pages a
//! round evicts used pages as well, so that the round ends and frees something.

use super::cache::PageCacheRef;
use super::counters::Event;
use super::host::Host;
use super::index::{BATCH, Entry};
use super::mapping::{LockedMapping, Mapping};
use super::outcome::{ScanFor, ScanRequest, Scanned};
use super::release::Releases;
use crate::lru::{PageNo, State};
use quarry_mm::zone::GroupId;

/// Number of used pages after which a round evicts used pages as well.
const MOST_USED: u64 = 256;

enum Found {
    Evicted,
    Used,
    Dirty,
    Busy,
}

struct Round {
    group: GroupId,
    done: Scanned,
    frames: u64,
    /// Used pages that the round has met.
    used: u64,
}

impl<'a, H: Host> PageCacheRef<'a, H> {
    /// Evicts clean pages of a group by a clock; skips locked mappings. O(pages + mappings).
    pub fn reclaim_group(self, group: GroupId, request: &ScanRequest) -> Scanned {
        let groups = self.groups();
        groups.at(group).note_reclaim();
        // An add batch pins its pages, so none of them could be evicted.
        self.drain_slot(&mut self.releases());
        let mut round = Round { group, done: Scanned::default(), frames: 0, used: 0 };
        self.go_round(request, &mut round);
        if round.done.freed == 0 {
            // All pages of a small group may be in the add batches of other CPUs.
            self.drain_batches();
            let most_scanned = request.most_scanned.saturating_mul(2);
            self.go_round(&ScanRequest { most_scanned, ..*request }, &mut round);
        }
        self.note_scan(request.who, round.done);
        self.tables.counters.add(self.slot(), Event::Removed, round.frames);
        round.done
    }

    fn go_round(self, request: &ScanRequest, round: &mut Round) {
        let group = self.groups().at(round.group);
        let (mut number, mut index) = group.hand();
        let end = self.tables.mappings.numbers();
        // The first mapping has a second turn, because the hand may start in the middle of it.
        for _ in 0..=end {
            let mapping = self.tables.mappings.numbered(number);
            let mapping = mapping.filter(|mapping| self.is_of(mapping, round.group));
            while let Some(mapping) = mapping
                && round.wants_more(request)
                && let Some(next) = self.look_at(mapping, index, request.most, round)
            {
                index = next;
            }
            if !round.wants_more(request) {
                break;
            }
            (number, index) = (if number + 1 < end { number + 1 } else { 1 }, 0);
        }
        group.set_hand(number, index);
    }

    fn is_of(self, mapping: &Mapping, group: GroupId) -> bool {
        self.groups().is_part(GroupId(mapping.group()), group)
    }

    /// Reclaims for a request that has met the limit of its group: at most 32 pages and 200 us.
    pub fn direct_reclaim_group(self, group: GroupId) -> Scanned {
        let request = ScanRequest {
            who: ScanFor::Direct,
            most: ScanRequest::DIRECT_MOST,
            most_scanned: 2 * self.groups().at(group).used() as usize,
            until_ns: ScanRequest::direct_end_ns(),
            spares_low: false,
        };
        self.reclaim_group(group, &request)
    }

    /// Looks at up to 14 entries from `from` on, until the round has freed `most` pages. Returns
    /// the next index; `None` at the end, or if the mapping is locked or is another group's now.
    fn look_at(self, mapping: &Mapping, from: u64, most: usize, round: &mut Round) -> Option<u64> {
        let tables = self.tables;
        let Some(mut tree) = mapping.index.try_lock(&tables.nodes) else {
            tables.counters.add(self.slot(), Event::MappingBusy, 1);
            return None;
        };
        // The mapping's number may belong to another mapping by now.
        if !self.is_of(mapping, round.group) {
            return None;
        }
        let mut releases = self.releases();
        let mut found = [(0, Entry::Empty); BATCH];
        let count = tree.entries(from..=u64::MAX, &mut found);
        let mut next = None;
        for (index, entry) in &found[..count] {
            if round.done.freed as usize >= most {
                break;
            }
            next = Some(index + 1);
            let Entry::Page(page) = entry else { continue };
            round.done.scanned += 1;
            match self.judge(*page, round, &mut releases) {
                Found::Evicted => {
                    tree.replace(*index, Entry::Shadow(self.shadow_of(*page)));
                    round.done.freed += 1;
                    round.frames += self.frames(*page);
                    releases.push(*page);
                }
                Found::Used => round.used += 1,
                Found::Dirty => round.done.dirty += 1,
                Found::Busy => {}
            }
        }
        LockedMapping { mapping, tree }.publish();
        next
    }

    /// Evicts a page of an index if it is clean, unpinned and unused, and leaves a shadow entry.
    /// After [`MOST_USED`] used pages, the round also evicts used pages. Clears the mark of a used
    /// page. The caller holds the index's lock.
    fn judge(self, page: PageNo, round: &Round, releases: &mut Releases<'a, H>) -> Found {
        let state = &self.tables.pages.at(page).state;
        let now = state.load();
        if now.has(State::DIRTY) || now.has(State::WRITEBACK) {
            return Found::Dirty;
        }
        if now.pins() > 0 {
            return Found::Busy;
        }
        if now.has(State::REFERENCED) {
            state.clear(State::REFERENCED);
            if round.used < MOST_USED {
                return Found::Used;
            }
        }
        if !state.try_pin_unused() {
            return Found::Busy;
        }
        if state.try_evict() {
            return Found::Evicted;
        }
        if state.unpin() {
            releases.push(page);
        }
        Found::Busy
    }
}

impl Round {
    fn wants_more(&self, request: &ScanRequest) -> bool {
        let Scanned { scanned, freed, .. } = self.done;
        (freed as usize) < request.most
            && (scanned as usize) < request.most_scanned
            && !request.is_over(&self.done)
    }
}
