//! Linux: `mmap`, `munmap`, `madvise`, `mremap`.
//!
//! Other libraries replace these functions of libc, to learn which memory leaves its addresses.
//! They see all memory of programs that does: for that Quarry calls libc's functions.

#[cfg(feature = "guards")]
use super::system::Guard;
use super::system::{NotMoved, Os};
use crate::confined::is_confined;
use crate::errno::{OsError, OsResult};
use crate::known::Known;
use crate::placement::place;
use crate::primitive::{AtomicBool, AtomicUsize, Ordering};
use crate::random::random;
use crate::system_call::{checked, map, protect, unmap};
use crate::{system_call, topology, watchers};
use core::ptr::NonNull;

/// The real operating system. In a [confined](crate::confined) process it makes only the system
/// calls that the C library's `malloc` makes, and refuses all others (`EPERM`).
pub struct Linux;

fn unconfined() -> OsResult<()> {
    if is_confined() { Err(OsError(libc::EPERM)) } else { Ok(()) }
}

/// # Safety
/// The caller owns the range, and the advice keeps its contents.
unsafe fn advise(address: NonNull<u8>, bytes: usize, advice: i32) -> OsResult<()> {
    unconfined()?;
    // SAFETY: the caller's promise.
    unsafe { system_call::advise(address.as_ptr(), bytes, advice) }
}

/// Bytes of a huge page on x86-64, and on aarch64 with pages of 4 KiB.
const HUGE_BYTES: usize = 2 << 20;

/// Set once the kernel was advised to put memory of Quarry into huge pages.
static IS_ADVISED: AtomicBool = AtomicBool::new(false);

/// Returns whether the kernel may put Quarry's memory into huge pages, on advice or unasked.
fn may_be_huge() -> bool {
    IS_ADVISED.load(Ordering::Relaxed) || gives_huge_unasked()
}

/// Reads `transparent_hugepage/enabled`, only once.
fn gives_huge_unasked() -> bool {
    static KNOWN: Known = Known::new();
    let is_always = || topology::huge_pages() == topology::HugePages::Always;
    !is_confined() && KNOWN.is_true(is_always)
}

/// The page size, from the auxiliary vector. `sysconf` would read 192 KiB of the C library's file
/// into a process that uses them for nothing else.
fn page_size() -> usize {
    static KNOWN: Known = Known::new();
    // SAFETY: getauxval has no preconditions.
    KNOWN.get(|| unsafe { libc::getauxval(libc::AT_PAGESZ) }) as usize
}

fn is_huge_aligned(address: NonNull<u8>, bytes: usize) -> bool {
    (address.as_ptr() as usize | bytes).is_multiple_of(HUGE_BYTES)
}

fn check(result: i32) -> OsResult<()> {
    checked(result.into()).map(drop)
}

const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Makes a private anonymous mapping, at `at` if the addresses are free.
fn map_at(at: usize, bytes: usize, protection: i32, flags: i32) -> OsResult<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: a new mapping that replaces nothing (never MAP_FIXED) touches no live object.
    unsafe { map(at as *mut u8, bytes, protection, flags, -1) }
}

fn map_exactly(at: NonNull<u8>, bytes: usize, protection: i32, flags: i32) -> OsResult<()> {
    let flags = flags | libc::MAP_FIXED_NOREPLACE;
    let got = map_at(at.as_ptr() as usize, bytes, protection, flags)?;
    if got == at {
        return Ok(());
    }
    // Before Linux 4.17 the kernel takes the address for a hint.
    // SAFETY: the mapping just made, which no other code knows.
    unsafe { unmap(got.as_ptr(), bytes) };
    Err(OsError(libc::EEXIST))
}

/// Maps fresh memory where a guard is.
#[cfg(feature = "guards")]
fn replace(at: NonNull<u8>, bytes: usize) -> OsResult<()> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: the caller owns the range, which is empty: no object is replaced.
    unsafe { map(at.as_ptr(), bytes, READ_WRITE, flags, -1) }.map(drop)
}

