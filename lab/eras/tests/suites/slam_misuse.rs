//! Objects in a stock of the policy `slam` that were freed twice or overwritten, as in `misuse` of
//! the product's suites.

use crate::support::aborting::{NOT_IN_USE, SIZE, aborts_in};
use crate::support::{Backing, Bed, VirtualConfig, fix_slam_mode, on_cpu, small};
use quarry_eras::slab::{Slam, SlamMode};
use quarry_mm::slab::{CacheId, CacheOptions, CacheParams};
use quarry_mm::stack::StackHost;
use quarry_sys::percpu::Object;

const ROOM: usize = 128;

/// Runs an ignored test of this file alone: it must abort, and its last line must contain `line`.
fn aborts(test: &str, line: &str) {
    aborts_in("slam_misuse", test, line);
}

/// A cache of `slam` whose CPU has many objects in its stock.
fn stocked() -> (Bed<VirtualConfig<Slam>>, CacheId, Vec<Object>) {
    fix_slam_mode(Some(SlamMode::Linked));
    on_cpu(0);
    let bed = Bed::<VirtualConfig<Slam>>::new(Backing::Fake, 4096, 2, &small());
    let params = CacheParams { size: SIZE, align: 16 };
    let id = bed.stack.create_cache("test", &params, &CacheOptions::default()).expect("a cache");
    let objects: Vec<Object> =
        (0..8192).map(|_| bed.stack.cache(id).alloc().expect("there is memory")).collect();
    for &object in &objects {
        // SAFETY: each object was live and is freed once.
        unsafe { bed.stack.cache(id).free(object) };
    }
    (bed, id, objects)
}

#[test]
fn a_bundle_that_was_written_to() {
    let line = ": overwritten: the program wrote to an object of 48 bytes that is free";
    for test in ["took_a_written_bundle", "took_a_written_link"] {
        aborts(test, line);
    }
}

/// Writes to word `word` of all objects that it has freed.
fn write_to_freed(word: usize) {
    let (bed, id, objects) = stocked();
    for object in &objects {
        // SAFETY: not given, but the object's memory is mapped. The value is the address of an
        // object, so only a digest shows that it was overwritten.
        unsafe { object.cast::<u64>().add(word).write(objects[7].as_ptr() as u64) };
    }
    while bed.stack.cache(id).alloc().is_some() {}
}

#[test]
#[ignore = "run by the test above: it aborts"]
fn took_a_written_bundle() {
    write_to_freed(3);
}

#[test]
#[ignore = "run by the test above: it aborts"]
fn took_a_written_link() {
    write_to_freed(0);
}

#[test]
fn twice_into_a_stock() {
    for test in ["freed_twice_and_shrunk", "freed_twice_with_a_sheaf_between"] {
        aborts(test, NOT_IN_USE);
    }
}

/// The object then lies twice in the CPU: in the stock and in the array.
#[test]
#[ignore = "run by the test above: it aborts"]
fn freed_twice_and_shrunk() {
    let (bed, id, objects) = stocked();
    // SAFETY: this is the tested error.
    unsafe { bed.stack.cache(id).free(objects[100]) };
    bed.stack.cache(id).shrink();
}

/// The object of the first free has left the array when the second free comes.
#[test]
#[ignore = "run by the test above: it aborts"]
fn freed_twice_with_a_sheaf_between() {
    let (bed, id, objects) = stocked();
    let last = objects.len() - 1;
    for _ in 0..2 * ROOM {
        for index in (last - 40..=last).rev() {
            // SAFETY: this is the tested error.
            unsafe { bed.stack.cache(id).free(objects[index]) };
        }
    }
}
