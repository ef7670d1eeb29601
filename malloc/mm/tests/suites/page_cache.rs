//! The page cache against a naive map: fetch, pin, dirty, writeback, rekey, truncate, invalidate,
//! reclaim, and holding as SQLite does. Each page holds the number of its last fill, and every step
//! ends with a check of all equations.

use crate::support::{Backing, Bed, TestOs, VirtualConfig, check, declare, on_cpu, small};
use proptest::collection::vec;
use proptest::prelude::*;
use quarry_cache::lru::PageNo;
use quarry_cache::page_cache::{
    Effort, Event, Invalidate, MappingId, MappingOptions, PageCacheRef, ReadError, RekeyError,
    ScanFor, ScanRequest, Slot, TruncationPolicy,
};
use quarry_cache::{PageCaching, PageCachingOptions};
use quarry_mm::frame::{FRAME_BYTES, NodeId, Order};
use quarry_mm::slab::Sheaf;
use quarry_mm::stack::{Stack, StackHost};
use quarry_mm::zone::{GroupId, GroupLimits, Name};
use std::collections::BTreeMap;

type CacheBed = Bed<VirtualConfig<Sheaf>>;
type Cache<'a> = PageCacheRef<'a, Stack<VirtualConfig<Sheaf>>>;

const MAPPINGS: usize = 3;
const INDEXES: u64 = 200;
const SLOTS: u32 = 3;
/// Maximum number of frames of the last mapping, whose pages have two frames.
const GROUP_FRAMES: u32 = 100;

#[derive(Clone, Debug)]
enum Step {
    /// Reads a page, and keeps the pin or unpins the page.
    Read {
        mapping: usize,
        index: u64,
        keep: bool,
        fails: bool,
    },
    Get {
        mapping: usize,
        index: u64,
    },
    Unpin {
        which: usize,
    },
    Dirty {
        which: usize,
    },
    Write {
        which: usize,
        fails: bool,
    },
    Hold {
        index: u64,
        create: u8,
    },
    Unhold {
        which: usize,
        discard: bool,
    },
    Rekey {
        which: usize,
        index: u64,
    },
    Truncate {
        mapping: usize,
        from: u64,
    },
    Discard {
        mapping: usize,
        index: u64,
    },
    Invalidate {
        mapping: usize,
        from: u64,
        len: u64,
        all: bool,
    },
    Reclaim {
        most: usize,
    },
    Direct,
    Trim,
    Recreate {
        mapping: usize,
    },
}

/// Indexes that lie close together, and some far away.
fn index() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..INDEXES, 1 => (0u64..4).prop_map(|at| at << 20 | 63)]
}

fn step() -> impl Strategy<Value = Step> {
    let mapping = 0..MAPPINGS;
    let which = any::<usize>();
    prop_oneof![
        30 => (mapping.clone(), index(), any::<bool>(), prop::bool::weighted(0.05))
            .prop_map(|(mapping, index, keep, fails)| Step::Read { mapping, index, keep, fails }),
        5 => (mapping.clone(), index()).prop_map(|(mapping, index)| Step::Get { mapping, index }),
        12 => which.prop_map(|which| Step::Unpin { which }),
        6 => which.prop_map(|which| Step::Dirty { which }),
        4 => (which, prop::bool::weighted(0.2))
            .prop_map(|(which, fails)| Step::Write { which, fails }),
        12 => (index(), 0u8..3).prop_map(|(index, create)| Step::Hold { index, create }),
        6 => (which, prop::bool::weighted(0.3))
            .prop_map(|(which, discard)| Step::Unhold { which, discard }),
        4 => (which, index()).prop_map(|(which, index)| Step::Rekey { which, index }),
        2 => (mapping.clone(), index())
            .prop_map(|(mapping, from)| Step::Truncate { mapping, from }),
        2 => (mapping.clone(), index())
            .prop_map(|(mapping, index)| Step::Discard { mapping, index }),
        2 => (mapping.clone(), index(), 1u64..100, any::<bool>())
            .prop_map(|(mapping, from, len, all)| Step::Invalidate { mapping, from, len, all }),
        4 => (1usize..80).prop_map(|most| Step::Reclaim { most }),
        2 => Just(Step::Direct),
        1 => Just(Step::Trim),
        1 => mapping.prop_map(|mapping| Step::Recreate { mapping }),
    ]
}

/// The oracle's record of a page of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    tag: u64,
    is_dirty: bool,
    is_held: bool,
    pins: usize,
}

