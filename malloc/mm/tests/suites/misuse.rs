//! Frees of wrong pointers: the process prints one line with the reason, then aborts. Each case
//! runs in a separate process.

use crate::support::aborting::{NOT_IN_USE, SIZE, aborts_in};
use crate::support::{Backing, Bed, TestOs, VirtualConfig, on_cpu, small, unregister};
use quarry_mm::heap::options::StackOptions;
use quarry_mm::pcp::V6_18;
use quarry_mm::slab::Sheaf;
use quarry_mm::stack::{StackConfig, StackHost};
use quarry_sys::percpu::{Arrays, NativeSlots, Object};
use quarry_watch::AllInstruments;

type HeapBed = Bed<VirtualConfig<Sheaf>>;

const ROOM: usize = 128;
const NO_BLOCK: &str = "): no block in use starts there: freed already, or never allocated";

fn bed() -> HeapBed {
    let options = StackOptions { heap: true, ..small() };
    HeapBed::new(Backing::Fake, 4096, 2, &options)
}

fn objects(bed: &HeapBed, count: usize) -> Vec<Object> {
    (0..count).map(|_| bed.stack.alloc(SIZE).expect("there is memory")).collect()
}

/// Runs an ignored test of this file alone: it must abort, and its last line must contain `line`.
fn aborts(test: &str, line: &str) {
    aborts_in("misuse", test, line);
}

/// Frees an object that must not be freed.
///
/// # Safety
/// No promise could make this sound: the process ends here.
unsafe fn free<C: StackConfig>(bed: &Bed<C>, object: Object) -> ! {
    // SAFETY: not given. The stack finds the error, and aborts before the object is used.
    unsafe { bed.stack.free(object) };
    std::process::exit(0);
}

#[test]
fn twice_in_a_row() {
    aborts("freed_twice", NOT_IN_USE);
}

#[test]
#[ignore = "run by the test above: it aborts"]
fn freed_twice() {
    let bed = bed();
    let object = objects(&bed, 1)[0];
    // SAFETY: the first free is sound; the second is the tested error.
    unsafe {
        bed.stack.free(object);
        free(&bed, object)
    }
}

#[test]
fn twice_into_a_full_array() {
    aborts("freed_twice_when_full", NOT_IN_USE);
}

#[test]
#[ignore = "run by the test above: it aborts"]
fn freed_twice_when_full() {
    let bed = bed();
    let objects = objects(&bed, 2 * ROOM);
    for &object in &objects {
        // SAFETY: each object was live and is freed once.
        unsafe { bed.stack.free(object) };
        let class = quarry_mm::heap::classes::of(SIZE);
        if bed.stack.percpu().usage(class.array()).level == ROOM as u64 {
            // SAFETY: this is the tested error.
            unsafe { free(&bed, object) }
        }
    }
}

#[test]
fn twice_with_another_in_between() {
    aborts("freed_twice_with_another_between", NOT_IN_USE);
}

#[test]
#[ignore = "run by the test above: it aborts"]
fn freed_twice_with_another_between() {
    let bed = bed();
    let objects = objects(&bed, 2);
    // SAFETY: the first two frees are sound; the third is the tested error.
    unsafe {
        bed.stack.free(objects[0]);
        bed.stack.free(objects[1]);
        free(&bed, objects[0])
    }
}

#[test]
fn twice_with_many_in_between_and_then_a_shrink() {
    aborts("freed_twice_with_many_between", NOT_IN_USE);
}

#[test]
#[ignore = "run by the test above: it aborts"]
fn freed_twice_with_many_between() {
    let bed = bed();
    let objects = objects(&bed, 30);
    for object in objects.iter().chain(&objects[..1]) {
        // SAFETY: the last free is the tested error; the others are sound.
        unsafe { bed.stack.free(*object) };
    }
    let _ = bed.stack.trim();
}

#[test]
fn again_behind_neighbours_of_the_same_slab() {
    aborts("freed_again_behind_neighbours", NOT_IN_USE);
}

/// The slab sets the bits of three neighbours before it finds that the fourth bit is set.
#[test]
#[ignore = "run by the test above: it aborts"]
fn freed_again_behind_neighbours() {
    let bed = bed();
    let objects = objects(&bed, 30);
    // SAFETY: the object is live.
    unsafe { bed.stack.free(objects[0]) };
    let _ = bed.stack.trim();
    for object in objects[1..4].iter().chain(&objects[..1]) {
        // SAFETY: the last free is the tested error; the others are sound.
        unsafe { bed.stack.free(*object) };
    }
    let _ = bed.stack.trim();
}

#[test]
fn twice_with_many_in_between_into_a_full_array() {
    aborts("freed_twice_into_a_full_array", NOT_IN_USE);
}

#[test]
#[ignore = "run by the test above: it aborts"]
fn freed_twice_into_a_full_array() {
    let bed = bed();
    let objects = objects(&bed, 2 * ROOM);
    let class = quarry_mm::heap::classes::of(SIZE);
    let level = || bed.stack.percpu().usage(class.array()).level;
    for (index, &object) in objects.iter().enumerate() {
        // SAFETY: each object was live and is freed once.
        unsafe { bed.stack.free(object) };
        if level() == ROOM as u64 {
            // SAFETY: the tested error; the object leaves the array in the sheaf that makes room.
            unsafe { free(&bed, objects[index - 40]) }
        }
    }
}

