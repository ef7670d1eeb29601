//! A stack without a page cache: the limit, direct reclaim and the statistics concern only the
//! heap.

use crate::support::{Backing, Bed, Oracle, VirtualConfig, on_cpu, small};
use quarry_cache::PageCaching;
use quarry_mm::frame::FRAME_BYTES;
use quarry_mm::heap::options::StackOptions;
use quarry_mm::slab::Sheaf;
use quarry_mm::stack::{CachedPages, Pressure, Report, Section, Stack, StackHost};

type Config = VirtualConfig<Sheaf, ()>;

const LIMIT: usize = 8 << 20;

fn bed() -> Bed<Config> {
    let mut options = StackOptions { heap: true, ..small() };
    options.pages.reserve_bytes = 128 << 20;
    options.pages.limit_frames = (LIMIT / FRAME_BYTES) as u32;
    Bed::new(Backing::Linux, 4096, 2, &options)
}

/// Allocates objects of `size` bytes until a request is refused although it has reclaimed; returns
/// the bytes of the objects. (For 10 ms after a reclaim that found nothing, requests are refused
/// without a reclaim.)
fn fill(bed: &Bed<Config>, oracle: &mut Oracle, size: usize) -> usize {
    let before = oracle.bytes();
    loop {
        let reclaims = bed.stack.stats().direct_reclaims;
        let Some(object) = bed.stack.alloc(size) else {
            if bed.stack.stats().direct_reclaims > reclaims {
                return oracle.bytes() - before;
            }
            continue;
        };
        oracle.insert(object, size, bed.stack.usable_size(object).unwrap(), 16, 0);
        let used = bed.stack.pages().zones().budget().used() as usize * FRAME_BYTES;
        assert!(used <= LIMIT, "{used} bytes in use");
    }
}

fn free_all(bed: &Bed<Config>, oracle: &mut Oracle) {
    while let Some(live) = oracle.remove(0) {
        on_cpu(oracle.len() as u32);
        // SAFETY: the object was live, and only the oracle knew it.
        unsafe { bed.stack.free(live.object) };
    }
}

#[test]
fn a_stack_without_a_cache_has_nothing_of_one() {
    let (with, without) = (size_of::<Stack<VirtualConfig<Sheaf>>>(), size_of::<Stack<Config>>());
    // A stack is aligned to 256 bytes.
    let least = size_of::<PageCaching>() / 256 * 256;
    assert!(least > 0 && with - without >= least, "{with} bytes and {without}");
}

#[test]
fn its_limit_is_the_heaps() {
    let bed = bed();
    let mut oracle = Oracle::default();
    // Memory that one size leaves in arrays, barns, lists and cached mappings serves the next size.
    for size in [80, 9000, 40_000, 300_000, 2 << 20, 160] {
        let filled = fill(&bed, &mut oracle, size);
        let wanted = if size > 200_000 { LIMIT / 2 } else { LIMIT * 3 / 4 };
        assert!(filled >= wanted, "only {filled} bytes of objects of {size}");
        assert_eq!(bed.stack.alloc(size), None, "it is full");
        assert_eq!(bed.stack.validate(), Ok(()));
        oracle.check_all();
        free_all(&bed, &mut oracle);
    }
    assert!(bed.stack.stats().direct_reclaims > 0, "requests have had parked memory taken back");
    assert!(bed.stack.stats().budget.direct_reclaims > 0);
    bed.assert_empty(&[]);
}

#[test]
fn it_shows_that_there_is_no_cache() {
    let bed = bed();
    let object = bed.stack.alloc(100).expect("there is room");
    assert_eq!(bed.stack.stats().served_by.lru, "none");
    assert_eq!(
        Report { stack: &bed.stack, sections: &[Section::PageCache] }.to_string(),
        "page cache: not used\n"
    );
    let stats = bed.stack.stats().budget;
    assert_eq!((stats.file, stats.pinned, stats.shrinkable), (0, 0, 0));
    assert_eq!((stats.pressure, stats.balances.runs), (Pressure::None, 0));
    let mut names = Vec::new();
    bed.stack.visit_locks(&mut |name, _| names.push(name));
    assert!(!names.iter().any(|name| ["balance->costs", "page_cache->build"].contains(name)));
    // A process makes these calls whether its stack has a page cache or not.
    <() as CachedPages>::note_refusal(&*bed.stack, 1);
    // SAFETY: the object is live, and only this test knows it.
    unsafe { bed.stack.free(object) };
    bed.assert_empty(&[]);
}
