//! The page cache in rare situations: an index beyond the largest tree, a mapping that another one
//! replaces during a request, pages in the add batches of other CPUs.

use crate::support::{Backing, Bed, VirtualConfig, is_huge, on_cpu, small};
use quarry_cache::PageCaching;
use quarry_cache::lru::{LruOptions, MOST_PINS, PageNo, Splice, State, StateWord};
use quarry_cache::page_cache::index::INDEX_LIMIT;
use quarry_cache::page_cache::{
    self, Basis, Effort, MappingId, MappingOptions, PageCache, PageCacheOptions, PageCacheRef,
    ReadError, RekeyError,
};
use quarry_mm::frame::{NodeId, Order};
use quarry_mm::slab::Sheaf;
use quarry_mm::stack::{Stack, StackHost};
use quarry_mm::zone::{GroupId, GroupLimits, Name};
use std::cell::Cell;

type Config = VirtualConfig<Sheaf>;

fn bed() -> Bed<Config> {
    on_cpu(0);
    Bed::new(Backing::Linux, 4096, 3, &small())
}

fn mapping<H: page_cache::Host>(cache: PageCacheRef<'_, H>, group: GroupId) -> MappingId {
    let options = MappingOptions { group: group.0, ..MappingOptions::default() };
    cache.create_mapping(&options).expect("there is memory")
}

fn pin<H: page_cache::Host>(cache: PageCacheRef<'_, H>, id: MappingId, index: u64) -> PageNo {
    cache.read(id, index, &mut |_, _| Ok(())).expect("there is memory")
}

fn touch<H: page_cache::Host>(
    cache: PageCacheRef<'_, H>,
    id: MappingId,
    index: u64,
) -> Result<(), ReadError> {
    cache.read(id, index, &mut |_, _| Ok(())).map(|page| cache.unpin(page))
}

fn group(stack: &Stack<Config>, max: u32) -> GroupId {
    let limits = GroupLimits { max, ..GroupLimits::default() };
    stack
        .groups
        .create(GroupId::ROOT, Name::of("job"), limits, stack.metadata())
        .expect("there are few")
}

#[test]
fn an_index_that_no_tree_holds_is_refused() {
    let bed = bed();
    let cache = PageCaching::open(&*bed.stack).unwrap();
    let id = mapping(cache, GroupId::ROOT);
    let last = pin(cache, id, INDEX_LIMIT - 1);
    for index in [INDEX_LIMIT, u64::MAX] {
        assert_eq!(touch(cache, id, index), Err(ReadError::Full));
        assert!(cache.hold(id, index, Some(Effort::Easy)).is_err());
        assert_eq!(cache.rekey(last, index), Err(RekeyError::Full));
        assert_eq!((cache.get(id, index), cache.truncate(id, index)), (None, 0));
        assert_eq!(cache.validate(), Ok(()));
    }
    cache.unpin(last);
    assert!(cache.destroy_mapping(id));
}

/// A host that replaces a mapping once, after a page is charged and before it gets its memory.
struct Interrupted<'a> {
    stack: &'a Stack<Config>,
    cache: &'a PageCache,
    /// The mapping to destroy, and the group of the new one.
    replacement: Cell<Option<(MappingId, GroupId)>>,
}

impl Interrupted<'_> {
    fn replace(&self, old: MappingId, group: GroupId) {
        let cache = self.cache.opened(self).expect("it is in use");
        assert!(cache.destroy_mapping(old));
        let options =
            MappingOptions { group: group.0, order: Order::new(2), ..MappingOptions::default() };
        assert_eq!(cache.create_mapping(&options).unwrap().number, old.number);
    }
}

impl page_cache::Host for Interrupted<'_> {
    type Stack = Stack<Config>;
    type Lru = Splice;

    fn stack(&self) -> &Stack<Config> {
        if self.stack.groups.iter().any(|(_, group)| group.used() > 0)
            && let Some((old, group)) = self.replacement.take()
        {
            self.replace(old, group);
        }
        self.stack
    }

    fn basis(&self) -> &Basis {
        self.cache.basis()
    }
}

