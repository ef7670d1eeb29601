//! A fake operating system for tests: plain private mappings, failures on demand.
//!
//! Windows and reservations are accessible from the start (one plain `mmap`, no fixed or partial
//! unmapping), so that the code above runs unchanged under sanitizers and valgrind. A header in
//! front of each one records the `mmap` to undo. To walk every error path, a test can make the n-th
//! call fail, counted from 1. It can also make a range *foreign*, as if other code had mapped it.

use super::{Guard, NotMoved, Os, OsError, OsResult};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The mapping that contains a reservation; `release` unmaps it.
struct Head {
    raw: *mut libc::c_void,
    span: usize,
}

const HEAD_BYTES: usize = 16;
const _: () = assert!(size_of::<Head>() <= HEAD_BYTES);

/// Miri accepts only the first two flags.
const MAP_FLAGS: i32 =
    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | if cfg!(miri) { 0 } else { libc::MAP_NORESERVE };

/// The fake operating system. `fail_count` calls from number `fail_at` on fail with `ENOMEM`.
pub struct FakeOs {
    calls: AtomicU64,
    fail_at: AtomicU64,
    fail_count: AtomicU64,
    page_size: usize,
    purged_bytes: AtomicUsize,
    populated_bytes: AtomicUsize,
    huge_bytes: AtomicUsize,
    guarded_bytes: AtomicUsize,
    foreign: [AtomicUsize; 2],
    loses_targets: AtomicBool,
    /// Start and end of the locked range; `purge` fails there.
    locked: [AtomicUsize; 2],
    refused_purges: AtomicU64,
}

impl FakeOs {
    /// A fake with pages of `page_size` bytes (4, 16 or 64 KiB) on which no call fails.
    #[must_use]
    pub const fn new(page_size: usize) -> Self {
        Self {
            calls: AtomicU64::new(0),
            fail_at: AtomicU64::new(0),
            fail_count: AtomicU64::new(0),
            page_size,
            purged_bytes: AtomicUsize::new(0),
            populated_bytes: AtomicUsize::new(0),
            huge_bytes: AtomicUsize::new(0),
            guarded_bytes: AtomicUsize::new(0),
            foreign: [const { AtomicUsize::new(0) }; 2],
            loses_targets: AtomicBool::new(false),
            locked: [AtomicUsize::new(0), AtomicUsize::new(0)],
            refused_purges: AtomicU64::new(0),
        }
    }

    /// Locks `bytes` from `address` on in memory, and unlocks the range locked before. A purge that
    /// touches locked memory is refused, as by the kernel before Linux 5.18.
    pub fn lock_in_memory(&self, address: NonNull<u8>, bytes: usize) {
        let start = address.as_ptr() as usize;
        self.locked[0].store(start, Ordering::Relaxed);
        self.locked[1].store(start + bytes, Ordering::Relaxed);
    }

    /// Number of purges refused because of locked memory.
    pub fn refused_purges(&self) -> u64 {
        self.refused_purges.load(Ordering::Relaxed)
    }

    /// Makes the `nth` fallible call from now on fail once (1: the next call; 0: no call).
    pub fn fail_nth(&self, nth: u64) {
        self.fail(nth, 1);
    }

    /// Makes `count` calls fail, beginning with the `nth` from now on.
    pub fn fail(&self, nth: u64, count: u64) {
        let now = self.calls.load(Ordering::Relaxed);
        self.fail_count.store(count, Ordering::Relaxed);
        self.fail_at.store(if nth == 0 { 0 } else { now + nth }, Ordering::Relaxed);
    }

    /// Fallible calls made so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Bytes purged so far.
    pub fn purged_bytes(&self) -> usize {
        self.purged_bytes.load(Ordering::Relaxed)
    }

    /// Bytes populated so far.
    pub fn populated_bytes(&self) -> usize {
        self.populated_bytes.load(Ordering::Relaxed)
    }

    /// Bytes advised to be huge pages, minus the bytes advised back to ordinary pages.
    pub fn huge_bytes(&self) -> usize {
        self.huge_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of guards. Programs under this fake can access them.
    pub fn guarded_bytes(&self) -> usize {
        self.guarded_bytes.load(Ordering::Relaxed)
    }

    /// Makes this range the only foreign one, as if other code had mapped it.
    pub fn occupy(&self, address: NonNull<u8>, bytes: usize) {
        self.foreign[0].store(address.as_ptr() as usize, Ordering::Relaxed);
        self.foreign[1].store(bytes, Ordering::Relaxed);
    }

    /// Sets whether each later `move_pages` fails and makes its target foreign.
    pub fn lose_targets(&self, loses: bool) {
        self.loses_targets.store(loses, Ordering::Relaxed);
    }

    fn is_foreign(&self, address: NonNull<u8>, bytes: usize) -> bool {
        let [start, length] = [0, 1].map(|word| self.foreign[word].load(Ordering::Relaxed));
        let address = address.as_ptr() as usize;
        address < start + length && start < address + bytes
    }

    fn reserve_aligned(&self, bytes: usize, align: usize) -> OsResult<NonNull<u8>> {
        self.count()?;
        let slack = align.max(self.page_size) + HEAD_BYTES;
        let span = bytes.checked_add(slack).ok_or(OsError(libc::ENOMEM))?;
        // SAFETY: a new anonymous private mapping touches no live object.
        let raw = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(core::ptr::null_mut(), span, access, MAP_FLAGS, -1, 0)
        };
        if raw == libc::MAP_FAILED {
            return Err(OsError::last());
        }
        let align = align.max(self.page_size);
        // SAFETY: `offset + bytes <= span`, and HEAD_BYTES of the mapping lie in front of `offset`.
        unsafe {
            let offset = (raw as usize + HEAD_BYTES).next_multiple_of(align) - raw as usize;
            let start = raw.cast::<u8>().add(offset);
            start.sub(HEAD_BYTES).cast::<Head>().write(Head { raw, span });
            NonNull::new(start).ok_or(OsError(libc::ENOMEM))
        }
    }