/// Bytes that the first reservation maps beyond its own, for the next ones: a process makes five,
/// and each mapping takes 2.5 us of its start. Together with the slots they are no multiple of 2
/// MiB: from 6.12 on, Linux aligns multiples, and so keeps them apart from other mappings.
const SPARE_BYTES: usize = (3 << 20) + (64 << 10);

/// The spare bytes that are left, `SPARE..END_OF_SPARE`: the end is 0 before the first reservation,
/// and 1 while no bytes are spare.
static SPARE: AtomicUsize = AtomicUsize::new(0);
static END_OF_SPARE: AtomicUsize = AtomicUsize::new(0);

fn reserve_spare(bytes: usize) -> Option<NonNull<u8>> {
    let end = END_OF_SPARE.load(Ordering::Acquire);
    let after = |start: usize| start.checked_add(bytes).filter(|after| *after <= end);
    let start = SPARE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after);
    NonNull::new(start.ok()? as *mut u8)
}

/// Makes a mapping at an address of the kernel's choice, without commit charge if not writable.
/// From Linux 6.7 on `MAP_STACK` forbids huge pages in it; before, the flag does nothing.
fn map_anywhere(bytes: usize, protection: i32) -> OsResult<NonNull<u8>> {
    map_at(0, bytes, protection, libc::MAP_NORESERVE | libc::MAP_STACK)
}

/// Maps memory that never becomes huge pages, if the kernel takes this advice.
fn map_small(bytes: usize) -> OsResult<NonNull<u8>> {
    let start = map_anywhere(bytes, READ_WRITE)?;
    let _ = Linux.advise_huge(start, bytes, false);
    Ok(start)
}

fn map_aligned(bytes: usize, align: usize, protection: i32) -> OsResult<NonNull<u8>> {
    let slack = align.saturating_sub(page_size());
    let span = bytes.checked_add(slack).ok_or(OsError(libc::ENOMEM))?;
    let raw = map_anywhere(span, protection)?.as_ptr();
    let start = raw as usize;
    let aligned = start.next_multiple_of(align);
    let (head, tail) = (aligned - start, start + span - (aligned + bytes));
    // SAFETY: both pieces are parts of the mapping just made, which no other code knows.
    unsafe {
        if head != 0 {
            unmap(raw, head);
        }
        if tail != 0 {
            unmap((aligned + bytes) as *mut u8, tail);
        }
    }
    NonNull::new(aligned as *mut u8).ok_or(OsError(libc::ENOMEM))
}

/// Windows lie between 17 and 64 TiB: above the fixed addresses of sanitizers, Go and Java; below
/// programs, libraries and stacks; and within the 47 address bits of x86-64 and the 48 of aarch64.
const LOWEST_WINDOW: usize = 17 << 40;
const END_OF_WINDOWS: usize = 64 << 40;
/// Unmapped bytes between two windows, so that an access beyond the end of one faults.
const GAP_BYTES: usize = 1 << 30;

/// Where the next window of the process begins; 0 before the first one.
static NEXT_WINDOW: AtomicUsize = AtomicUsize::new(0);

/// Chooses addresses for a window of `bytes`. The first window begins at a random address, like the
/// kernel's mappings; a later window follows the last one, so that no two overlap.
fn next_window(bytes: usize, align: usize) -> Option<usize> {
    let room = END_OF_WINDOWS - LOWEST_WINDOW;
    let span = bytes.checked_add(GAP_BYTES)?.checked_next_multiple_of(align)?;
    let places = room.checked_sub(span)? / align;
    let random = LOWEST_WINDOW.next_multiple_of(align) + random() % places.max(1) * align;
    let mut next = NEXT_WINDOW.load(Ordering::Relaxed);
    loop {
        let after = next.checked_next_multiple_of(align)?;
        let fits = next != 0 && after + span <= END_OF_WINDOWS;
        let start = if fits { after } else { random };
        let (seen, relaxed) = (next, Ordering::Relaxed);
        match NEXT_WINDOW.compare_exchange(seen, start + span, relaxed, relaxed) {
            Ok(_) => return Some(start),
            Err(now) => next = now,
        }
    }
}

/// Bytes of all addresses of a program on x86-64: a program with any mapping has fewer of them
/// free. (From Linux 6.17 on, a longer range is `EINVAL`.)
const ENDLESS: usize = 0x7fff_ffff_f000;