#[test]
fn never_allocated() {
    aborts("freed_without_being_allocated", NOT_IN_USE);
}

/// A refill has brought the object to the CPU, whose next request would get it.
#[test]
#[ignore = "run by the test above: it aborts"]
fn freed_without_being_allocated() {
    let bed = bed();
    let object = objects(&bed, 1)[0];
    // SAFETY: this is the tested error; the slab has more objects.
    unsafe { free(&bed, object.add(SIZE)) }
}

#[test]
fn twice_on_two_cpus_and_then_a_shrink() {
    aborts("freed_on_two_cpus", NOT_IN_USE);
}

#[test]
#[ignore = "run by the test above: it aborts"]
fn freed_on_two_cpus() {
    let bed = bed();
    let object = objects(&bed, 1)[0];
    for cpu in 0..2 {
        on_cpu(cpu);
        // SAFETY: the first free is sound; the second is the tested error.
        unsafe { bed.stack.free(object) };
    }
    let _ = bed.stack.trim();
}

#[test]
fn twice_after_the_slab_has_gone() {
    aborts("freed_after_the_slab", NO_BLOCK);
}

#[test]
#[ignore = "run by the test above: it aborts"]
fn freed_after_the_slab() {
    let bed = bed();
    let object = objects(&bed, 1)[0];
    // SAFETY: the first free is sound; the second is the tested error.
    unsafe {
        bed.stack.free(object);
        let _ = bed.stack.trim();
        free(&bed, object)
    }
}

#[test]
fn the_start_of_a_slab() {
    aborts("freed_header", "): pointer into the middle of an object of 48 bytes");
}

#[test]
#[ignore = "run by the test above: it aborts"]
fn freed_header() {
    let bed = bed();
    let object = objects(&bed, 1)[0];
    let start = (object.as_ptr() as usize & !0x3fff) as *mut u8;
    // SAFETY: this is the tested error.
    unsafe { free(&bed, Object::new(start).expect("not null")) }
}

#[test]
fn twice_by_a_thread_without_registration() {
    aborts("freed_twice_unregistered", NOT_IN_USE);
}

struct NativeConfig;

impl StackConfig for NativeConfig {
    type PerCpu = NativeSlots;
    type Slab = Sheaf;
    type Pages = V6_18;
    type Cache = ();
    type Watch = AllInstruments;
}

#[test]
#[ignore = "run by the test above: it aborts"]
fn freed_twice_unregistered() {
    unregister();
    let os = Box::leak(Box::new(TestOs::new(Backing::Linux, 4096)));
    let options = StackOptions { heap: true, ..small() };
    let bed = Bed::<NativeConfig>::on(os, &options, |_| {}).expect("a system that fails nowhere");
    let object = bed.stack.alloc(SIZE).expect("there is memory");
    // SAFETY: the first free is sound; the second is the tested error.
    unsafe {
        bed.stack.free(object);
        free(&bed, object)
    }
}

/// Writes `byte` after the last object of a slab whose next slab has live objects of `size` bytes
/// too. Frees one of these, so that the next requests take objects of that slab, and allocates.
fn written_past_a_slab(size: usize, byte: u8) {
    let bed = bed();
    let slab = 16 << 10;
    let allocate = |count| (0..count).map(|_| bed.stack.alloc(size).expect("there is memory"));
    let mut live: Vec<Object> = allocate(3000).collect();
    let address = |object: &Object| object.as_ptr() as usize;
    let is_last = |object: &&Object| {
        let end = address(object) + size;
        end.is_multiple_of(slab) && live.iter().any(|other| address(other) / slab == end / slab)
    };
    let last = *live.iter().find(is_last).expect("two slabs are neighbours");
    println!("{last:p}");
    // SAFETY: not given, but the slab after the object is mapped.
    unsafe { last.add(size).write(byte) };
    let behind = (address(&last) + size) / slab;
    let freed = live.iter().rposition(|other| address(other) / slab == behind).expect("one");
    // SAFETY: the object was live and is freed once.
    unsafe { bed.stack.free(live.swap_remove(freed)) };
    bed.stack.cache(quarry_mm::heap::classes::of(size)).shrink();
    live.extend(allocate(300));
    let (count, mut addresses) = (live.len(), live);
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), count, "an object has two owners");
    assert_eq!(bed.stack.validate(), Ok(()));
}

#[test]
fn a_byte_past_the_last_object_reaches_bits() {
    for test in ["overflow_into_bits_of_ones", "overflow_into_bits_of_zeros"] {
        aborts(test, ": overwritten, probably past the end of an object of 16 bytes at 0x");
    }
}

#[test]
#[ignore = "run by the test above: it aborts"]
fn overflow_into_bits_of_ones() {
    written_past_a_slab(16, 0xff);
}

#[test]
#[ignore = "run by the test above: it aborts"]
fn overflow_into_bits_of_zeros() {
    written_past_a_slab(16, 1);
}

/// If a slab has unused bytes, its bits lie after them, so a byte of overflow reaches no bit.
#[test]
fn a_byte_past_the_last_object_reaches_nothing() {
    for byte in [0, 1, 0xff] {
        written_past_a_slab(SIZE, byte);
    }
}