/// A key: the number of a mapping in the list, and an index in that mapping.
type Place = (usize, u64);

/// The bed, its mappings, and the pages that they must hold. The owner of mapping 0 holds pages.
struct Model<'a> {
    bed: &'a CacheBed,
    cache: Cache<'a>,
    ids: [MappingId; MAPPINGS],
    /// The group of the last mapping, limited to [`GROUP_FRAMES`].
    group: GroupId,
    known: BTreeMap<(usize, u64), Known>,
    /// Pins: the page, the number that it must contain, and its key while it is in its mapping.
    pins: Vec<(PageNo, u64, Option<Place>)>,
    tags: u64,
}

fn options(mapping: usize, group: GroupId) -> MappingOptions {
    MappingOptions {
        order: Order::new([0, 0, 1][mapping]),
        group: if mapping == 2 { group.0 } else { 0 },
        owner: mapping as u64 + 100,
        ..MappingOptions::default()
    }
}

impl<'a> Model<'a> {
    fn new(bed: &'a CacheBed) -> Self {
        let cache = PageCaching::open(&*bed.stack).expect("memory for the tables");
        let limits = GroupLimits { max: GROUP_FRAMES, ..GroupLimits::default() };
        let group = bed
            .stack
            .groups
            .create(GroupId::ROOT, Name::of("job"), limits, bed.stack.metadata())
            .expect("the first");
        let create = |mapping| cache.create_mapping(&options(mapping, group)).expect("memory");
        let ids = std::array::from_fn(create);
        Self { bed, cache, ids, group, known: BTreeMap::new(), pins: Vec::new(), tags: 0 }
    }

    fn words(&self, page: PageNo) -> (*mut u64, usize) {
        (self.cache.address(page).as_ptr().cast(), self.cache.bytes(page) / 8)
    }

    fn fill(&mut self, page: PageNo) -> u64 {
        self.tags += 1;
        let (start, words) = self.words(page);
        // SAFETY: the page is pinned and has `words` words.
        (0..words).for_each(|at| unsafe { start.add(at).write(self.tags) });
        self.tags
    }

    fn assert_contents(&self, page: PageNo, tag: u64) {
        let (start, words) = self.words(page);
        for at in [0, 1, words / 2, words - 1] {
            // SAFETY: the page is pinned and has `words` words.
            assert_eq!(unsafe { start.add(at).read() }, tag, "page {page:?} has lost its bytes");
        }
        assert_eq!(self.cache.page_at(start.cast()), Some(page));
    }

    /// Checks that a page that was found was put in, and has its contents and its key.
    fn check_found(&mut self, key: (usize, u64), page: PageNo) -> u64 {
        let known = self.known.get(&key).expect("only what was put in is found");
        self.assert_contents(page, known.tag);
        assert_eq!(self.cache.key(page), (self.ids[key.0].number, key.1));
        known.tag
    }

    fn added(&mut self, key: (usize, u64), tag: u64, is_held: bool) {
        self.forget(key);
        self.known.insert(key, Known { tag, is_dirty: false, is_held, pins: 0 });
    }

    /// Notes that no page has this key any more. Pins of callers stay; the pin of the holder ends.
    fn forget(&mut self, key: (usize, u64)) {
        if let Some(known) = self.known.remove(&key) {
            let pins = self.pins.iter().filter(|pin| pin.2 == Some(key)).count();
            assert_eq!(known.pins, pins);
        }
        self.pins.iter_mut().filter(|pin| pin.2 == Some(key)).for_each(|pin| pin.2 = None);
    }

    fn must_be_there(&self, key: (usize, u64)) -> bool {
        self.known.get(&key).is_some_and(|known| known.is_dirty || known.is_held || known.pins > 0)
    }

    fn keep(&mut self, key: (usize, u64), page: PageNo) {
        let known = self.known.get_mut(&key).unwrap();
        known.pins += 1;
        self.pins.push((page, known.tag, Some(key)));
    }

