//! Pointers that cannot be freed, under the policy `slab`, as in `misuse` of the product's suites.

use crate::support::aborting::{NOT_IN_USE, SIZE, aborts_in};
use crate::support::{Backing, Bed, VirtualConfig, on_cpu, small};
use quarry_eras::slab::LinuxSlab;
use quarry_mm::frame::NodeId;
use quarry_mm::slab::{CacheId, CacheOptions, CacheParams};
use quarry_mm::stack::StackHost;
use quarry_sys::percpu::{Arrays, Object};

/// Runs an ignored test of this file alone: it must abort, with `line` at the end of its output.
fn aborts(test: &str, line: &str) {
    aborts_in("linux_slab_misuse", test, line);
}

/// Objects of the policy `slab` that CPU 0 of node 0 has allocated; CPU 1 is of node 1.
fn linux_slab(size: usize, count: usize) -> (Bed<VirtualConfig<LinuxSlab>>, CacheId, Vec<Object>) {
    let mut options = small();
    options.pages.reserve_bytes = 256 << 20;
    options.pages.nodes = 2;
    options.pages.node_of_slot = |slot| NodeId(slot.0 as u8);
    let bed = Bed::<VirtualConfig<LinuxSlab>>::new(Backing::Fake, 4096, 2, &options);
    let id = bed
        .stack
        .create_cache("misuse", &CacheParams { size, align: 16 }, &CacheOptions::default())
        .unwrap();
    on_cpu(0);
    let objects = (0..count).map(|_| bed.stack.cache(id).alloc().unwrap()).collect();
    (bed, id, objects)
}

#[test]
fn twice_into_an_alien_array() {
    aborts("freed_twice_into_an_alien_array", NOT_IN_USE);
}

#[test]
#[ignore = "run by the test above: it aborts"]
fn freed_twice_into_an_alien_array() {
    let (bed, id, objects) = linux_slab(SIZE, 4);
    on_cpu(1);
    for &object in objects.iter().chain(&objects[..1]) {
        // SAFETY: the last free is the error under test; the others are correct.
        unsafe { bed.stack.cache(id).free(object) };
    }
}

#[test]
fn twice_on_two_nodes_and_then_a_shrink() {
    aborts("freed_on_two_nodes", NOT_IN_USE);
}

/// One of the two frees reaches the slab first, and the other finds the object free.
#[test]
#[ignore = "run by the test above: it aborts"]
fn freed_on_two_nodes() {
    let (bed, id, objects) = linux_slab(SIZE, 4);
    for cpu in 0..2 {
        on_cpu(cpu);
        // SAFETY: the first free is correct; the second is the error under test.
        unsafe { bed.stack.cache(id).free(objects[0]) };
    }
    bed.stack.cache(id).shrink();
}

#[test]
fn twice_into_a_full_array_of_120() {
    aborts("freed_twice_into_a_full_array_of_slab", NOT_IN_USE);
}

#[test]
#[ignore = "run by the test above: it aborts"]
fn freed_twice_into_a_full_array_of_slab() {
    let (bed, id, objects) = linux_slab(SIZE, 300);
    let level = || bed.stack.percpu().usage(id.array()).level;
    for (index, &object) in objects.iter().enumerate() {
        // SAFETY: each was live and is freed once.
        unsafe { bed.stack.cache(id).free(object) };
        if level() == 120 {
            // SAFETY: the error under test: the object is in the array that makes room for it.
            unsafe { bed.stack.cache(id).free(objects[index - 100]) };
        }
    }
}

#[test]
fn twice_into_a_slab_of_large_objects() {
    let line = "): object of 2048 bytes is not in use: freed already, or never allocated";
    aborts("freed_twice_into_a_slab_of_large_objects", line);
}

#[test]
#[ignore = "run by the test above: it aborts"]
fn freed_twice_into_a_slab_of_large_objects() {
    let (bed, id, objects) = linux_slab(2048, 6);
    for cpu in 0..2 {
        on_cpu(cpu);
        // SAFETY: the first free is correct; the second is the error under test.
        unsafe { bed.stack.cache(id).free(objects[1]) };
        // The object's neighbour keeps the slab in use.
        bed.stack.cache(id).shrink();
    }
}

#[test]
fn an_index_that_was_written_to() {
    aborts(
        "took_an_overwritten_index",
        ": overwritten, probably past the end of an object of 64 bytes",
    );
}

/// The last object of a slab is overrun far enough to reach the next slab's numbers.
#[test]
#[ignore = "run by the test above: it aborts"]
fn took_an_overwritten_index() {
    let (bed, id, objects) = linux_slab(64, 59 * 40);
    let slab = |object: &Object| object.as_ptr() as usize / 4096;
    let is_last = |object: &&Object| {
        let ends = (object.as_ptr() as usize + 64).is_multiple_of(4096);
        ends && objects.iter().any(|other| slab(other) == slab(object) + 1)
    };
    let last = *objects.iter().find(is_last).expect("two slabs are neighbours");
    let behind = objects.iter().find(|other| slab(other) == slab(&last) + 1).expect("there is one");
    // SAFETY: an error, but the slab after the object is mapped, and has no object up to there.
    unsafe { last.add(64).write_bytes(0, 320) };
    // SAFETY: it was live and is freed once.
    unsafe { bed.stack.cache(id).free(*behind) };
    bed.stack.cache(id).shrink();
}
