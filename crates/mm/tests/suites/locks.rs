//! Every lock is named once, is free while nobody works, and counts.

use crate::support::{Backing, Bed, VirtualConfig, small};
use quarry_mm::heap::classes;
use quarry_mm::heap::options::StackOptions;
use quarry_mm::slab::{KernelSheaf, LinuxSlab, Sheaf, SlabPolicy, Slqb, Slub3_0, Slub4_9};
use quarry_mm::stack::Section;
use quarry_sys::percpu::VirtualSlots;
use std::collections::BTreeMap;

const CPUS: u32 = 3;
const NODES: usize = 1;

fn bed<S: SlabPolicy<VirtualSlots> + 'static>() -> Bed<VirtualConfig<S>> {
    let bed = Bed::new(Backing::Linux, 4096, CPUS, &StackOptions { heap: true, ..small() });
    for size in [100, 40 << 10, 2 << 20] {
        let object = bed.stack.alloc(size).expect("there is memory");
        // SAFETY: just allocated, and used by nobody.
        unsafe { bed.stack.free(object) };
    }
    bed
}

/// How often locks of each name are visited; every lock is a different one, and free.
fn visited<S: SlabPolicy<VirtualSlots> + 'static>(
    bed: &Bed<VirtualConfig<S>>,
) -> BTreeMap<&'static str, usize> {
    let (mut names, mut addresses) = (BTreeMap::new(), Vec::new());
    bed.stack.upkeep().visit_locks(&mut |name, lock| {
        assert!(lock.is_free(), "{name} is held while nobody works");
        *names.entry(name).or_insert(0) += 1;
        if lock.stats().is_some() {
            addresses.push(std::ptr::from_ref(lock).cast::<u8>());
        }
    });
    let all = addresses.len();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), all, "no lock is visited twice");
    names
}

const OF_ALL: [(&str, usize); 17] = [
    ("zone->lock", NODES),
    ("zone->steps", NODES),
    ("zone->purging", NODES),
    ("arena->lock", 1),
    ("pcp->lock", CPUS as usize * NODES),
    ("caches->adding", 1),
    ("mappings->lock", 1),
    ("metadata->chunk", 1),
    ("footprint->given", 1),
    ("withheld->block", 1),
    ("checks->quarantine", 1),
    ("checks->hidden", 1),
    ("checks->guards", 1),
    ("balance->costs", 1),
    ("page_cache->build", 1),
    ("percpu->once", 1),
    ("percpu->bounds", 1),
];

#[test]
fn a_visitor_meets_every_lock_of_the_policy_sheaf_once() {
    let mut names = visited(&bed::<Sheaf>());
    // One CPU has worked.
    assert_eq!(names.remove("percpu->stripe"), Some(1));
    // One cache has been used; the locks of the others nobody has touched.
    let of_caches = [("slab->list_lock", 1), ("barn->lock", NODES)];
    assert_eq!(names, OF_ALL.into_iter().chain(of_caches).collect());
}

#[test]
fn a_visitor_meets_every_lock_of_the_policy_slub_once() {
    fn visits<S: SlabPolicy<VirtualSlots> + 'static>(own: &[(&'static str, usize)]) {
        let mut names = visited(&bed::<S>());
        assert_eq!(names.remove("percpu->stripe"), Some(1));
        let of_slub = [
            ("slab->list_lock", classes::COUNT * NODES),
            ("slub->growth", 1),
            ("slub->slot_lock", 1),
        ];
        assert_eq!(names, OF_ALL.into_iter().chain(of_slub).chain(own.iter().copied()).collect());
    }
    visits::<Slub4_9>(&[]);
    // The bits of all slabs are counted as one lock.
    visits::<Slub3_0>(&[("slub->slab_lock", 1)]);
}

#[test]
fn a_visitor_meets_every_lock_of_the_policy_slab_once() {
    let mut names = visited(&bed::<LinuxSlab>());
    assert_eq!(names.remove("percpu->stripe"), Some(1));
    // On one node there are no aliens.
    let of_slab = [("slab->list_lock", classes::COUNT * NODES), ("slab->growth", 1)];
    assert_eq!(names, OF_ALL.into_iter().chain(of_slab).collect());
}

#[test]
fn a_visitor_meets_every_lock_of_the_policy_sheaf_6_18_once() {
    let mut names = visited(&bed::<KernelSheaf>());
    assert_eq!(names.remove("percpu->stripe"), Some(1));
    // One CPU has used one cache.
    let of_cpu = [("sheaf->pool", 1), ("sheaf->spare", 1)];
    let of_caches = [("slab->list_lock", classes::COUNT), ("barn->lock", classes::COUNT * NODES)];
    assert_eq!(names, OF_ALL.into_iter().chain(of_cpu).chain(of_caches).collect());
}

#[test]
fn a_visitor_meets_every_lock_of_the_policy_slqb_once() {
    let mut names = visited(&bed::<Slqb>());
    assert_eq!(names.remove("percpu->stripe"), Some(1));
    // One node, so it has no list of its own.
    let of_slqb = [
        ("slqb->growth", 1),
        ("slqb->page_lock", classes::COUNT),
        ("slqb->remote_free", classes::COUNT),
        ("slqb->rlist", classes::COUNT),
    ];
    assert_eq!(names, OF_ALL.into_iter().chain(of_slqb).collect());
}

#[test]
fn statistics_have_a_line_for_each_name() {
    let bed = bed::<Sheaf>();
    let text = bed.stack.report(&[Section::Locks]).to_string();
    let names: Vec<&str> =
        text.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    let counting = visited(&bed).len() - 1;
    assert_eq!(names.len(), counting, "all but the stripes count: {text}");
    let zone = text.lines().find(|line| line.starts_with("zone->lock ")).expect("a line");
    let taken = zone.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    assert!(taken > Some(0), "the zone has been used: {zone}");
}
