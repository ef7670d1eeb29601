//! The scan: takes pages from the tails of the LRU lists and evicts some of them
//! (`shrink_inactive_list` and `shrink_active_list`, Linux 6.12).
//!
//! | found at the tail of the inactive list | result |
//! |---|---|
//! | used since the last scan | to the active list: this is its second use, after the fill |
//! | used since the last scan, but read ahead | back to the front: this is its first use |
//! | dirty, or being written | to the active list, and counted: the caller may wake writeback |
//! | pinned, latched, of a protected group, or its mapping is locked | back to the front |
//! | clean and idle, of a mapping that wants more memory than others | back to the front |
//! | clean and idle | evicted: a shadow entry takes its place |
//!
//! While the inactive list is short (`list_balance.rs`), pages move to it from the active list. A
//! page that was used since the last scan stays active for another round, without its mark.
//! `demand.rs` finds the mappings that want more memory.

use super::cache::PageCacheRef;
use super::counters::Event;
use super::host::Host;
use super::index::Entry;
use super::mapping::LockedMapping;
use super::outcome::{ScanFor, ScanRequest, Scanned};
use super::release::Releases;
use crate::lru::{Few, ListKind, PageNo, Sizes, State, Waiting};
use quarry_mm::frame::NodeId;
use quarry_mm::stack::StackHost;
use quarry_mm::zone::GroupId;
use quarry_sys::clock::monotonic_ns;
use quarry_sys::primitive::Ordering::Relaxed;

/// Pages that a scan isolates at a time (`SWAP_CLUSTER_MAX`, Linux 6.12).
const CLUSTER: usize = 32;

/// A scan ends after this many looks in a row that isolate no page. Such a look finds only pages
/// that are in no index but that users still pin, and moves up to 32 of them to the front.
const MOST_EMPTY_LOOKS: u32 = 32;

/// A reclaim leaves at most this many used pages on the active list. It moves any others to the
/// inactive list, as the kernel does with all used pages, so that the reclaim ends.
const MOST_SPARED: usize = 256;

/// Pages that go back to a list: true for the active one.
type Isolated = Few<(PageNo, bool), CLUSTER>;

struct Progress {
    done: Scanned,
    /// How many more used pages may stay active.
    spare_used: usize,
    /// How many more unused pages may stay inactive because their mappings want more memory.
    spare_wanted: usize,
    spares_low: bool,
}

enum Fate {
    Evicted,
    Active,
    Inactive,
}

impl<'a, H: Host> PageCacheRef<'a, H> {
    /// Evicts clean unused pages from the tail of a node's inactive list, activates used pages, and
    /// keeps the lists balanced. Takes locks of mappings only by `try_lock`. O(pages looked at).
    pub fn reclaim(self, node: NodeId, request: &ScanRequest) -> Scanned {
        let mut empty_looks = 0;
        let mut so_far = Progress {
            done: Scanned::default(),
            spare_used: MOST_SPARED,
            // A scan spares no more pages than it has to free, so that it ends.
            spare_wanted: request.most,
            spares_low: request.spares_low,
        };
        let balance = self.tables.balances.at(usize::from(node.0));
        while so_far.done.freed < request.most as u64
            && so_far.done.scanned < request.most_scanned as u64
        {
            let moved = match balance.is_inactive_low(self.tables.lru.sizes(node)) {
                true => self.shrink_active(node, request.who, &mut so_far),
                false => 0,
            };
            let left = request.most_scanned - so_far.done.scanned as usize;
            let wanted = CLUSTER.min(left).min(request.most - so_far.done.freed as usize);
            let looked_at = moved + self.shrink_inactive(node, request.who, wanted, &mut so_far);
            empty_looks = if looked_at == 0 { empty_looks + 1 } else { 0 };
            if looked_at == 0 && self.tables.lru.sizes(node) == Sizes::default()
                || empty_looks == MOST_EMPTY_LOOKS
                || request.is_over(&so_far.done)
            {
                break;
            }
        }
        self.note_scan(request.who, so_far.done);
        so_far.done
    }

    pub(super) fn note_scan(self, who: ScanFor, done: Scanned) {
        let (counters, slot) = (&self.tables.counters, self.slot());
        let (scanned, stolen) = match who {
            ScanFor::Direct => (Event::ScannedDirect, Event::StolenDirect),
            ScanFor::Background => (Event::ScannedBackground, Event::StolenBackground),
        };
        counters.add(slot, scanned, done.scanned);
        counters.add(slot, stolen, done.freed);
    }