    fn read(&mut self, key: (usize, u64), keep: bool, fails: bool) {
        match self.cache.get_or_alloc(self.ids[key.0], key.1, Effort::Every) {
            Ok(Slot::Found(page)) => {
                self.check_found(key, page);
                self.keep_or_unpin(key, page, keep);
            }
            Ok(Slot::New(page)) if fails => {
                assert!(!self.must_be_there(key), "a page in use was lost");
                self.forget(key);
                self.cache.fill_failed(page, 5);
                assert_eq!(self.cache.get(self.ids[key.0], key.1), None);
            }
            Ok(Slot::New(page)) => {
                assert!(!self.must_be_there(key), "a page in use was lost");
                assert_eq!(self.cache.get(self.ids[key.0], key.1), None, "it is being filled");
                let tag = self.fill(page);
                self.cache.fill_done(page);
                self.added(key, tag, false);
                self.keep_or_unpin(key, page, keep);
            }
            Err(error) => {
                assert_eq!(error, ReadError::Full);
                assert!(!self.must_be_there(key), "a page in use was lost");
            }
        }
    }

    fn keep_or_unpin(&mut self, key: (usize, u64), page: PageNo, keep: bool) {
        if keep {
            self.keep(key, page);
        } else {
            self.cache.unpin(page);
        }
    }

    fn get(&mut self, key: (usize, u64)) {
        match self.cache.get(self.ids[key.0], key.1) {
            Some(page) => {
                self.check_found(key, page);
                self.cache.unpin(page);
            }
            None => assert!(!self.must_be_there(key), "a page in use was lost"),
        }
    }

    fn hold(&mut self, index: u64, create: u8) {
        let key = (0, index);
        let effort = [None, Some(Effort::Easy), Some(Effort::Every)][usize::from(create)];
        match self.cache.hold(self.ids[0], index, effort) {
            Ok(Some(Slot::Found(page))) => {
                self.check_found(key, page);
                self.known.get_mut(&key).unwrap().is_held = true;
            }
            Ok(Some(Slot::New(page))) => {
                assert!(!self.must_be_there(key), "a page in use was lost");
                assert_eq!(self.cache.private(page), 0);
                let tag = self.fill(page);
                self.added(key, tag, true);
            }
            Ok(None) => assert!(effort.is_none() && !self.must_be_there(key)),
            Err(_) => assert!(!self.must_be_there(key)),
        }
    }

    fn held(&self, which: usize) -> Option<(usize, u64)> {
        let held: Vec<_> = self.known.iter().filter(|(_, known)| known.is_held).collect();
        (!held.is_empty()).then(|| *held[which % held.len()].0)
    }

    fn unhold(&mut self, which: usize, discard: bool) {
        let Some(key) = self.held(which) else { return };
        let page = self.cache.get(self.ids[0], key.1).expect("held pages stay");
        self.cache.unpin(page);
        self.cache.unhold(page, discard);
        self.known.get_mut(&key).unwrap().is_held = false;
        if discard {
            self.forget(key);
        }
    }

    fn rekey(&mut self, which: usize, index: u64) {
        let Some(old) = self.held(which) else { return };
        let new = (0, index);
        let page = self.cache.get(self.ids[0], old.1).expect("held pages stay");
        let result = self.cache.rekey(page, index);
        self.cache.unpin(page);
        if result == Err(RekeyError::Full) || old == new {
            return;
        }
        assert_eq!(result, Ok(()));
        self.forget(new);
        let known = self.known.remove(&old).unwrap();
        self.pins.iter_mut().filter(|pin| pin.2 == Some(old)).for_each(|pin| pin.2 = Some(new));
        self.known.insert(new, known);
        assert_eq!(self.cache.key(page), (self.ids[0].number, index));
    }

    fn pin(&self, which: usize) -> Option<usize> {
        (!self.pins.is_empty()).then(|| which % self.pins.len())
    }

    fn unpin(&mut self, which: usize) {
        let Some(at) = self.pin(which) else { return };
        let (page, tag, key) = self.pins.swap_remove(at);
        self.assert_contents(page, tag);
        if let Some(key) = key {
            self.known.get_mut(&key).unwrap().pins -= 1;
        }
        self.cache.unpin(page);
    }

    fn dirty(&mut self, which: usize) {
        let Some(at) = self.pin(which) else { return };
        let (page, _, key) = self.pins[at];
        let became = self.cache.mark_dirty(page);
        match key {
            Some(key) => {
                let known = self.known.get_mut(&key).unwrap();
                assert_eq!(became, !known.is_dirty);
                known.is_dirty = true;
            }
            None => assert!(!became, "a page without a mapping has no backing"),
        }
    }

