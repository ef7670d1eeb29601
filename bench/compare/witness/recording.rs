//! The sizes and lifetimes of a program's blocks, counted while its calls are counted. The file
//! `VARIABLE.PID` gets the counts: it is mapped, so it holds them however the process ends.
//!
//! A lifetime is the number of bytes that the process asks for between a block's allocation and its
//! end. A table has the blocks in use. A thread that waits for the table's lock too long, such as
//! one in a forked child whose parent's other thread held it, gives up, and its block is not
//! followed.

use crate::layout;
use core::ffi::{c_char, c_int, c_long, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

unsafe extern "C" {
    fn ftruncate(descriptor: c_int, length: c_long) -> c_int;
}

const O_RDWR_CREAT_TRUNC_CLOEXEC: c_int = 0o2_001_102;
const MAP_PRIVATE_ANONYMOUS_NORESERVE: c_int = 0x4022;
/// Entries of the table; at most three quarters are used.
const ENTRIES: usize = 1 << 21;
const MOST_USED: usize = ENTRIES / 4 * 3;
const MOST_SPINS: usize = 100_000;

#[derive(Clone, Copy)]
struct Entry {
    block: usize,
    /// Bytes that had been asked for before; the class of its size is in the low bits.
    born: u64,
}

static IS_LOCKED: AtomicBool = AtomicBool::new(false);
/// The mapped file; null until recording begins.
static COUNTS: AtomicPtr<u64> = AtomicPtr::new(ptr::null_mut());
static TABLE: AtomicPtr<Entry> = AtomicPtr::new(ptr::null_mut());

/// Begins to record.
///
/// # Safety
/// `path` is a NUL-terminated string of at most `PATH_BYTES`, and `executable` one of at most as
/// many; no other thread runs.
pub(crate) unsafe fn start(path: *const c_char, executable: *const c_char, pid: u32) {
    let mut name = [0u8; layout::PATH_BYTES + 16];
    // SAFETY: the promise of the caller; `name` is longer than both parts.
    unsafe {
        let mut length = 0;
        while length < layout::PATH_BYTES && *path.add(length) != 0 {
            name[length] = *path.add(length) as u8;
            length += 1;
        }
        name[length] = b'.';
        write_number(pid, &mut name[length + 1..]);
        let descriptor = super::open(name.as_ptr().cast(), O_RDWR_CREAT_TRUNC_CLOEXEC, 0o600);
        if descriptor < 0 || ftruncate(descriptor, layout::HISTOGRAM_BYTES as c_long) != 0 {
            return;
        }
        let length = layout::HISTOGRAM_BYTES;
        let place = super::mmap(
            ptr::null_mut(),
            length,
            super::PROT_READ_WRITE,
            super::MAP_SHARED,
            descriptor,
            0,
        );
        super::close(descriptor);
        let table = super::mmap(
            ptr::null_mut(),
            ENTRIES * size_of::<Entry>(),
            super::PROT_READ_WRITE,
            MAP_PRIVATE_ANONYMOUS_NORESERVE,
            -1,
            0,
        );
        if place as isize == -1 || table as isize == -1 {
            return;
        }
        ptr::copy_nonoverlapping(executable.cast::<u8>(), place.cast(), layout::PATH_BYTES);
        TABLE.store(table.cast(), Ordering::Release);
        COUNTS.store(place.cast(), Ordering::Release);
    }
}

/// Writes a number in decimal; the rest of `text` is zero already.
fn write_number(number: u32, text: &mut [u8]) {
    let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
    let mut rest = number;
    for at in (0..digits).rev() {
        text[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

/// The counts and the table, locked.
struct Locked {
    counts: *mut u64,
    table: *mut Entry,
}

impl Locked {
    fn take() -> Option<Self> {
        let counts = COUNTS.load(Ordering::Acquire);
        if counts.is_null() {
            return None;
        }
        let mut spins = 0;
        while IS_LOCKED.swap(true, Ordering::Acquire) {
            spins += 1;
            if spins > MOST_SPINS {
                return None;
            }
            core::hint::spin_loop();
        }
        Some(Self { counts, table: TABLE.load(Ordering::Acquire) })
    }

    fn add(&mut self, field: usize, amount: u64) -> u64 {
        // SAFETY: the field lies in the mapping, and the lock makes this its only user.
        unsafe {
            let place = self.counts.add(field);
            let sum = place.read().wrapping_add(amount);
            place.write(sum);
            sum
        }
    }

    fn entry(&mut self, at: usize) -> &mut Entry {
        // SAFETY: the table has `ENTRIES` entries, for which zero is a value, and is locked.
        unsafe { &mut *self.table.add(at % ENTRIES) }
    }

    /// The place of a block, or the free place where its search ends.
    fn place(&mut self, block: usize) -> usize {
        let mut at = home(block);
        while !matches!(self.entry(at).block, 0) && self.entry(at).block != block {
            at = (at + 1) % ENTRIES;
        }
        at
    }

    /// Frees a place, and moves later entries forward that would not be found any more.
    fn vacate(&mut self, mut hole: usize) {
        let mut at = hole;
        loop {
            at = (at + 1) % ENTRIES;
            let entry = *self.entry(at);
            if entry.block == 0 {
                break;
            }
            let distance = at.wrapping_sub(home(entry.block)) % ENTRIES;
            if distance >= at.wrapping_sub(hole) % ENTRIES {
                *self.entry(hole) = entry;
                hole = at;
            }
        }
        *self.entry(hole) = Entry { block: 0, born: 0 };
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        IS_LOCKED.store(false, Ordering::Release);
    }
}

fn home(block: usize) -> usize {
    (block >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20 & (ENTRIES - 1)
}

/// Notes a block of `bytes` with its header that was allocated for a request of `size`, or null.
pub(crate) fn born(block: *mut c_void, size: u64, bytes: u64) {
    if block.is_null() {
        return;
    }
    let Some(mut locked) = Locked::take() else { return };
    let clock = locked.add(layout::CLOCK, size);
    let class = layout::size_class(size);
    let count = locked.add(layout::BORN + class, 1);
    let live = locked.add(layout::LIVE, bytes);
    // SAFETY: as in `add`.
    unsafe {
        let [smallest, largest] =
            [layout::SMALLEST, layout::LARGEST].map(|field| locked.counts.add(field + class));
        smallest.write(if count == 1 { size } else { smallest.read().min(size) });
        largest.write(largest.read().max(size));
        let peak = locked.counts.add(layout::PEAK);
        peak.write(peak.read().max(live));
        if locked.counts.add(layout::FOLLOWED).read() as usize >= MOST_USED {
            return;
        }
    }
    let at = locked.place(block as usize);
    if locked.entry(at).block == 0 {
        locked.add(layout::FOLLOWED, 1);
    }
    *locked.entry(at) = Entry { block: block as usize, born: clock << 8 | class as u64 };
}

/// A block that ends, of `bytes` with its header.
pub(crate) fn died(block: *mut c_void, bytes: u64) {
    if block.is_null() {
        return;
    }
    let Some(mut locked) = Locked::take() else { return };
    locked.add(layout::LIVE, bytes.wrapping_neg());
    let at = locked.place(block as usize);
    let Entry { block: found, born } = *locked.entry(at);
    if found == 0 {
        return;
    }
    let age = locked.add(layout::CLOCK, 0).saturating_sub(born >> 8);
    let (class, age) = ((born & 0xff) as usize, layout::age_class(age));
    locked.add(layout::DIED + class * layout::AGES + age, 1);
    locked.add(layout::FOLLOWED, u64::MAX);
    locked.vacate(at);
}