    /// Reclaims for a request that has found no memory: at most `most` clean pages, from node
    /// `near` first, in 200 us. Until it frees a page, it looks at
    /// [`LEAST_SCANNED`](ScanRequest::LEAST_SCANNED) pages of each node even if time is up. Waits
    /// for no lock of a mapping. A task does not nest two calls.
    pub fn direct_reclaim(self, near: NodeId, most: usize) -> Scanned {
        let all = self.direct_scan(near, most, true);
        if all.freed > 0 || all.spared == 0 { all } else { self.direct_scan(near, most, false) }
    }

    fn direct_scan(self, near: NodeId, most: usize, spares_low: bool) -> Scanned {
        let until_ns = ScanRequest::direct_end_ns();
        let mut all = Scanned::default();
        for node in self.host.stack().pages().zones().fallback_order(near) {
            let Sizes { active, inactive } = self.tables.lru.sizes(node);
            let request = ScanRequest {
                who: ScanFor::Direct,
                most: most - all.freed as usize,
                // Twice the pages, because the first look at a used page only activates it.
                most_scanned: 2 * (inactive + active) as usize,
                until_ns,
                spares_low,
            };
            let done = self.reclaim(node, &request);
            all.scanned += done.scanned;
            all.freed += done.freed;
            all.busy += done.busy;
            all.spared += done.spared;
            self.take_shadow_nodes(node, CLUSTER);
            if all.freed as usize >= most || all.freed > 0 && monotonic_ns() >= until_ns {
                break;
            }
        }
        all
    }

    fn isolate(self, node: NodeId, who: ScanFor, from: ListKind, out: &mut [PageNo]) -> usize {
        let waiting = match who {
            ScanFor::Direct => Waiting::ForOthers,
            ScanFor::Background => Waiting::Waits,
        };
        self.tables.lru.isolate(&self.tables.pages, (node, from), waiting, out)
    }

    /// Puts isolated pages back; releases those that are in no index and have no other pins.
    fn put_back(self, isolated: &Isolated, releases: &mut Releases<'a, H>) {
        let (tables, slot) = (self.tables, self.slot());
        tables.lru.put_back(&tables.pages, slot, isolated, &mut |page| releases.push(page));
    }

    /// Deactivates pages, except the first `spare_used` used pages; returns how many it looked at.
    fn shrink_active(self, node: NodeId, who: ScanFor, so_far: &mut Progress) -> usize {
        let mut found = [PageNo(0); CLUSTER];
        let count = self.isolate(node, who, ListKind::Active, &mut found);
        let mut isolated = Isolated::NONE;
        let mut rotated = 0;
        for page in &found[..count] {
            let state = &self.tables.pages.at(*page).state;
            let was_used = state.load().has(State::REFERENCED);
            if was_used {
                state.clear(State::REFERENCED);
            }
            let stays = was_used && so_far.spare_used > 0;
            if stays {
                so_far.spare_used -= 1;
                rotated += 1;
            } else {
                state.set(State::WORKINGSET);
            }
            isolated.push((*page, stays));
        }
        let slot = self.slot();
        self.tables.counters.add(slot, Event::Rotated, rotated);
        self.tables.counters.add(slot, Event::Deactivated, count as u64 - rotated);
        self.put_back(&isolated, &mut self.releases());
        count
    }

    fn shrink_inactive(
        self,
        node: NodeId,
        who: ScanFor,
        most: usize,
        so_far: &mut Progress,
    ) -> usize {
        let mut found = [PageNo(0); CLUSTER];
        let count = self.isolate(node, who, ListKind::Inactive, &mut found[..most]);
        let (mut isolated, mut evicted) = (Isolated::NONE, Few::<PageNo, CLUSTER>::NONE);
        let mut activated = 0;
        let mut locked = None;
        for page in &found[..count] {
            match self.fate(node, *page, &mut locked, so_far) {
                Fate::Evicted => evicted.push(*page),
                Fate::Active => {
                    activated += 1;
                    isolated.push((*page, true));
                }
                Fate::Inactive => isolated.push((*page, false)),
            }
        }
        drop(locked);
        so_far.done.scanned += count as u64;
        so_far.done.freed += evicted.len() as u64;
        self.tables.demands.evicted(evicted.len() as u64);
        let (counters, slot) = (&self.tables.counters, self.slot());
        let frames = evicted.iter().map(|page| self.frames(*page)).sum();
        counters.add(slot, Event::Removed, frames);
        counters.add(slot, Event::Activated, activated);
        counters.add(slot, Event::Rotated, isolated.len() as u64 - activated);
        self.tables.clocks.at(usize::from(node.0)).activated(activated);
        let mut releases = self.releases();
        evicted.iter().for_each(|page| releases.push(*page));
        self.put_back(&isolated, &mut releases);
        count
    }

