//! The policy `slab` in a whole stack: requests that the system refuses, the policy's metadata, and
//! the background thread's looks at caches. Tests beside the code show each mechanism.

use crate::support::{Backing, Bed, VirtualConfig, on_cpu, small};
use quarry_eras::slab::LinuxSlab;
use quarry_mm::frame::{MetadataKind, NodeId};
use quarry_mm::slab::{CacheId, CacheOptions, CacheParams, SlabPolicy};
use quarry_mm::stack::{ReclaimState, StackHost};
use quarry_sys::percpu::{Object, VirtualSlots};

type SlabBed = Bed<VirtualConfig<LinuxSlab>>;

/// Two CPUs: both of one node, or each of its own.
fn bed(nodes: u8) -> SlabBed {
    let mut options = small();
    options.pages.nodes = nodes;
    options.pages.reserve_bytes = u64::from(nodes) as usize * (64 << 20);
    if nodes > 1 {
        options.pages.node_of_slot = |slot| NodeId(slot.0 as u8 % 2);
    }
    on_cpu(0);
    SlabBed::new(Backing::Fake, 4096, 2, &options)
}

fn objects(bed: &SlabBed, id: CacheId, count: usize) -> Vec<Object> {
    (0..count).map(|_| bed.stack.cache(id).alloc().expect("there is memory")).collect()
}

fn free(bed: &SlabBed, id: CacheId, objects: impl IntoIterator<Item = Object>) {
    for object in objects {
        // SAFETY: the tests free what they have allocated, once.
        unsafe { bed.stack.cache(id).free(object) };
    }
}

/// Every call to the system fails once: a refused request succeeds when it is made again.
#[test]
fn a_refusal_of_the_system_is_survived_wherever_it_comes() {
    for nth in 1.. {
        let bed = bed(2);
        let before = bed.os.calls();
        bed.os.fail(nth, 1);
        let params = CacheParams { size: 512, align: 16 };
        let create = || bed.stack.create_cache("test", &params, &CacheOptions::default());
        let id = create().or_else(|_| create()).expect("only one call fails");
        let (mut taken, mut refused) = (Vec::new(), 0);
        for number in 0..400 {
            on_cpu(number / 100);
            match bed.stack.cache(id).alloc() {
                Some(object) => taken.push(object),
                None => refused += 1,
            }
        }
        assert!(refused <= 1, "only one call fails");
        assert_eq!(bed.stack.validate(), Ok(()));
        free(&bed, id, taken);
        bed.assert_empty(&[id]);
        if bed.os.calls() - before < nth {
            return;
        }
    }
}

#[test]
fn its_metadata_is_counted_where_it_is_used() {
    let bed = bed(1);
    let of = |kind| bed.stack.stats().metadata_bytes(kind);
    let (headers, nodes) = (|| of(MetadataKind::SlabHeaders), || of(MetadataKind::CpuSlabs));
    assert_eq!((headers(), nodes()), (0, 0));
    let id = bed
        .stack
        .create_cache("test", &CacheParams { size: 64, align: 16 }, &CacheOptions::default())
        .unwrap();
    assert_eq!(headers(), 0, "no slab yet");
    let of_node = nodes();
    assert!((1..=512).contains(&of_node), "{of_node} bytes for a cache's part of a node");
    let all = objects(&bed, id, 121);
    assert_eq!(nodes(), of_node, "no shared array yet");
    let section = 16 * 1024 * <LinuxSlab as SlabPolicy<VirtualSlots>>::BYTES_PER_FRAME;
    assert_eq!(headers(), section);
    free(&bed, id, all);
    assert_eq!(nodes() - of_node, 480 * size_of::<Object>(), "a shared array");
    bed.assert_empty(&[id]);
}

/// A cache that no thread has used since the background's last look keeps nothing; a cache in use
/// keeps everything except the arrays of idle CPUs.
#[test]
fn the_background_empties_what_is_idle() {
    let bed = bed(1);
    let caches = [64, 2048].map(|size| {
        bed.stack
            .create_cache("test", &CacheParams { size, align: 16 }, &CacheOptions::default())
            .expect("a cache")
    });
    let mut state = ReclaimState::new();
    for (cpu, id) in caches.into_iter().enumerate() {
        on_cpu(cpu as u32);
        let all = objects(&bed, id, 500);
        free(&bed, id, all);
    }
    let stats = |at: usize| bed.stack.cache(caches[at]).stats();
    assert!(stats(0).parked_objects >= 400 && stats(1).parked_objects >= 90);
    bed.stack.look(&mut state, 0, 0);
    assert!(stats(0).parked_objects >= 400 && stats(1).parked_objects >= 90, "first seen");
    on_cpu(0);
    let one = objects(&bed, caches[0], 1);
    free(&bed, caches[0], one);
    bed.stack.look(&mut state, 0, 0);
    assert!(stats(0).parked_objects >= 400, "{:?}", stats(0));
    assert_eq!((stats(1).parked_objects, stats(1).total_slabs), (0, 0), "{:?}", stats(1));
    assert_eq!(bed.stack.validate(), Ok(()));
    bed.stack.look(&mut state, 0, 0);
    assert_eq!((stats(0).parked_objects, stats(0).total_slabs), (0, 0), "{:?}", stats(0));
    bed.assert_empty(&caches);
}

/// If the memory of one node is used up, its CPU gets memory of the other node.
#[test]
fn a_heap_of_two_nodes_lives_on_the_memory_of_both() {
    let bed = bed(2);
    let id = bed
        .stack
        .create_cache("test", &CacheParams { size: 4096, align: 16 }, &CacheOptions::default())
        .unwrap();
    let mut all = Vec::new();
    // One CPU takes all memory, to the end of the window.
    while let Some(object) = bed.stack.cache(id).alloc() {
        all.push(object);
    }
    assert_eq!(bed.stack.validate(), Ok(()));
    let mib = all.len() * 4096 / (1 << 20);
    assert!(mib > 100, "{mib} MiB of 128");
    // The memory of either node serves a CPU of either.
    let some = all.split_off(all.len() - 300);
    on_cpu(1);
    free(&bed, id, some);
    let again = objects(&bed, id, 200);
    on_cpu(0);
    all.extend(objects(&bed, id, 50));
    assert_eq!(bed.stack.validate(), Ok(()));
    free(&bed, id, all);
    free(&bed, id, again);
    bed.assert_empty(&[id]);
}
