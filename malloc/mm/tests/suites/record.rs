//! The record of a stack has the same figures as its statistics, under every slab policy.

use crate::support::{Backing, Bed, VirtualConfig, small};
use quarry_cache::PageCaching;
use quarry_mm::heap::options::StackOptions;
use quarry_mm::own_heap::Use;
use quarry_mm::pcp::{PagePolicy, V6_18};
use quarry_mm::slab::{Sheaf, SlabPolicy};
use quarry_mm::stack::{Report, Section, StackConfig, StackHost};
use quarry_mm::zone::{self, GroupId};
use quarry_record::{
    About, Head, MAGIC, Memory, Name, Owner, RECORD_WORDS, Sequence, Sink, Snapshot, VERSION, flags,
};
use quarry_sys::percpu::VirtualSlots;

/// A record in memory.
struct Words(Vec<u64>);

impl Sink for Words {
    fn put(&mut self, at: usize, word: u64) {
        self.0[at] = word;
    }
}

/// The record of a stack, as a reader copies it.
fn record<C: StackConfig>(bed: &Bed<C>) -> Vec<u8> {
    let mut words = Words(vec![0; RECORD_WORDS]);
    let about = About { quarry: Name::new("test"), flags: flags::IS_CHILD, ..About::default() };
    let owner = Owner { generation: 1, pid: 1 };
    words.0[Head::SUM_AT] = Head::sum_for(owner, bed.stack.fill_record(&mut words, about));
    words.0[Head::MAGIC_AT] = MAGIC;
    words.0[Head::VERSION_AT] = u64::from(VERSION) | (RECORD_WORDS as u64) << 32;
    words.0[Head::OWNER_AT] = owner.to_word();
    words.0[Head::SEQUENCE_AT] = Sequence { generation: 1, count: 2 }.to_word();
    words.0.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

#[test]
fn own_heaps_have_rows_by_name() {
    let options = StackOptions { heap: true, ..small() };
    let bed: Bed<VirtualConfig<Sheaf>> = Bed::new(Backing::Linux, 4096, 1, &options);
    for name in ["tenant", "empty"] {
        let heap = bed.stack.own.create(
            zone::Name::of(name),
            (GroupId::ROOT, Use::Program),
            u32::MAX,
            bed.stack.metadata(),
        );
        let heap = heap.expect("there is memory for a record");
        for size in [16, 100, 5000, 100 << 10] {
            if name == "tenant" {
                assert!(bed.stack.own_alloc(heap, size.into()).is_ok());
            }
        }
    }
    let bytes = record(&bed);
    let snapshot = Snapshot::parse(&bytes).expect("a publication");
    let rows: Vec<_> = snapshot.caches().filter(|it| it.name.as_str().contains("heap:")).collect();
    let [row] = &rows[..] else { panic!("one heap has objects: {rows:?}") };
    assert_eq!((row.name.as_str(), row.live_objects(), row.allocs()), ("heap:tenant", 4, 4));
    let tables = Report { stack: &bed.stack, sections: &[Section::Slabs] }.to_string();
    assert!(tables.contains("\nheap:tenant"), "{tables}");
}

/// Checks the record of a stack with these options.
pub(crate) fn check<S: SlabPolicy<VirtualSlots> + 'static, P: PagePolicy>(
    options: &StackOptions<P>,
) {
    let options = StackOptions { heap: true, ..*options };
    let bed: Bed<VirtualConfig<S, PageCaching, P>> = Bed::new(Backing::Linux, 4096, 3, &options);
    let sizes = [24, 24, 100, 700, 40 << 10, 100 << 10, 2 << 20];
    let held = sizes.map(|size| bed.stack.alloc(size).expect("there is memory"));
    let freed = bed.stack.alloc(24).expect("there is memory");
    // SAFETY: the object was just allocated, and no other code uses it.
    unsafe { bed.stack.free(freed) };

    let bytes = record(&bed);
    let snapshot = Snapshot::parse(&bytes).expect("a publication");
    let stats = bed.stack.stats();
    let about = snapshot.about();
    assert_eq!((about.quarry.as_str(), about.slab.as_str()), ("test", S::NAME));
    assert_eq!((about.backend.as_str(), about.flags), ("locked slots", flags::IS_CHILD));
    assert_eq!(about.pages.as_str(), options.pages.policy.name());

    let Memory { objects, blocks, mappings, parked, arena, used, free, .. } = snapshot.memory();
    let memory = &stats.memory;
    assert_eq!(objects as usize, memory.objects);
    assert_eq!((blocks as usize, mappings as usize), (memory.blocks, memory.mappings));
    assert_eq!((parked as usize, used + free), (memory.parked, arena));

    let tables =
        Report { stack: &bed.stack, sections: &[Section::Slabs, Section::Locks] }.to_string();
    let mut live = 0;
    for row in snapshot.caches() {
        assert!(tables.contains(row.name.as_str()), "{row:?}\n{tables}");
        assert_eq!(row.live_objects(), row.allocs() - row.frees(), "{row:?}");
        assert!(row.active_slabs <= row.total_slabs && row.total_slabs <= row.slabs_allocated);
        live += row.live_objects() * u64::from(row.stride);
    }
    assert_eq!(live, objects, "the rows are all caches with slabs");
    assert_eq!(about.caches_beyond, 0);
    for row in snapshot.locks() {
        assert!(tables.contains(row.name.as_str()), "{row:?}\n{tables}");
    }
    assert!(snapshot.locks().any(|row| row.name.as_str() == "zone->lock" && row.acquisitions > 0));

    let [zone] = snapshot.zones().collect::<Vec<_>>()[..] else { panic!("one node") };
    let in_blocks: usize = (0..zone.free_blocks.len())
        .map(|order| zone.free_blocks[order].iter().sum::<u32>() as usize * (1 << order))
        .sum();
    assert_eq!(in_blocks + zone.in_extents as usize, zone.free as usize, "{zone:?}");
    assert_eq!(snapshot.event("block_allocs"), Some(2));
    assert_eq!(snapshot.event("mapping_allocs"), Some(1));
    assert_eq!(snapshot.event("pcp_allocs"), Some(stats.page_lists.allocs));
    assert_eq!(snapshot.event("nr_file_pages"), Some(0));
    for object in held {
        // SAFETY: the object was allocated above, and no other code uses it.
        unsafe { bed.stack.free(object) };
    }
}

#[test]
fn every_slab_policy_fills_it() {
    macro_rules! each {
        ($($name:ident: $text:literal, $policy:ty;)*) => {
            $(check::<$policy, V6_18>(&small());)*
        };
    }
    slab_policies!(each);
}

/// The record has the page cache's events in the order of the readers' names; a debug build checks
/// this for each event.
#[test]
fn a_page_cache_fills_its_events() {
    let options = StackOptions { heap: true, ..small() };
    let bed: Bed<VirtualConfig<Sheaf>> = Bed::new(Backing::Linux, 4096, 2, &options);
    PageCaching::open(&*bed.stack).expect("there is memory for its tables");
    let bytes = record(&bed);
    let snapshot = Snapshot::parse(&bytes).expect("a publication");
    assert_ne!(snapshot.about().flags & flags::HAS_PAGE_CACHE, 0);
}