    /// Decides on a page that the scan has pinned. `locked` is the mapping of the previous page.
    fn fate(
        self,
        node: NodeId,
        page: PageNo,
        locked: &mut Option<(u32, LockedMapping<'a>)>,
        so_far: &mut Progress,
    ) -> Fate {
        let descriptor = self.tables.pages.at(page);
        let now = descriptor.state.load();
        if now.has(State::REFERENCED) {
            descriptor.state.clear(State::REFERENCED | State::FRESH);
            return if now.has(State::FRESH) { Fate::Inactive } else { Fate::Active };
        }
        if now.has(State::DIRTY) || now.has(State::WRITEBACK) {
            so_far.done.dirty += 1;
            self.tables.counters.add(self.slot(), Event::FoundDirty, 1);
            return Fate::Active;
        }
        if now.pins() > 1 || !now.has(State::LIVE | State::UPTODATE) {
            return Fate::Inactive;
        }
        let group = GroupId(descriptor.group.load(Relaxed));
        if self.groups().is_protected(group, so_far.spares_low) {
            so_far.done.spared += u64::from(so_far.spares_low);
            return Fate::Inactive;
        }
        if so_far.spare_wanted > 0 && self.is_wanted(descriptor.mapping.load(Relaxed), node) {
            so_far.spare_wanted -= 1;
            return Fate::Inactive;
        }
        match self.evict(page, locked, &mut so_far.done) {
            true => Fate::Evicted,
            false => Fate::Inactive,
        }
    }

    fn is_wanted(self, mapping: u32, node: NodeId) -> bool {
        let Sizes { active, inactive } = self.tables.lru.sizes(node);
        let mapping = self.tables.mappings.numbered(mapping);
        mapping.is_some_and(|it| self.tables.demands.is_wanted(&it.demand, active + inactive))
    }

    /// Evicts a page that only the scan pins, if this still holds under its mapping's lock.
    fn evict(
        self,
        page: PageNo,
        locked: &mut Option<(u32, LockedMapping<'a>)>,
        done: &mut Scanned,
    ) -> bool {
        let tables = self.tables;
        let descriptor = tables.pages.at(page);
        let number = descriptor.mapping.load(Relaxed);
        if locked.as_ref().is_none_or(|(held, _)| *held != number) {
            // A scan holds one mapping's lock at a time.
            *locked = None;
            let Some(mapping) = tables.mappings.numbered(number) else { return false };
            let Some(tree) = mapping.index.try_lock(&tables.nodes) else {
                tables.counters.add(self.slot(), Event::MappingBusy, 1);
                done.busy += 1;
                return false;
            };
            *locked = Some((number, LockedMapping { mapping, tree }));
        }
        let Some((_, held)) = locked else { return false };
        // Live pages keep their mapping, and keep their index as long as its lock is held.
        if descriptor.mapping.load(Relaxed) != number || !descriptor.state.try_evict() {
            return false;
        }
        let shadow = Entry::Shadow(self.shadow_of(page));
        held.tree.replace(descriptor.index.load(Relaxed), shadow);
        held.publish();
        true
    }

    pub(super) fn shadow_of(self, page: PageNo) -> u64 {
        let (tables, descriptor) = (self.tables, self.tables.pages.at(page));
        let node = NodeId(descriptor.node.load(Relaxed));
        let is_workingset = descriptor.state.load().has(State::WORKINGSET);
        tables.clocks.at(usize::from(node.0)).evicted(
            tables.buckets,
            node,
            descriptor.group.load(Relaxed),
            is_workingset,
        )
    }

    /// Frees the oldest nodes of shadow entries of a NUMA node, if it has more of them than its
    /// cached pages justify. Returns the number of freed nodes.
    pub fn shrink_shadows(self, node: NodeId, most: usize) -> usize {
        let freed = self.take_shadow_nodes(node, most);
        self.tables.nodes.grace.release(self.host, super::index::GRACE_BATCH);
        freed
    }

    /// Takes nodes of shadow entries out of their indexes; an index that needs nodes reuses them.
    fn take_shadow_nodes(self, node: NodeId, most: usize) -> usize {
        let tables = self.tables;
        let Sizes { active, inactive } = tables.lru.sizes(node);
        let excess = tables.nodes.count_shadow_nodes(node, active + inactive);
        let most = most.min(excess as usize);
        let find = |number: u32| tables.mappings.numbered(number).map(|mapping| &mapping.index);
        tables.nodes.scan_shadow_nodes(node, most, &find).freed
    }
}