/// `mremap` as a bare system call. Other libraries replace libc's function by one that may lose the
/// fifth argument (UCX up to 1.13 does), so that pages would go to any address.
///
/// # Safety
/// The caller owns the range. With `MREMAP_FIXED` it owns the range at `to`, too, and has given up
/// the contents of that.
unsafe fn remap(
    (from, bytes): (NonNull<u8>, usize),
    (to, new_bytes): (NonNull<u8>, usize),
    flags: i32,
) -> OsResult<()> {
    let (from, to, flags) = (from.as_ptr(), to.as_ptr(), flags as usize);
    // SAFETY: the caller's promise; without MREMAP_MAYMOVE the mapping stays, and grows only into
    // free addresses.
    checked(unsafe { libc::syscall(libc::SYS_mremap, from, bytes, new_bytes, flags, to) }).map(drop)
}

/// Returns whether a range lies in one VMA of the kernel. For that it asks to grow the range in
/// place by more than the free addresses: for several VMAs `mremap` fails with `EFAULT` before it
/// looks for room (Linux 2.6.12 to 6.18, `vma_to_resize` and successors in `mm/mremap.c`).
fn is_one_mapping(address: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the range is the caller's, and nothing moves.
    let grown = unsafe { remap((address, bytes), (address, ENDLESS), 0) };
    if let Err(OsError(error)) = grown {
        return matches!(error, libc::ENOMEM | libc::EAGAIN);
    }
    // SAFETY: where addresses have more bits, `mremap` grew the range. Unmaps only the new part.
    unsafe { unmap(address.as_ptr().add(bytes), ENDLESS - bytes) };
    true
}

/// Calls libc's `munmap` for a range whose pages have moved away, for those who watch this function
/// to learn which memory they must forget. A mapping without access holds the addresses until then:
/// another thread may map memory there at any time.
fn tell_unmapped(address: NonNull<u8>, bytes: usize) {
    const FLAGS: i32 = libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    if let Ok(held) = map_at(address.as_ptr() as usize, bytes, libc::PROT_NONE, FLAGS) {
        // SAFETY: the mapping just made, wherever it is, which no other code knows.
        unsafe { libc::munmap(held.as_ptr().cast(), bytes) };
    }
}

/// Linux 5.14, `include/uapi/asm-generic/mman-common.h`.
const MADV_POPULATE_WRITE: i32 = 23;
/// Linux 5.18, `include/uapi/asm-generic/mman-common.h`.
const MADV_DONTNEED_LOCKED: i32 = 24;
/// Linux 6.13, `include/uapi/asm-generic/mman-common.h`.
#[cfg(feature = "guards")]
const MADV_GUARD_INSTALL: i32 = 102;
#[cfg(feature = "guards")]
const MADV_GUARD_REMOVE: i32 = 103;

/// Guards that are mappings of their own now. Each splits a mapping, and so adds up to two to those
/// of which the kernel allows a process `max_map_count`: guards may add a quarter of that.
#[cfg(feature = "guards")]
static MAPPED_GUARDS: AtomicUsize = AtomicUsize::new(0);
#[cfg(feature = "guards")]
const GUARDS_SHARE: usize = 8;

fn purged(discard: impl Fn(i32) -> OsResult<()>) -> OsResult<()> {
    discard(libc::MADV_DONTNEED).or_else(|error| match error {
        // Some pages are locked by `mlock` (`mm/madvise.c`), for a use that is over.
        OsError(libc::EINVAL) if !is_confined() => discard(MADV_DONTNEED_LOCKED),
        _ => Err(error),
    })
}

// SAFETY: `map` and `reserve` make new private mappings and replace nothing. `madvise`, `munmap`
// and a fixed `mremap` act on exactly their range, the last two only in unsafe methods.
unsafe impl Os for Linux {
    fn page_size(&self) -> usize {
        page_size()
    }

