//! The memory that many CPUs keep together, and the cost of its reclaim.

use crate::support::{Backing, Bed, TestOs, VirtualConfig, on_cpu, small};
use quarry_mm::heap::classes;
use quarry_mm::heap::options::StackOptions;
use quarry_mm::pcp::V6_18;
use quarry_mm::slab::CacheParams;
use quarry_mm::slab::Sheaf;
use quarry_mm::slab::{CacheId, CacheOptions};
use quarry_mm::stack::{ReclaimState, Stack, StackConfig, StackHost};
use quarry_sys::percpu::{ArrayId, NativeSlots, PerCpu, SlotIndex};
use quarry_watch::AllInstruments;
use std::sync::mpsc;
use std::thread;

type SheafBed = Bed<VirtualConfig<Sheaf>>;

const CPUS: u32 = 64;
const MIB: usize = 1 << 20;
/// Bytes that arrays may hold: at most on all CPUs, at most on one CPU, at least on each CPU.
const ALL: usize = 32 * MIB;
const CPU_MOST: usize = 16 * MIB;
const CPU_LEAST: usize = MIB / 4;

fn bed() -> SheafBed {
    let mut options = StackOptions { heap: true, ..small() };
    options.pages.reserve_bytes = 4 << 30;
    options.pages.declared_cpus = CPUS;
    SheafBed::new(Backing::Linux, 4096, CPUS, &options)
}

/// Allocates `count` objects of a class on the running CPU and frees them there: more objects than
/// the CPU's array holds, so the array is full afterwards.
fn fill<C: StackConfig>(stack: &Stack<C>, class: usize, count: usize) {
    let objects: Vec<_> = (0..count)
        .map(|_| stack.alloc(classes::SIZES[class] as usize).expect("there is memory"))
        .collect();
    for object in objects {
        // SAFETY: the object was just allocated, and no other code uses it.
        unsafe { stack.free(object) };
    }
}

/// Fills the running CPU's arrays one after the other, several times, so that each grows.
fn fill_all(bed: &SheafBed) {
    for _ in 0..3 {
        (1..=classes::COUNT).for_each(|class| fill(&bed.stack, class, 200));
    }
}

#[test]
fn the_arrays_of_many_cpus_are_bounded() {
    let bed = bed();
    for cpu in 0..CPUS {
        on_cpu(cpu);
        fill_all(&bed);
    }
    assert_eq!(bed.stack.validate(), Ok(()));
    let parked = bed.stack.stats().memory.parked;
    // Barns may hold as much as all arrays.
    let most = 2 * ALL + CPUS as usize * CPU_LEAST;
    assert!(parked <= most, "{} MiB are parked, of {}", parked / MIB, most / MIB);
    // The bytes that each barn announces are correct to within 64 KiB.
    let counted = bed.stack.limits.barns() + bed.stack.percpu().area().held_bytes();
    assert!(counted.abs_diff(parked) <= classes::COUNT << 16, "{counted} bytes of {parked}");
    let area = bed.stack.percpu().area();
    assert!(area.held_bytes() <= area.all_room());
    assert!(area.all_room() <= ALL + CPUS as usize * CPU_LEAST, "{} bytes", area.all_room());
    assert!(area.held_bytes() >= ALL / 2, "what may be kept is kept: {}", area.held_bytes());
    bed.assert_empty(&[]);
}

/// Lets some CPUs do the work of all in turn, and returns the bytes parked.
fn parked_by(bed: &SheafBed, cpus: u32) -> usize {
    for turn in 0..CPUS {
        on_cpu(turn % cpus);
        fill_all(bed);
    }
    assert_eq!(bed.stack.validate(), Ok(()));
    bed.stack.stats().memory.parked
}

/// Threads with the time of two CPUs move over all 64, and park no more than four CPUs do.
#[test]
fn a_quota_bounds_what_many_cpus_park() {
    let (few, many) = (bed(), bed());
    // A barn announces its bytes to within 64 KiB.
    let most = parked_by(&few, 4) + (classes::COUNT << 16);
    many.stack.limits.bound_cpus(Some(4));
    let parked = parked_by(&many, CPUS);
    let room = |bed: &SheafBed| bed.stack.percpu().area().all_room();
    assert!(room(&many) <= room(&few), "{} bytes of room, not {}", room(&many), room(&few));
    assert!(parked <= most, "{} MiB are parked, of {}", parked / MIB, most / MIB);
    few.assert_empty(&[]);
    many.assert_empty(&[]);
}