    fn write(&mut self, which: usize, fails: bool) {
        let mapping = which % MAPPINGS;
        let mut pages = [PageNo(0); 8];
        let count = self.cache.dirty_pages(self.ids[mapping], which as u64 % INDEXES, &mut pages);
        let expected: Vec<_> = self
            .known
            .range((mapping, which as u64 % INDEXES)..(mapping + 1, 0))
            .filter(|(_, known)| known.is_dirty)
            .map(|(key, _)| key.1)
            .take(8)
            .collect();
        let found: Vec<_> = pages[..count].iter().map(|page| self.cache.key(*page).1).collect();
        assert_eq!(found, expected);
        for page in &pages[..count] {
            self.cache.latch_shared(*page);
            assert!(self.cache.begin_writeback(*page) && !self.cache.begin_writeback(*page));
            self.cache.unlatch_shared(*page);
            self.cache.end_writeback(*page, fails);
            let key = (mapping, self.cache.key(*page).1);
            self.known.get_mut(&key).unwrap().is_dirty = fails;
            self.cache.unpin(*page);
        }
    }

    fn truncate(&mut self, mapping: usize, from: u64) {
        let gone: Vec<_> =
            self.known.range((mapping, from)..(mapping + 1, 0)).map(|(key, _)| *key).collect();
        let before = self.cache.pages_of(self.ids[mapping]);
        let dropped = self.cache.truncate(self.ids[mapping], from);
        assert!(dropped <= gone.len() as u64);
        assert_eq!(self.cache.pages_of(self.ids[mapping]), before - dropped);
        gone.into_iter().for_each(|key| self.forget(key));
    }

    fn discard(&mut self, key: (usize, u64)) {
        let was_there = self.cache.discard(self.ids[key.0], key.1);
        assert!(was_there || !self.must_be_there(key));
        assert!(!was_there || self.known.contains_key(&key));
        self.forget(key);
    }

    fn invalidate(&mut self, mapping: usize, from: u64, len: u64, all: bool) {
        let which = if all { Invalidate::All } else { Invalidate::CleanOnly };
        let done = self.cache.invalidate(self.ids[mapping], from..from + len, which);
        let keys: Vec<_> = self
            .known
            .range((mapping, from)..(mapping, from + len))
            .map(|(key, known)| (*key, *known))
            .collect();
        let mut busy = 0;
        for (key, known) in keys {
            if known.pins > 0 || known.is_held || known.is_dirty && !all {
                busy += 1;
            } else {
                self.forget(key);
                assert_eq!(self.cache.get(self.ids[mapping], key.1), None);
            }
        }
        assert_eq!(done.busy, busy, "all others were dropped");
    }

    fn reclaim(&mut self, most: usize) {
        let before = self.cache.events().in_memory();
        let request = ScanRequest {
            who: ScanFor::Background,
            most,
            most_scanned: 400,
            until_ns: u64::MAX,
            spares_low: true,
        };
        let done = self.cache.reclaim(NodeId(0), &request);
        assert!(done.freed <= done.scanned && done.freed <= most as u64);
        let gone = before - self.cache.events().in_memory();
        assert!((done.freed..=2 * done.freed).contains(&gone), "what is evicted is freed");
    }

    fn reclaim_directly(&mut self) {
        let (who, most) = (ScanFor::Direct, ScanRequest::DIRECT_MOST);
        let request =
            ScanRequest { who, most, most_scanned: 400, until_ns: u64::MAX, spares_low: true };
        assert!(self.cache.reclaim(NodeId(0), &request).freed <= 32);
        let few = ScanRequest { most: 3, ..request };
        assert!(self.cache.reclaim_group(self.group, &few).freed <= 3);
        assert!(self.cache.direct_reclaim_group(self.group).freed <= 32);
    }