    fn window(&self, bytes: usize, align: usize) -> OsResult<NonNull<u8>> {
        let page = self.page_size();
        let usual = next_window(bytes, align).and_then(|start| NonNull::new(start as *mut u8));
        if let Some(start) = usual
            // Tests that such addresses exist: they do not under valgrind or with 39-bit addresses.
            // (Tried: below the first thread's stack they do. But qemu's is low.)
            && map_exactly(start, page, libc::PROT_NONE, libc::MAP_NORESERVE).is_ok()
        {
            // SAFETY: the page just mapped, which no other code knows.
            unsafe { unmap(start.as_ptr(), page) };
            return Ok(start);
        }
        let start = map_aligned(bytes, align, libc::PROT_NONE)?;
        // SAFETY: the mapping just made, which no other code knows.
        unsafe { unmap(start.as_ptr(), bytes) };
        Ok(start)
    }

    fn map(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()> {
        // Without MAP_NORESERVE, so that the kernel refuses more than the machine's memory.
        map_exactly(address, bytes, READ_WRITE, 0)?;
        place(address, bytes);
        Ok(())
    }

    unsafe fn unmap(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()> {
        // SAFETY: the piece is the caller's, who promises that it is unused.
        check(unsafe { libc::munmap(address.as_ptr().cast(), bytes) })
    }

    fn extend(&self, address: NonNull<u8>, bytes: usize, new_bytes: usize) -> OsResult<()> {
        unconfined()?;
        // SAFETY: the piece is the caller's.
        unsafe { remap((address, bytes), (address, new_bytes), 0) }
    }

    unsafe fn move_pages(
        &self,
        (from, bytes): (NonNull<u8>, usize),
        (to, new_bytes): (NonNull<u8>, usize),
    ) -> Result<(), NotMoved> {
        // Of several VMAs `mremap` moves only the first, after it has unmapped the target.
        if is_confined() || !is_one_mapping(from, bytes) {
            return Err(NotMoved::Unchanged);
        }
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: the caller promises that both pieces are mapped and its own, and gives up the
        // contents of the target; so no other code's mapping is replaced.
        if unsafe { remap((from, bytes), (to, new_bytes), flags) }.is_ok() {
            tell_unmapped(from, bytes);
            return Ok(());
        }
        // The kernel may have unmapped the target before it refused (`mremap_to`, `mm/mremap.c`),
        // and another thread may have mapped memory there since.
        match map_exactly(to, new_bytes, READ_WRITE, 0) {
            Ok(()) => Err(NotMoved::Unchanged),
            Err(_) => Err(NotMoved::Lost),
        }
    }

    fn reserve(&self, bytes: usize) -> OsResult<NonNull<u8>> {
        if let Some(start) = reserve_spare(bytes) {
            return Ok(start);
        }
        let relaxed = Ordering::Relaxed;
        let is_first = END_OF_SPARE.compare_exchange(0, 1, relaxed, relaxed).is_ok();
        if is_first && let Ok(start) = map_small(bytes.saturating_add(SPARE_BYTES)) {
            let spare = start.addr().get() + bytes;
            SPARE.store(spare, relaxed);
            END_OF_SPARE.store(spare + SPARE_BYTES, Ordering::Release);
            return Ok(start);
        }
        map_small(bytes)
    }

    fn populate(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()> {
        // SAFETY: the range is the caller's.
        unsafe { advise(address, bytes, MADV_POPULATE_WRITE) }
    }

    fn purge(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()> {
        if !is_huge_aligned(address, bytes) && may_be_huge() {
            // The kernel keeps a huge page allocated when a part of it is purged: the process
            // shrinks, but no memory becomes free. MADV_COLD (Linux 5.4) splits the page first.
            // SAFETY: the range is the caller's.
            let _ = unsafe { advise(address, bytes, libc::MADV_COLD) };
        }
        // SAFETY: the caller owns the range and has given up its contents.
        purged(|advice| check(unsafe { libc::madvise(address.as_ptr().cast(), bytes, advice) }))
    }

    fn purge_metadata(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()> {
        // SAFETY: as above.
        purged(|advice| unsafe { system_call::advise(address.as_ptr(), bytes, advice) })
    }

    fn runs_others(&self) -> bool {
        watchers::are_there()
    }

    fn set_accessible(&self, address: NonNull<u8>, bytes: usize, accessible: bool) -> OsResult<()> {
        unconfined()?;
        let access = if accessible { READ_WRITE } else { libc::PROT_NONE };
        // SAFETY: the caller owns the range, and no code uses it while it is inaccessible.
        unsafe { protect(address.as_ptr(), bytes, access) }
    }

    #[cfg(feature = "guards")]
    fn guard(&self, address: NonNull<u8>, bytes: usize) -> OsResult<Guard> {
        // SAFETY: the caller owns the range and has given up its contents.
        if unsafe { advise(address, bytes, MADV_GUARD_INSTALL) }.is_ok() {
            return Ok(Guard::Marked);
        }
        // The kernel is older, or the memory is locked.
        unconfined()?;
        let others = MAPPED_GUARDS.fetch_add(1, Ordering::Relaxed);
        let made = match others < topology::max_map_count() / GUARDS_SHARE {
            true => self.set_accessible(address, bytes, false),
            false => Err(OsError(libc::ENOMEM)),
        };
        match made {
            Ok(()) => {
                // If the system refuses, the pages stay in memory.
                let _ = self.purge(address, bytes);
                Ok(Guard::Mapped)
            }
            Err(error) => {
                MAPPED_GUARDS.fetch_sub(1, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    #[cfg(feature = "guards")]
    fn unguard(&self, address: NonNull<u8>, bytes: usize, made: Guard) -> OsResult<()> {
        let opened = match made {
            // SAFETY: the caller owns the range, and it is empty.
            Guard::Marked => unsafe { advise(address, bytes, MADV_GUARD_REMOVE) },
            Guard::Mapped => self.set_accessible(address, bytes, true),
        };
        // A process that has been confined since may still map memory.
        opened.or_else(|_| replace(address, bytes)).inspect(|()| {
            MAPPED_GUARDS.fetch_sub(usize::from(made == Guard::Mapped), Ordering::Relaxed);
        })
    }

    fn reset(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()> {
        // SAFETY: the range is the caller's; neither advice changes its contents.
        unsafe {
            advise(address, bytes, libc::MADV_DOFORK)?;
            advise(address, bytes, libc::MADV_KEEPONFORK).or_else(|error| match error {
                // Before Linux 4.14 the kernel knows neither this advice nor its opposite.
                OsError(libc::EINVAL) => Ok(()),
                _ => Err(error),
            })?;
        }
        self.set_accessible(address, bytes, true)
    }

    fn advise_huge(&self, address: NonNull<u8>, bytes: usize, huge: bool) -> OsResult<()> {
        if huge {
            IS_ADVISED.store(true, Ordering::Relaxed);
        }
        let advice = if huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        // SAFETY: the range is the caller's.
        unsafe { advise(address, bytes, advice) }
    }

    fn gives_huge_unasked(&self) -> bool {
        gives_huge_unasked()
    }

    unsafe fn release(&self, address: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller promises that this is a whole reservation and that it is unused.
        unsafe { unmap(address.as_ptr(), bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_are_zero_and_apart_and_are_released_one_by_one() {
        let bytes = 2 * page_size();
        // More than the spare bytes of the first reservation.
        let count = 2 * SPARE_BYTES / bytes;
        let all: Vec<_> = (0..count).map(|_| Linux.reserve(bytes).expect("memory")).collect();
        let words = |start: &NonNull<u8>| {
            // SAFETY: a reservation of so many bytes, which is zero or filled by this test.
            unsafe { core::slice::from_raw_parts_mut(start.cast::<u64>().as_ptr(), bytes / 8) }
        };
        for (at, start) in all.iter().enumerate() {
            assert!(words(start).iter().all(|word| *word == 0), "{at} is zero at first");
            words(start).fill(at as u64 + 1);
        }
        for start in all.iter().skip(1).step_by(2) {
            // SAFETY: reserved above, and not used below.
            unsafe { Linux.release(*start, bytes) };
        }
        for (at, start) in all.iter().enumerate().step_by(2) {
            assert!(words(start).iter().all(|word| *word == at as u64 + 1), "{at} is as it was");
            // SAFETY: as above.
            unsafe { Linux.release(*start, bytes) };
        }
    }
}