/// A quota that comes later takes room from the CPUs; without a quota they get it again.
#[test]
fn a_quota_may_come_and_go() {
    let bed = bed();
    let room = || bed.stack.percpu().area().all_room();
    let _ = parked_by(&bed, 16);
    assert!(room() > ALL * 3 / 4, "what may be kept is kept: {}", room());
    bed.stack.limits.bound_cpus(Some(4));
    let mut state = ReclaimState::new();
    while room() > ALL / 2 + 4 * CPU_LEAST {
        let before = room();
        bed.stack.look(&mut state, 0, 0);
        for cpu in 0..16 {
            on_cpu(cpu);
            fill(&bed.stack, 1, 40);
        }
        assert!(room() < before, "{before} bytes stay");
    }
    bed.stack.limits.bound_cpus(None);
    let _ = parked_by(&bed, 16);
    assert!(room() > ALL / 2 + 4 * CPU_LEAST, "{} bytes", room());
    bed.assert_empty(&[]);
}

#[test]
fn the_arrays_of_one_cpu_are_bounded() {
    let bed = bed();
    on_cpu(5);
    fill_all(&bed);
    let area = bed.stack.percpu().area();
    let room = area.slot_room(SlotIndex(5));
    assert!(room <= CPU_MOST && room == area.all_room(), "{room} bytes");
    assert!(area.held_bytes() >= CPU_MOST / 2, "what may be kept is kept");
    assert_eq!(bed.stack.validate(), Ok(()));
    // If a CPU's arrays have all the room that they may have, one still gives room to another.
    let array = |class| CacheId::new(class).array();
    for class in (1..=classes::COUNT).rev() {
        // The search for room passes over an array once if it was used since the last search.
        (0..4).for_each(|_| fill(&bed.stack, class, 200));
        assert!(area.room(SlotIndex(5), array(class)) >= 8, "class {class} has no room");
        assert!(area.slot_room(SlotIndex(5)) <= CPU_MOST);
    }
    assert_eq!(bed.stack.validate(), Ok(()));
    bed.assert_empty(&[]);
}

/// An array that exchanges much with the barn becomes wide; turns from empty to full widen it more.
#[test]
fn an_array_becomes_as_wide_as_its_work_needs() {
    let bed = bed();
    let class = classes::SIZES.iter().position(|size| *size == 64).expect("a class");
    let area = bed.stack.percpu().area();
    let room = |cpu| area.room(SlotIndex(cpu), CacheId::new(class).array());
    for _ in 0..20 {
        on_cpu(1);
        let objects: Vec<_> = (0..3000).map(|_| bed.stack.alloc(64).expect("memory")).collect();
        on_cpu(2);
        for object in objects {
            // SAFETY: the object was just allocated, and no other code uses it.
            unsafe { bed.stack.free(object) };
        }
    }
    assert_eq!([room(1), room(2)], [1024; 2], "they only exchange");
    (0..4).for_each(|_| fill(&bed.stack, class, 3000));
    assert_eq!([room(1), room(2)], [1024, 4096], "one has bursts");
    assert_eq!(bed.stack.validate(), Ok(()));
    bed.assert_empty(&[]);
}

/// At a look, the CPUs that came first give room to CPUs that have hardly any.
#[test]
fn who_came_late_gets_a_share() {
    let bed = bed();
    let mut state = ReclaimState::new();
    for cpu in 0..8 {
        on_cpu(cpu);
        fill_all(&bed);
    }
    let area = bed.stack.percpu().area();
    let room = || area.slot_room(SlotIndex(63));
    on_cpu(63);
    // A reap of idle caches may have given this CPU room already.
    fill_all(&bed);
    for _ in 0..8 {
        bed.stack.look(&mut state, 0, 0);
        for cpu in (0..8).chain([63]) {
            on_cpu(cpu);
            fill(&bed.stack, 1, 40);
        }
        fill_all(&bed);
    }
    assert!(room() >= 8 * CPU_LEAST, "{} bytes", room());
    assert_eq!(bed.stack.validate(), Ok(()));
    bed.assert_empty(&[]);
}