    fn count(&self) -> OsResult<()> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let (first, count) =
            (self.fail_at.load(Ordering::Relaxed), self.fail_count.load(Ordering::Relaxed));
        if first != 0 && (first..first + count).contains(&call) {
            return Err(OsError(libc::ENOMEM));
        }
        Ok(())
    }
}

/// Zeroes a range without touching pages that no code has touched.
///
/// # Safety
/// The range is accessible and unused.
unsafe fn forget(address: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's promise; Miri has no madvise.
    unsafe {
        if cfg!(miri) || libc::madvise(address.as_ptr().cast(), bytes, libc::MADV_DONTNEED) != 0 {
            address.as_ptr().write_bytes(0, bytes);
        }
    }
}

// SAFETY: windows and reservations are whole private mappings until closed or released, and
// writable from the start, so `map` changes nothing. `purge` and `unmap` clear exactly their range.
unsafe impl Os for FakeOs {
    fn page_size(&self) -> usize {
        self.page_size
    }

    fn window(&self, bytes: usize, align: usize) -> OsResult<NonNull<u8>> {
        self.reserve_aligned(bytes, align)
    }

    fn close_window(&self, address: NonNull<u8>, bytes: usize) {
        // SAFETY: `window` reserved exactly this, and no code uses it (trait).
        unsafe { self.release(address, bytes) };
    }

    fn map(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()> {
        self.count()?;
        if self.is_foreign(address, bytes) { Err(OsError(libc::EEXIST)) } else { Ok(()) }
    }

    unsafe fn unmap(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()> {
        self.count()?;
        assert!(!self.is_foreign(address, bytes), "unmapped foreign memory");
        // SAFETY: the caller's promise.
        unsafe { forget(address, bytes) };
        Ok(())
    }

    fn extend(&self, address: NonNull<u8>, bytes: usize, new_bytes: usize) -> OsResult<()> {
        self.count()?;
        // SAFETY: both pieces lie in one window, as the caller promises.
        let after = unsafe { address.add(bytes) };
        let is_free = !self.is_foreign(after, new_bytes - bytes);
        if is_free { Ok(()) } else { Err(OsError(libc::ENOMEM)) }
    }

    unsafe fn move_pages(
        &self,
        (from, bytes): (NonNull<u8>, usize),
        (to, new_bytes): (NonNull<u8>, usize),
    ) -> Result<(), NotMoved> {
        self.count().map_err(|_| NotMoved::Unchanged)?;
        if self.loses_targets.load(Ordering::Relaxed) {
            self.occupy(to, new_bytes);
            return Err(NotMoved::Lost);
        }
        // SAFETY: the caller's promise; both are accessible and do not overlap.
        unsafe {
            forget(to, new_bytes);
            core::ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), bytes);
            forget(from, bytes);
        }
        Ok(())
    }

    fn reserve(&self, bytes: usize) -> OsResult<NonNull<u8>> {
        self.reserve_aligned(bytes, self.page_size)
    }

    fn populate(&self, _address: NonNull<u8>, bytes: usize) -> OsResult<()> {
        self.count()?;
        self.populated_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn purge(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()> {
        self.count()?;
        let start = address.as_ptr() as usize;
        let [first, end] = [0, 1].map(|bound| self.locked[bound].load(Ordering::Relaxed));
        if first.max(start) < end.min(start + bytes) {
            self.refused_purges.fetch_add(1, Ordering::Relaxed);
            return Err(OsError(libc::EINVAL));
        }
        // SAFETY: the caller owns the range and has given up its contents.
        unsafe { address.as_ptr().write_bytes(0, bytes) };
        self.purged_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn guard(&self, address: NonNull<u8>, bytes: usize) -> OsResult<Guard> {
        self.count()?;
        // SAFETY: the caller owns the range and has given up its contents.
        unsafe { forget(address, bytes) };
        self.guarded_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(Guard::Marked)
    }

    fn unguard(&self, _address: NonNull<u8>, bytes: usize, _made: Guard) -> OsResult<()> {
        self.count()?;
        self.guarded_bytes.fetch_sub(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn advise_huge(&self, _address: NonNull<u8>, bytes: usize, huge: bool) -> OsResult<()> {
        self.count()?;
        let change = if huge { bytes } else { bytes.wrapping_neg() };
        self.huge_bytes.fetch_add(change, Ordering::Relaxed);
        Ok(())
    }

    unsafe fn release(&self, address: NonNull<u8>, _bytes: usize) {
        // SAFETY: `reserve` wrote the head in front; the caller passes a whole, unused reservation.
        unsafe {
            let head = address.as_ptr().sub(HEAD_BYTES).cast::<Head>().read();
            libc::munmap(head.raw, head.span);
        }
    }
}
