//! In each run one system call fails; in further runs one call and all later ones. The stack
//! refuses requests, loses nothing, and goes on once the system does. `TEST_STEP=N` tests only
//! every N-th call.

use crate::support::{Backing, Bed, Oracle, VirtualConfig, on_cpu, pattern, small};
use quarry_mm::heap::LARGEST_BLOCK;
use quarry_mm::heap::options::StackOptions;
use quarry_mm::slab::SlabPolicy;
use quarry_mm::stack::Request;
use quarry_sys::percpu::VirtualSlots;

/// Makes the tests that every policy must pass.
macro_rules! stamp {
    ($($policy:ident: $text:literal, $type:ty;)*) => {
        $(
            mod $policy {
                #[test]
                fn one_call_fails() {
                    super::one_call_fails::<$type>();
                }

                #[test]
                fn all_calls_fail_from_one_on() {
                    super::all_calls_fail_from_one_on::<$type>();
                }

                #[test]
                fn a_fake_system_fails_too() {
                    super::a_fake_system_fails_too::<$type>();
                }
            }
        )*
    };
}

slab_policies!(stamp);
stamp! { direct: "direct", crate::support::Direct; }

/// The distance between the calls that fail.
fn test_step() -> usize {
    std::env::var("TEST_STEP").map_or(1, |text| text.parse().expect("TEST_STEP is a number"))
}

type HeapBed<S> = Bed<VirtualConfig<S>>;

/// A slab policy on virtual CPUs.
trait Policy: SlabPolicy<VirtualSlots> + 'static {}

impl<S: SlabPolicy<VirtualSlots> + 'static> Policy for S {}

fn options() -> StackOptions {
    let mut options = StackOptions { heap: true, ..small() };
    // Twice the window that a run needs: if the first window fails, the stack takes half of it.
    options.pages.reserve_bytes = 256 << 20;
    options
}

/// A short run that makes every kind of system call that a stack ever makes. Returns how many
/// requests were refused.
fn play<S: Policy>(bed: &HeapBed<S>, oracle: &mut Oracle) -> u32 {
    let stack = &bed.stack;
    let mut refused = 0;
    let sizes = [16, 200, 5000, 30_000, 100_000, 700_000, LARGEST_BLOCK + 1];
    for (round, cpu) in [0, 1, 0].into_iter().enumerate() {
        on_cpu(cpu);
        for size in sizes {
            for _ in 0..if size < 1000 { 80 } else { 1 } {
                refused += alloc_zeroed(bed, oracle, size);
            }
        }
        for number in (0..oracle.len()).rev().step_by(5) {
            refused += resize(bed, oracle, number, round);
        }
        if round == 0 {
            refused += move_mappings(bed, oracle);
        }
        on_cpu(cpu + 1);
        for number in 0..oracle.len() / 2 {
            let live = oracle.remove(number * 5).expect("there is something left");
            // SAFETY: the object was live, and only the oracle knew it.
            unsafe { stack.free(live.object) };
        }
        if round == 1 {
            let _ = stack.trim();
        }
    }
    refused
}

/// Makes neighbouring mappings. The lower ones can grow only if their pages move.
fn move_mappings<S: Policy>(bed: &HeapBed<S>, oracle: &mut Oracle) -> u32 {
    let mut refused = 0;
    let first = oracle.len();
    for _ in 0..3 {
        let size = LARGEST_BLOCK + 1;
        match bed.stack.alloc(size) {
            Some(object) => {
                oracle.insert(object, size, bed.stack.usable_size(object).unwrap(), 16, 0)
            }
            None => refused += 1,
        }
    }
    for number in first..oracle.len() {
        let live = oracle.pick(number).expect("it is live");
        refused += resize_to(bed, oracle, number, live.size * 2);
    }
    // The memory of a freed mapping serves a larger one.
    if let Some(live) = oracle.remove(first) {
        // SAFETY: the object was live, and only the oracle knew it.
        unsafe { bed.stack.free(live.object) };
        refused += alloc_zeroed(bed, oracle, 3 * live.size);
    }
    refused
}

/// Allocates zeroed bytes; returns 1 if the request was refused.
fn alloc_zeroed<S: Policy>(bed: &HeapBed<S>, oracle: &mut Oracle, size: usize) -> u32 {
    let Some(object) = bed.stack.alloc(Request::of(size).zeroed()) else { return 1 };
    assert!(pattern::is_zero(object, size), "calloc of {size} is not zero");
    oracle.insert(object, size, bed.stack.usable_size(object).unwrap(), 16, 0);
    0
}

