//! Linux: `mmap`, `mprotect`, `madvise`, `mremap`.

use super::{Access, Os, OsError, OsResult};
use crate::primitive::{AtomicU32, AtomicUsize, Ordering};
use core::ptr::NonNull;

/// The real operating system. Stateless.
pub struct Linux;

/// Bytes of a huge page on x86-64, and on aarch64 with pages of 4 KiB.
const HUGE_BYTES: usize = 2 << 20;

/// Whether some of our memory may be in huge pages: where asked for, or where the system gives them
/// unasked.
static MAY_BE_HUGE: AtomicU32 = AtomicU32::new(UNKNOWN);
const UNKNOWN: u32 = 0;
const NOT_HUGE: u32 = 1;
const HUGE: u32 = 2;

fn may_be_huge() -> bool {
    let known = MAY_BE_HUGE.load(Ordering::Relaxed);
    if known != UNKNOWN {
        return known == HUGE;
    }
    let unasked = crate::topology::huge_pages() == crate::topology::HugePages::Always;
    let found = if unasked { HUGE } else { NOT_HUGE };
    let _ = MAY_BE_HUGE.compare_exchange(UNKNOWN, found, Ordering::Relaxed, Ordering::Relaxed);
    MAY_BE_HUGE.load(Ordering::Relaxed) == HUGE
}

/// From the auxiliary vector and not by `sysconf`, whose table of cases brings 192 KiB of the C
/// library's file into a process that does not touch them otherwise.
fn page_size() -> usize {
    static KNOWN: AtomicUsize = AtomicUsize::new(0);
    let known = KNOWN.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // SAFETY: getauxval has no preconditions.
    let found = unsafe { libc::getauxval(libc::AT_PAGESZ) } as usize;
    KNOWN.store(found, Ordering::Relaxed);
    found
}

fn is_huge_aligned(address: NonNull<u8>, bytes: usize) -> bool {
    (address.as_ptr() as usize | bytes).is_multiple_of(HUGE_BYTES)
}

fn errno() -> OsError {
    // SAFETY: __errno_location returns the calling thread's own errno slot.
    OsError(unsafe { *libc::__errno_location() })
}

fn check(result: i32) -> OsResult<()> {
    if result == 0 { Ok(()) } else { Err(errno()) }
}

