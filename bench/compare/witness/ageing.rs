//! Ages the heap before the program's `main`: allocates and frees by the program's own histogram of
//! sizes and lifetimes, through the `malloc` that the program will call, until the memory that
//! remains is stationary.
//!
//! Work comes in *bursts*. In a burst blocks are allocated until the clock of bytes has reached the
//! burst's length, and each block is freed when its lifetime is over. After the burst, three of
//! four blocks in use are freed, at random, whatever their lifetimes. The resident memory then is
//! compared with that after earlier bursts. What is left of the last burst stays in use; its bytes
//! are reported, to be taken out of the account, as are the time and page faults of all this.

use crate::layout;
use core::ffi::{c_int, c_long, c_void};
use core::ptr;

unsafe extern "C" {
    // The allocator's, as the program will find it: this object has none.
    fn malloc(size: usize) -> *mut c_void;
    fn free(block: *mut c_void);
    fn munmap(place: *mut c_void, length: usize) -> c_int;
    fn memset(place: *mut c_void, byte: c_int, length: usize) -> *mut c_void;
    fn write(descriptor: c_int, buffer: *const c_void, size: usize) -> isize;
    fn getrusage(who: c_int, usage: *mut Usage) -> c_int;
    fn clock_gettime(clock: c_int, time: *mut [i64; 2]) -> c_int;
    fn prctl(option: c_int, ...) -> c_int;
}

/// `struct rusage`: two times, then fourteen numbers.
#[repr(C)]
struct Usage {
    user: [i64; 2],
    system: [i64; 2],
    numbers: [c_long; 14],
}

const MINOR_FAULTS: usize = 4;
const MAJOR_FAULTS: usize = 5;
const VOLUNTARY_SWITCHES: usize = 12;
const INVOLUNTARY_SWITCHES: usize = 13;

const PR_SET_NAME: c_int = 15;
const PR_GET_NAME: c_int = 16;
const O_WRONLY_CLOEXEC: c_int = 0o2_000_001;
const MAP_PRIVATE_ANONYMOUS_NORESERVE: c_int = 0x4022;
const CLOCK_MONOTONIC: c_int = 1;
const CLOCK_PROCESS_CPUTIME_ID: c_int = 2;

/// Most blocks in use; then the one that would end first is freed.
const MOST_LIVE: usize = 1 << 22;
const LEAST_BURSTS: usize = 6;
const MOST_BURSTS: usize = 32;
/// Bursts whose memory must agree, within a 50th.
const AGREEING: usize = 4;
const TOLERANCE: u64 = 50;
/// Ageing ends after this CPU time, stationary or not.
const LONGEST_NS: u64 = 5_000_000_000;

#[derive(Clone, Copy)]
struct Live {
    due: u64,
    block: *mut c_void,
    size: u64,
}

/// The blocks in use, as a heap: the one that ends first is at the root.
struct Heap {
    blocks: *mut Live,
    count: usize,
    random: u64,
}

impl Heap {
    fn at(&mut self, index: usize) -> &mut Live {
        debug_assert!(index < MOST_LIVE);
        // SAFETY: the mapping has `MOST_LIVE` places, and nothing else uses it.
        unsafe { &mut *self.blocks.add(index) }
    }

    fn push(&mut self, new: Live) {
        if self.count == MOST_LIVE {
            self.free_first();
        }
        let mut at = self.count;
        self.count += 1;
        while at > 0 && self.at((at - 1) / 2).due > new.due {
            *self.at(at) = *self.at((at - 1) / 2);
            at = (at - 1) / 2;
        }
        *self.at(at) = new;
    }

    /// Frees the block that ends first; there is one.
    fn free_first(&mut self) {
        let first = *self.at(0);
        self.count -= 1;
        if self.count > 0 {
            let last = *self.at(self.count);
            self.sink(0, last);
        }
        // SAFETY: `malloc` has returned it, and it is no longer in the heap.
        unsafe { free(first.block) };
    }

    /// Puts `moved` below `at`, where its place is.
    fn sink(&mut self, mut at: usize, moved: Live) {
        loop {
            let mut child = 2 * at + 1;
            if child >= self.count {
                break;
            }
            if child + 1 < self.count && self.at(child + 1).due < self.at(child).due {
                child += 1;
            }
            if self.at(child).due >= moved.due {
                break;
            }
            *self.at(at) = *self.at(child);
            at = child;
        }
        *self.at(at) = moved;
    }

    /// Frees three of four blocks, at random, in the order of the heap.
    fn thin(&mut self) {
        let mut kept = 0;
        for index in 0..self.count {
            let one = *self.at(index);
            if self.random() >> 62 == 0 {
                *self.at(kept) = one;
                kept += 1;
            } else {
                // SAFETY: `malloc` has returned it, and it is not kept.
                unsafe { free(one.block) };
            }
        }
        self.count = kept;
        for at in (0..kept / 2).rev() {
            let moved = *self.at(at);
            self.sink(at, moved);
        }
    }