/// A request during which its mapping is destroyed uncharges the group that it has charged, even if
/// a new mapping has the same number by then, in another group and with pages of another order.
#[test]
fn a_mapping_that_is_replaced_during_a_request_leaves_no_charge() {
    let bed = bed();
    let stack = &*bed.stack;
    PageCaching::open(stack).expect("the nodes need a slab cache");
    let nodes = page_cache::Host::basis(stack).nodes().expect("it is open");
    let all = PageCache::new();
    let [old, new] = [(); 2].map(|()| group(&bed.stack, 100));
    let host = Interrupted { stack, cache: &all, replacement: Cell::new(None) };
    let (options, lru) = (PageCacheOptions::default(), LruOptions::default());
    let cache = all.open(&host, &options, lru, || Ok(nodes)).unwrap();
    let id = mapping(cache, old);
    host.replacement.set(Some((id, new)));
    assert_eq!(cache.get_or_alloc(id, 7, Effort::Easy), Err(ReadError::Full));
    assert_eq!([old, new].map(|group| bed.stack.groups.at(group).used()), [0, 0]);
    assert_eq!(cache.validate(), Ok(()));
}

/// A truncation ends the holding of pages; a later `unhold` of their owner changes nothing.
#[test]
fn a_holding_that_a_truncation_has_ended_ends_once() {
    let bed = bed();
    let cache = PageCaching::open(&*bed.stack).unwrap();
    let id = mapping(cache, GroupId::ROOT);
    let page = cache.hold(id, 3, Some(Effort::Every)).unwrap().expect("a new page").page();
    cache.pin_again(page);
    assert_eq!(cache.truncate(id, 0), 1);
    let pins = cache.state(page).pins();
    cache.unhold(page, false);
    assert_eq!(cache.state(page).pins(), pins);
    cache.unhold(page, true);
    assert_eq!(cache.state(page).pins(), pins);
    cache.unpin(page);
    assert!(cache.destroy_mapping(id));
    cache.trim();
    assert_eq!(cache.validate(), Ok(()));
    bed.assert_empty(&[]);
}

/// Pages in the add batches of other CPUs have a pin, but count as idle.
#[test]
fn a_group_has_its_pages_back_from_the_batches_of_other_cpus() {
    let bed = bed();
    let cache = PageCaching::open(&*bed.stack).unwrap();
    let job = group(&bed.stack, 16);
    let id = mapping(cache, job);
    for index in 0..16 {
        on_cpu(index % 2);
        touch(cache, id, index.into()).expect("within its limit");
    }
    on_cpu(2);
    touch(cache, id, 100).expect("clean pages of its own make room");
    assert!(cache.destroy_mapping(id));
    assert_eq!(bed.stack.groups().at(job).used(), 0, "nobody uses its pages");
    assert!(bed.stack.end_group(job));
    on_cpu(0);
    assert_eq!(cache.validate(), Ok(()));
}

/// Truncated pages that are still pinned stay on their lists. A scan passes over them.
#[test]
fn a_scan_finds_idle_pages_behind_truncated_ones() {
    let bed = bed();
    let cache = PageCaching::open(&*bed.stack).unwrap();
    let [gone, id] = [mapping(cache, GroupId::ROOT), mapping(cache, GroupId::ROOT)];
    let pinned: Vec<PageNo> = (0..300).map(|index| pin(cache, gone, index)).collect();
    assert_eq!(cache.truncate(gone, 0), 300);
    (0..100).for_each(|index| touch(cache, id, index).expect("there is memory"));
    cache.trim();
    assert!(cache.direct_reclaim(NodeId(0), 32).freed > 0, "there are 100 idle pages");
    pinned.into_iter().for_each(|page| cache.unpin(page));
    assert_eq!(cache.validate(), Ok(()));
}

/// Truncations and add batches pin pages without a test, so `try_pin` leaves the last pins to them.
#[test]
fn the_last_pins_are_for_those_who_do_not_ask() {
    let word = StateWord::default();
    word.begin(State(State::LIVE | (MOST_PINS - 2)));
    while word.try_pin(State::LIVE).is_some() {}
    word.pin_again();
    word.take_out(0, State::PIN, false).expect("it is live");
    assert_eq!((word.load().pins(), word.load().shared()), (MOST_PINS, 0));
}

/// A page cache with few pages takes little memory: its pageblock is not filled at one touch.
#[test]
fn few_cached_pages_are_not_huge() {
    let bed = bed();
    let cache = PageCaching::open(&*bed.stack).unwrap();
    let id = mapping(cache, GroupId::ROOT);
    let mut huge = (0..1024).map(|index| {
        let page = pin(cache, id, index);
        let zones = bed.stack.pages().zones();
        let is_huge = is_huge(zones, cache.address(page).as_ptr());
        cache.unpin(page);
        is_huge
    });
    assert!(!huge.by_ref().take(512).any(|is_huge| is_huge));
    assert!(huge.any(|is_huge| is_huge), "they are with more pages");
}