/// Returns whether the first page of a slot is in memory.
fn is_touched(bed: &SheafBed, cpu: u32) -> bool {
    let word = bed.stack.percpu().area().word(SlotIndex(cpu), ArrayId::new(1), 0);
    let page = (word.as_ptr() as usize & !4095) as *mut libc::c_void;
    let mut resident = 0u8;
    // SAFETY: the page is part of the slots' reservation, and one byte is written.
    assert_eq!(unsafe { libc::mincore(page, 4096, &raw mut resident) }, 0);
    resident & 1 == 1
}

/// A look touches no slot that was never used. Once a look has emptied a slot, later looks pass
/// over the slot until it is used again.
#[test]
fn idle_cpus_are_not_looked_at() {
    let bed = bed();
    let mut state = ReclaimState::new();
    on_cpu(1);
    fill(&bed.stack, 5, 200);
    let area = bed.stack.percpu().area();
    let awake = || area.awake().map(|slot| slot.0).collect::<Vec<_>>();
    for expected in [vec![1], vec![], vec![]] {
        bed.stack.look(&mut state, 0, 0);
        let stats = bed.stack.cache(CacheId::new(5)).stats();
        assert_eq!(stats.alloc_fast + stats.alloc_slow, 200, "what a slot has counted stays");
        assert_eq!(awake(), expected);
    }
    assert_eq!(
        (area.all_room(), (bed.stack.limits.barns() + bed.stack.percpu().area().held_bytes())),
        (0, 0)
    );
    on_cpu(2);
    fill(&bed.stack, 5, 200);
    on_cpu(1);
    fill(&bed.stack, 5, 200);
    assert_eq!((awake(), area.awake_slots()), (vec![1, 2], 2));
    bed.stack.look(&mut state, 0, 0);
    assert_eq!(awake(), [1, 2], "both have been used again");
    let touched: Vec<u32> = (0..CPUS).filter(|cpu| is_touched(&bed, *cpu)).collect();
    // Slot 0 is populated when the stack starts.
    assert_eq!(touched, [0, 1, 2]);
    assert_eq!(bed.stack.validate(), Ok(()));
    bed.assert_empty(&[]);
}

struct Native;

impl StackConfig for Native {
    type PerCpu = NativeSlots;
    type Slab = Sheaf;
    type Pages = V6_18;
    type Cache = ();
    type Watch = AllInstruments;
}

/// However many caches and CPUs give up objects, a look stops the CPUs once.
#[test]
fn a_look_makes_one_barrier() {
    let os = Box::leak(Box::new(TestOs::new(Backing::Linux, 4096)));
    let bed = Bed::<Native>::on(os, &small(), |_| {}).expect("a system that fails nowhere");
    let caches: Vec<CacheId> = (1..=20)
        .map(|number| {
            let params = CacheParams { size: 16 * number, align: 16 };
            bed.stack
                .create_cache("many", &params, &CacheOptions::default())
                .expect("there is room")
        })
        .collect();
    let park = |id| {
        let object = bed.stack.cache(id).alloc().expect("there is memory");
        // SAFETY: the object was just allocated, and no other code uses it.
        unsafe { bed.stack.cache(id).free(object) };
    };
    let barriers = || bed.stack.percpu().area().barriers();
    // A second thread, because a process with one thread needs no barrier.
    let (over, wait) = mpsc::channel::<()>();
    let other = thread::spawn(move || wait.recv());
    let mut state = ReclaimState::new();
    for busy in [caches.len(), caches.len() / 2, 0, 0] {
        caches[..busy].iter().for_each(|id| park(*id));
        let before = barriers();
        bed.stack.look(&mut state, 0, 0);
        assert!(barriers() - before <= 1, "{} barriers", barriers() - before);
    }
    let held: u64 = caches.iter().map(|id| bed.stack.cache(*id).stats().parked_objects).sum();
    assert_eq!(held, 0);
    caches.iter().for_each(|id| park(*id));
    let before = barriers();
    let _ = bed.stack.trim();
    assert!(barriers() - before <= 1, "{} barriers", barriers() - before);
    over.send(()).expect("it waits");
    let _ = other.join().expect("no panic");
    bed.assert_empty(&caches);
}