    fn recreate(&mut self, mapping: usize) {
        let old = self.ids[mapping];
        let gone: Vec<_> =
            self.known.range((mapping, 0)..(mapping + 1, 0)).map(|(key, _)| *key).collect();
        assert_eq!(self.cache.owner(old), Some(mapping as u64 + 100));
        assert!(self.cache.destroy_mapping(old));
        gone.into_iter().for_each(|key| self.forget(key));
        self.ids[mapping] =
            self.cache.create_mapping(&options(mapping, self.group)).expect("memory");
        assert_eq!((self.cache.owner(old), self.cache.get(old, 1)), (None, None));
        assert!(!self.cache.destroy_mapping(old));
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Read { mapping, index, keep, fails } => self.read((mapping, index), keep, fails),
            Step::Get { mapping, index } => self.get((mapping, index)),
            Step::Unpin { which } => self.unpin(which),
            Step::Dirty { which } => self.dirty(which),
            Step::Write { which, fails } => self.write(which, fails),
            Step::Hold { index, create } => self.hold(index, create),
            Step::Unhold { which, discard } => self.unhold(which, discard),
            Step::Rekey { which, index } => self.rekey(which, index),
            Step::Truncate { mapping, from } => self.truncate(mapping, from),
            Step::Discard { mapping, index } => self.discard((mapping, index)),
            Step::Invalidate { mapping, from, len, all } => {
                self.invalidate(mapping, from, len, all);
            }
            Step::Reclaim { most } => self.reclaim(most),
            Step::Direct => self.reclaim_directly(),
            Step::Trim => {
                self.cache.trim();
            }
            Step::Recreate { mapping } => self.recreate(mapping),
        }
        self.check_all();
    }

    fn check_all(&self) {
        assert_eq!(self.cache.validate(), Ok(()));
        for (page, tag, key) in &self.pins {
            self.assert_contents(*page, *tag);
            let key = key.map(|(mapping, index)| (self.ids[mapping].number, index));
            assert!(key.is_none_or(|key| self.cache.key(*page) == key));
        }
        let frames = |key: &(usize, u64)| u64::from(options(key.0, self.group).order.frames());
        let dirty = self.known.iter().filter(|(_, known)| known.is_dirty);
        let dirty = dirty.map(|(key, _)| frames(key)).sum::<u64>();
        assert_eq!(self.cache.events().dirty(), dirty);
        let group = self.bed.stack.groups().at(self.group);
        assert!(group.used() <= GROUP_FRAMES);
    }

    /// Gives up all pins and mappings, and checks that nothing is left.
    fn end(mut self) {
        while !self.pins.is_empty() {
            self.unpin(0);
        }
        for id in self.ids {
            assert!(self.cache.destroy_mapping(id));
        }
        let cache = self.cache;
        cache.trim();
        assert_eq!(cache.validate(), Ok(()));
        let events = cache.events();
        assert_eq!((events.pages(), events.dirty(), events.writeback()), (0, 0, 0));
        assert!(self.bed.stack.end_group(self.group), "it holds nothing");
        assert_eq!((events.in_memory(), cache.pinned_frames()), (0, 0));
        assert_eq!(cache.mappings(), 0);
        self.bed.assert_empty(&[]);
    }
}

fn cached(slots: u32, policy: TruncationPolicy, limit_frames: u32) -> CacheBed {
    let (mut options, mut cache) = (small(), PageCachingOptions::default());
    options.pages.limit_frames = limit_frames;
    cache.pages.truncation = policy;
    let os = Box::leak(Box::new(TestOs::new(Backing::Linux, 4096)));
    CacheBed::on_with(os, &options, &cache, |percpu| declare(percpu, slots))
        .expect("a system on which nothing fails")
}

fn run(policy: TruncationPolicy, limit: u32, steps: Vec<(u32, Step)>) {
    let bed = cached(SLOTS, policy, limit);
    let mut model = Model::new(&bed);
    for (cpu, step) in steps {
        on_cpu(cpu);
        model.step(step);
    }
    model.end();
}

fn steps() -> impl Strategy<Value = Vec<(u32, Step)>> {
    vec((0..SLOTS, step()), 1..300)
}

#[test]
fn a_page_cache_is_a_map_under_every_truncation_policy() {
    for (_, policy) in TruncationPolicy::ALL {
        check(24, steps(), |steps| run(policy, u32::MAX, steps));
    }
}

#[test]
fn a_page_cache_at_its_limit_loses_only_what_nobody_uses() {
    check(48, steps(), |steps| run(TruncationPolicy::BatchedRelease, 120, steps));
}