/// A new private mapping, charged as its pages are touched.
fn map(bytes: usize, protection: i32) -> OsResult<NonNull<u8>> {
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no live object.
    // What is not writable is not charged, also under overcommit_memory=2 and mlockall.
    let raw = unsafe {
        libc::mmap(
            core::ptr::null_mut(),
            bytes,
            protection,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if raw == libc::MAP_FAILED {
        return Err(errno());
    }
    NonNull::new(raw.cast()).ok_or(OsError(libc::ENOMEM))
}

/// Linux 5.14, `include/uapi/asm-generic/mman-common.h`.
const MADV_POPULATE_WRITE: i32 = 23;
/// Linux 5.18, the same file.
const MADV_DONTNEED_LOCKED: i32 = 24;

// SAFETY: `reserve` returns fresh private mappings, `mprotect`/`madvise` act on exactly the range
// they are given, and `munmap` is only reached through the unsafe `release`.
unsafe impl Os for Linux {
    fn page_size(&self) -> usize {
        page_size()
    }

    fn reserve(&self, bytes: usize, align: usize) -> OsResult<NonNull<u8>> {
        let page = self.page_size();
        let slack = align.saturating_sub(page);
        let span = bytes.checked_add(slack).ok_or(OsError(libc::ENOMEM))?;
        let raw = map(span, libc::PROT_NONE)?.as_ptr();
        let start = raw as usize;
        let aligned = (start + align - 1) & !(align - 1);
        let (head, tail) = (aligned - start, start + span - (aligned + bytes));
        // SAFETY: both pieces are parts of the mapping just made that nobody has seen.
        unsafe {
            if head != 0 {
                libc::munmap(raw.cast(), head);
            }
            if tail != 0 {
                libc::munmap((aligned + bytes) as *mut libc::c_void, tail);
            }
        }
        NonNull::new(aligned as *mut u8).ok_or(OsError(libc::ENOMEM))
    }

    fn reserve_accessible(&self, bytes: usize, access: Access) -> OsResult<NonNull<u8>> {
        match access {
            Access::ReadOnly => map(bytes, libc::PROT_READ),
            Access::Writable => map(bytes, libc::PROT_READ | libc::PROT_WRITE),
        }
    }

    fn commit_read_only(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()> {
        // SAFETY: the range is reserved by us (trait precondition) and holds no object yet.
        check(unsafe { libc::mprotect(address.as_ptr().cast(), bytes, libc::PROT_READ) })
    }

    fn commit(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()> {
        // SAFETY: the range is reserved by us (trait precondition); widening access harms nobody.
        check(unsafe {
            libc::mprotect(address.as_ptr().cast(), bytes, libc::PROT_READ | libc::PROT_WRITE)
        })
    }

    fn decommit(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()> {
        // SAFETY: the caller owns the range and nobody uses it.
        check(unsafe { libc::mprotect(address.as_ptr().cast(), bytes, libc::PROT_NONE) })
    }

    fn populate(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()> {
        // SAFETY: populating keeps contents; the range is committed by us.
        check(unsafe { libc::madvise(address.as_ptr().cast(), bytes, MADV_POPULATE_WRITE) })
    }

    fn resident(&self, address: NonNull<u8>, pages: &mut [u8]) -> OsResult<()> {
        let bytes = pages.len() * self.page_size();
        // SAFETY: the range is ours, and `pages` has a byte for each of its pages.
        check(unsafe { libc::mincore(address.as_ptr().cast(), bytes, pages.as_mut_ptr()) })
    }

    fn purge(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()> {
        if !is_huge_aligned(address, bytes) && may_be_huge() {
            // A part of a huge page is unmapped but stays allocated: the process shrinks and the
            // machine's free memory does not grow. MADV_COLD (Linux 5.4) splits the page first.
            // SAFETY: a hint that keeps contents.
            unsafe { libc::madvise(address.as_ptr().cast(), bytes, libc::MADV_COLD) };
        }
        // SAFETY: the caller owns the range and has given up its contents.
        let purge =
            |advice| check(unsafe { libc::madvise(address.as_ptr().cast(), bytes, advice) });
        purge(libc::MADV_DONTNEED).or_else(|error| match error {
            // Some of it is locked (`mm/madvise.c`). What nobody uses any more was locked for who
            // used it, and glibc unmaps it as well.
            OsError(libc::EINVAL) => purge(MADV_DONTNEED_LOCKED),
            _ => Err(error),
        })
    }

    fn advise_huge(&self, address: NonNull<u8>, bytes: usize, huge: bool) -> OsResult<()> {
        if huge {
            MAY_BE_HUGE.store(HUGE, Ordering::Relaxed);
        }
        let advice = if huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        // SAFETY: a hint that keeps contents; the range is committed by us.
        check(unsafe { libc::madvise(address.as_ptr().cast(), bytes, advice) })
    }

    fn move_pages(&self, from: NonNull<u8>, to: NonNull<u8>, bytes: usize) -> OsResult<()> {
        // SAFETY: both ranges are committed by us and owned by the caller; DONTUNMAP keeps the old
        // range mapped, so that no foreign mapping can slip into the reservation. Needs Linux 5.7.
        let moved = unsafe {
            libc::mremap(
                from.as_ptr().cast(),
                bytes,
                bytes,
                libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP,
                to.as_ptr().cast::<libc::c_void>(),
            )
        };
        if moved != libc::MAP_FAILED {
            return Ok(());
        }
        let error = errno();
        // The kernel may have unmapped `to` before it refused (`mremap_to`, Linux 5.7): close the
        // hole. NOREPLACE leaves everything alone where it has not.
        // SAFETY: nothing is replaced; where there is a hole, it is ours and its contents were to
        // be overwritten.
        unsafe {
            libc::mmap(
                to.as_ptr().cast(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE
                    | libc::MAP_ANONYMOUS
                    | libc::MAP_NORESERVE
                    | libc::MAP_FIXED_NOREPLACE,
                -1,
                0,
            );
        }
        Err(error)
    }

    unsafe fn release(&self, address: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller promises that this is a whole reservation and that it is unused.
        unsafe { libc::munmap(address.as_ptr().cast(), bytes) };
    }
}