/// Makes an allocation larger or smaller; returns 1 if the request was refused.
fn resize<S: Policy>(bed: &HeapBed<S>, oracle: &mut Oracle, number: usize, round: usize) -> u32 {
    let Some(live) = oracle.pick(number) else { return 0 };
    let size = if (number + round).is_multiple_of(3) { live.size / 3 } else { live.size * 2 };
    resize_to(bed, oracle, number, size)
}

fn resize_to<S: Policy>(bed: &HeapBed<S>, oracle: &mut Oracle, number: usize, size: usize) -> u32 {
    let Some(live) = oracle.pick(number) else { return 0 };
    // SAFETY: the object is live, and only the oracle knows it; a refused realloc does not free it.
    match unsafe { bed.stack.realloc(live.object, size) } {
        Some(moved) => {
            let kept = live.bytes.min(size);
            assert!(pattern::holds(moved, kept, live.tag), "{live:?} to {size} lost bytes");
            oracle.forget(&live);
            oracle.insert(moved, size, bed.stack.usable_size(moved).unwrap(), 16, 0);
            0
        }
        None => {
            assert!(size > live.size, "{live:?} was refused less than it has");
            oracle.check(&live, live.bytes);
            1
        }
    }
}

fn free_all<S: Policy>(bed: &HeapBed<S>, oracle: &mut Oracle) {
    while let Some(live) = oracle.remove(0) {
        // SAFETY: the object was live, and only the oracle knew it.
        unsafe { bed.stack.free(live.object) };
    }
}

/// Number of system calls of a whole run, including those that build the stack.
fn calls_of_a_run<S: Policy>(backing: Backing) -> (u64, u64) {
    let bed = HeapBed::<S>::cold(backing, 4096, 2);
    bed.stack
        .init(bed.os, &options(), &Default::default())
        .expect("a system on which nothing fails");
    let built = bed.os.calls();
    let mut oracle = Oracle::default();
    assert_eq!(play(&bed, &mut oracle), 0, "a system on which nothing fails refuses nothing");
    (built, bed.os.calls())
}

/// Makes `count` system calls of a run fail, beginning with the `nth`.
fn run_failing<S: Policy>(backing: Backing, nth: u64, count: u64) -> u32 {
    let bed = HeapBed::<S>::cold(backing, 4096, 2);
    bed.os.fail(nth, count);
    let mut oracle = Oracle::default();
    let built = bed.stack.init(bed.os, &options(), &Default::default()).is_ok();
    let mut refused = 0;
    if built {
        refused = play(&bed, &mut oracle);
        assert_eq!(bed.stack.validate(), Ok(()), "after failure of call {nth}");
        oracle.check_all();
        bed.os.succeed();
        free_all(&bed, &mut oracle);
    } else {
        assert_eq!(bed.stack.alloc(100), None, "a stack that could not be built refuses");
        bed.os.succeed();
        bed.stack.init(bed.os, &options(), &Default::default()).expect("init may be tried again");
    }
    assert_eq!(play(&bed, &mut oracle), 0, "the stack goes on after failure of call {nth}");
    free_all(&bed, &mut oracle);
    assert_eq!(bed.stack.validate(), Ok(()), "after failure of call {nth}");
    bed.assert_empty(&[]);
    refused
}

fn one_call_fails<S: Policy>() {
    let (built, calls) = calls_of_a_run::<S>(Backing::Linux);
    println!("{calls} calls, {built} of them to build the stack");
    assert!(calls > built + 20, "{calls} calls, {built} of them to build the stack");
    for nth in (1..=calls).step_by(test_step()) {
        run_failing::<S>(Backing::Linux, nth, 1);
    }
}

fn all_calls_fail_from_one_on<S: Policy>() {
    let (built, calls) = calls_of_a_run::<S>(Backing::Linux);
    let mut refused = 0;
    for nth in (1..=calls).step_by(2 * test_step()) {
        refused += run_failing::<S>(Backing::Linux, nth, u64::MAX);
    }
    assert!(refused > 0, "{calls} calls, {built} of them to build the stack");
}

fn a_fake_system_fails_too<S: Policy>() {
    let (_, calls) = calls_of_a_run::<S>(Backing::Fake);
    for nth in (1..=calls).step_by(8 * test_step()) {
        run_failing::<S>(Backing::Fake, nth, 1);
    }
}