#[test]
fn a_truncated_file_leaves_no_memory_behind() {
    let mut looked_at = Vec::new();
    for (name, policy) in TruncationPolicy::ALL {
        let bed = cached(1, policy, u32::MAX);
        let cache = PageCaching::open(&*bed.stack).unwrap();
        let id = cache.create_mapping(&MappingOptions::default()).unwrap();
        for index in 0..1024 {
            let page = cache.read(id, index, &mut |_, _| Ok(())).unwrap();
            cache.unpin(page);
        }
        assert_eq!(cache.pages_of(id), 1024);
        let used = bed.stack.pages().zones().budget().used() as usize;
        assert!(used >= 1024 + 17 * 576 / FRAME_BYTES, "{used} frames");
        let before = cache.index_counts();
        assert_eq!((before.nodes, before.pages), (17, 1024));
        assert_eq!(cache.truncate(id, 24), 1000, "{name}");
        looked_at.push(cache.index_counts().visits - before.visits);
        assert_eq!((cache.pages_of(id), cache.validate()), (24, Ok(())));
        assert!(cache.destroy_mapping(id));
        cache.trim();
        assert_eq!(cache.validate(), Ok(()));
        bed.assert_empty(&[]);
    }
    let (vanilla, jan) = (looked_at[0], looked_at[1]);
    assert!(jan * 4 < vanilla * 3, "a batch looks at fewer places: {jan}, one by one {vanilla}");
}

#[test]
fn a_direct_reclaim_frees_pages_although_all_of_them_were_used() {
    let bed = cached(1, TruncationPolicy::BatchedRelease, u32::MAX);
    let cache = PageCaching::open(&*bed.stack).unwrap();
    let id = cache.create_mapping(&MappingOptions::default()).unwrap();
    for round in 0..20 {
        for index in 0..900 {
            for _ in 0..2 {
                let page = cache.read(id, index, &mut |_, _| Ok(())).unwrap();
                cache.unpin(page);
            }
        }
        // 32 pages, or fewer on a slow or shared CPU: the reclaim ends after 200 us.
        let freed = cache.direct_reclaim(NodeId(0), ScanRequest::DIRECT_MOST).freed;
        assert!((1..=32).contains(&freed), "round {round}: {freed}");
        assert_eq!(cache.validate(), Ok(()));
    }
    assert!(cache.destroy_mapping(id));
    bed.assert_empty(&[]);
}

#[test]
fn pages_that_are_used_again_outlive_a_scan_of_others() {
    let bed = cached(1, TruncationPolicy::BatchedRelease, u32::MAX);
    let cache = PageCaching::open(&*bed.stack).unwrap();
    let id = cache.create_mapping(&MappingOptions::default()).unwrap();
    let read = |index| {
        let page = cache.read(id, index, &mut |_, _| Ok(())).unwrap();
        cache.unpin(page);
    };
    (0..2).for_each(|_| (0..100).for_each(read));
    // Four times as many other pages, each read once.
    for index in 1000..1400 {
        read(index);
        if index % 20 == 0 {
            (0..100).for_each(read);
            let request = ScanRequest {
                who: ScanFor::Background,
                most: 20,
                most_scanned: 1000,
                until_ns: u64::MAX,
                spares_low: true,
            };
            cache.reclaim(NodeId(0), &request);
        }
    }
    let is_there = |index: &u64| cache.get(id, *index).inspect(|page| cache.unpin(*page)).is_some();
    assert!((0..100).filter(is_there).count() >= 95, "the working set stays");
    assert!((1000..1400).filter(is_there).count() <= 200);
    let events = cache.events();
    assert!(events[Event::Activated] >= 95, "{events:?}");
    assert!(cache.destroy_mapping(id));
    bed.assert_empty(&[]);
}

#[test]
fn a_page_that_comes_back_soon_is_active_at_once() {
    let bed = cached(1, TruncationPolicy::BatchedRelease, u32::MAX);
    let cache = PageCaching::open(&*bed.stack).unwrap();
    let id = cache.create_mapping(&MappingOptions::default()).unwrap();
    let read = |index| {
        let page = cache.read(id, index, &mut |_, _| Ok(())).unwrap();
        cache.unpin(page);
    };
    (0..2).for_each(|_| (0..200).for_each(read));
    (200..300).for_each(read);
    cache.trim();
    // The pages that were read twice become active, and some of the others are evicted.
    let request = ScanRequest {
        who: ScanFor::Background,
        most: 50,
        most_scanned: 1000,
        until_ns: u64::MAX,
        spares_low: true,
    };
    assert!(cache.reclaim(NodeId(0), &request).freed >= 50);
    (200..300).for_each(read);
    let events = cache.events();
    assert!(events[Event::Refaulted] >= 50, "{events:?}");
    assert_eq!(events[Event::RefaultActivated], events[Event::Refaulted], "a short distance");
    assert_eq!(cache.validate(), Ok(()));
    assert!(cache.destroy_mapping(id));
    bed.assert_empty(&[]);
}