    /// The next number of a generator (xorshift*).
    fn random(&mut self) -> u64 {
        let mut state = self.random;
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.random = state;
        state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

/// Ages the heap by a plan, if this is the program that the plan is for.
///
/// # Safety
/// `slot` is a slot of a mapped file, with the path of the executable; no other thread runs.
pub(crate) unsafe fn start(slot: *mut u8) {
    // SAFETY: the name is NUL-terminated; the path comes from the environment.
    unsafe {
        let path = super::getenv(layout::AGE_VARIABLE.as_ptr());
        if path.is_null() {
            return;
        }
        let descriptor = super::open(path, super::O_RDONLY_CLOEXEC);
        if descriptor < 0 {
            return;
        }
        let length = layout::PLAN_BYTES;
        let plan = super::mmap(ptr::null_mut(), length, 1, super::MAP_SHARED, descriptor, 0);
        super::close(descriptor);
        if plan as isize == -1 {
            return;
        }
        if is_for(plan.cast(), slot.add(layout::EXECUTABLE)) {
            let mut name = [0u8; 16];
            prctl(PR_GET_NAME, name.as_mut_ptr());
            prctl(PR_SET_NAME, layout::AGEING.as_ptr());
            age(plan.cast::<u8>().add(layout::PATH_BYTES).cast(), slot);
            prctl(PR_SET_NAME, name.as_ptr());
        }
        munmap(plan, length);
    }
}

/// # Safety
/// Both are readable for `PATH_BYTES`.
unsafe fn is_for(plan: *const u8, executable: *const u8) -> bool {
    // SAFETY: the promise of the caller.
    (0..layout::PATH_BYTES).all(|at| unsafe { *plan.add(at) == *executable.add(at) })
}

/// # Safety
/// `plan` has the length of a burst, then `DRAWS` pairs of size and lifetime. `slot` as above.
unsafe fn age(plan: *const u64, slot: *mut u8) {
    let from = now_ns(CLOCK_MONOTONIC);
    let bytes = MOST_LIVE * size_of::<Live>();
    // SAFETY: a new private mapping; the plan is as long as promised.
    unsafe {
        let place = super::mmap(
            ptr::null_mut(),
            bytes,
            super::PROT_READ_WRITE,
            MAP_PRIVATE_ANONYMOUS_NORESERVE,
            -1,
            0,
        );
        if place as isize == -1 {
            return;
        }
        let mut heap = Heap { blocks: place.cast(), count: 0, random: 0x9E37_79B9_7F4A_7C15 };
        let (mut clock, mut memory) = (0, [0; AGREEING]);
        for burst in 0..MOST_BURSTS {
            if !run(plan, &mut heap, &mut clock) {
                break;
            }
            heap.thin();
            memory[burst % AGREEING] = resident();
            let (least, most) = (memory.iter().min(), memory.iter().max());
            let spread = most.zip(least).map_or(0, |(most, least)| (most - least) * TOLERANCE);
            let is_stationary = burst + 1 >= LEAST_BURSTS && spread <= memory[0];
            if is_stationary || now_ns(CLOCK_PROCESS_CPUTIME_ID) > LONGEST_NS {
                break;
            }
        }
        let mut kept = 0;
        for index in 0..heap.count {
            kept += heap.at(index).size;
        }
        munmap(place, bytes);
        report(slot, from, kept);
    }
}

/// One burst; false if the allocator has no more memory.
///
/// # Safety
/// As for `age`.
unsafe fn run(plan: *const u64, heap: &mut Heap, clock: &mut u64) -> bool {
    // SAFETY: the promise of the caller; the memory that `malloc` returns is writable.
    unsafe {
        let end = *clock + *plan;
        while *clock < end {
            let draw = 1 + 2 * (heap.random() as usize % layout::DRAWS);
            let (size, lifetime) = (*plan.add(draw), *plan.add(draw + 1));
            let block = malloc(size as usize);
            if block.is_null() {
                return false;
            }
            memset(block, 1, size as usize);
            *clock += size;
            heap.push(Live { due: clock.saturating_add(lifetime), block, size });
            while heap.count > 0 && heap.at(0).due <= *clock {
                heap.free_first();
            }
        }
    }
    true
}

/// Writes what ageing has cost, and lets the peak of memory begin anew.
///
/// # Safety
/// `slot` is a slot of a mapped file.
unsafe fn report(slot: *mut u8, from: u64, kept: u64) {
    let mut usage = Usage { user: [0; 2], system: [0; 2], numbers: [0; 14] };
    // SAFETY: `usage` is writable and as long as the kernel's; the fields lie in the slot.
    unsafe {
        let file = super::open(c"/proc/self/clear_refs".as_ptr(), O_WRONLY_CLOEXEC);
        if file >= 0 {
            write(file, c"5".as_ptr().cast(), 1);
            super::close(file);
        }
        getrusage(0, &mut usage);
        let ns = |time: [i64; 2]| (time[0] * 1_000_000_000 + time[1] * 1000) as u64;
        let number = |at: usize| usage.numbers[at] as u64;
        let fields: [u64; layout::AGED_FIELDS] = [
            kept,
            from,
            now_ns(CLOCK_MONOTONIC),
            ns(usage.user),
            ns(usage.system),
            number(MINOR_FAULTS) + number(MAJOR_FAULTS),
            number(VOLUNTARY_SWITCHES) + number(INVOLUNTARY_SWITCHES),
            number(INVOLUNTARY_SWITCHES),
        ];
        for (at, value) in fields.into_iter().enumerate() {
            slot.add(layout::AGED).cast::<u64>().add(at).write(value);
        }
    }
}

fn now_ns(clock: c_int) -> u64 {
    let mut time = [0; 2];
    // SAFETY: `time` is writable.
    unsafe { clock_gettime(clock, &mut time) };
    time[0] as u64 * 1_000_000_000 + time[1] as u64
}

/// Resident pages.
fn resident() -> u64 {
    let mut text = [0u8; 4096];
    super::number_after(b" ", super::file(c"/proc/self/statm", &mut text))
}
