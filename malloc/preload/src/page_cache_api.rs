//! The page cache, for C. The documentation in this file also becomes that of `quarry.h`.

use crate::abi::null;
use crate::heap_api::{answer, refused};
use core::ffi::{c_int, c_long, c_uint, c_ulong, c_void};
use core::ptr::{NonNull, without_provenance_mut};
use quarry::process;
use quarry::{
    Backing, Error, FileBacking, Invalidate, Mapping, OsError, PageCache, PageRef, RawPage,
    ReadWrite,
};
use quarry_sys::report::fatal;

/// Of quarry_mapping_open_fd: the descriptor is closed with the mapping.
pub const QUARRY_OWN_FD: c_uint = 1;
/// Of quarry_page_lock and quarry_page_unlock: for writing; else for reading.
pub const QUARRY_EXCLUSIVE: c_uint = 1;
/// Of quarry_page_lock: fails with EBUSY instead of waiting.
pub const QUARRY_TRY: c_uint = 2;
/// Of quarry_mapping_invalidate: drops dirty pages too, whose contents are lost.
pub const QUARRY_DIRTY_TOO: c_uint = 1;

/// The cached pages of one file or database.
#[repr(C)]
pub struct QuarryMapping {
    _private: [u8; 0],
}

/// A cached page that the caller has pinned. It is a number in disguise, never an address.
#[repr(C)]
pub struct QuarryPage {
    _private: [u8; 0],
}

/// The backing of a mapping's pages. Several threads call the functions at once, one of them a
/// thread of Quarry's own with 256 KiB of stack. The functions must not use the mapping. read and
/// write return the number of bytes, or a negative errno; if bytes are missing, they are called
/// again.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct QuarryBacking {
    /// sizeof(quarry_backing).
    pub struct_size: usize,
    /// The first argument of all functions.
    pub context: *mut c_void,
    /// Returns the present size in bytes.
    pub size: Option<unsafe extern "C" fn(context: *mut c_void) -> c_ulong>,
    /// Reads bytes at an offset.
    pub read: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            offset: c_ulong,
            bytes: *mut c_void,
            count: usize,
        ) -> c_long,
    >,
    /// Writes bytes at an offset; NULL if pages are never written.
    pub write: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            offset: c_ulong,
            bytes: *const c_void,
            count: usize,
        ) -> c_long,
    >,
    /// Returns whether a page with this mark may be written; waits is 1 if a caller waits until the
    /// page is written. NULL if all pages may be written.
    pub may_write:
        Option<unsafe extern "C" fn(context: *mut c_void, mark: c_ulong, waits: c_int) -> c_int>,
    /// Waits until all writes are durable; returns 0 or a negative errno. NULL if they always are.
    pub sync: Option<unsafe extern "C" fn(context: *mut c_void) -> c_int>,
}

enum AnyBacking {
    Calls(QuarryBacking),
    File(FileBacking<ReadWrite>),
}

// SAFETY: quarry.h requires functions that several threads may call at once.
unsafe impl Send for AnyBacking {}
// SAFETY: quarry.h requires functions that several threads may call at once.
unsafe impl Sync for AnyBacking {}

fn moved(result: c_long, asked: usize) -> Result<usize, OsError> {
    match usize::try_from(result) {
        Ok(moved) if moved <= asked => Ok(moved),
        Ok(_) => Err(OsError(libc::EIO)),
        Err(_) => Err(OsError(c_int::try_from(-result).unwrap_or(libc::EIO))),
    }
}

impl Backing for AnyBacking {
    type Access = ReadWrite;

    fn size(&self) -> u64 {
        match self {
            // SAFETY: the caller vouches for the function.
            Self::Calls(calls) => calls.size.map_or(0, |size| unsafe { size(calls.context) }),
            Self::File(file) => file.size(),
        }
    }

    fn size_anew(&self) -> u64 {
        match self {
            Self::Calls(_) => self.size(),
            Self::File(file) => file.size_anew(),
        }
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<usize, OsError> {
        let calls = match self {
            Self::File(file) => return file.read(offset, bytes),
            Self::Calls(calls) => calls,
        };
        let Some(read) = calls.read else { return Err(OsError(libc::EBADF)) };
        // SAFETY: the caller vouches for the function; this many bytes are writable.
        let result = unsafe { read(calls.context, offset, bytes.as_mut_ptr().cast(), bytes.len()) };
        moved(result, bytes.len())
    }

    fn read_pages(&self, offset: u64, pages: &mut [&mut [u8]]) -> Result<usize, OsError> {
        if let Self::File(file) = self {
            return file.read_pages(offset, pages);
        }
        let mut done = 0;
        for page in pages {
            match self.read(offset + done as u64, page) {
                Ok(read) if read == page.len() => done += read,
                Ok(read) => return Ok(done + read),
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    fn write_pages(&self, offset: u64, pages: &[&[u8]]) -> Result<usize, OsError> {
        let calls = match self {
            Self::File(file) => return file.write_pages(offset, pages),
            Self::Calls(calls) => calls,
        };
        let Some(write) = calls.write else { return Err(OsError(libc::EROFS)) };
        let Some(first) = pages.first() else { return Ok(0) };
        // SAFETY: the caller vouches for the function; this many bytes are readable.
        let result = unsafe { write(calls.context, offset, first.as_ptr().cast(), first.len()) };
        moved(result, first.len())
    }

    fn may_write(&self, mark: u64, is_flush: bool) -> bool {
        let Self::Calls(QuarryBacking { context, may_write: Some(may_write), .. }) = self else {
            return true;
        };
        // SAFETY: the caller vouches for the function.
        unsafe { may_write(*context, mark, c_int::from(is_flush)) != 0 }
    }

    fn sync(&self) -> Result<(), OsError> {
        match self {
            Self::File(file) => file.sync(),
            Self::Calls(QuarryBacking { context, sync: Some(sync), .. }) => {
                // SAFETY: the caller vouches for the function.
                match unsafe { sync(*context) } {
                    0 => Ok(()),
                    error => Err(OsError(error.wrapping_neg())),
                }
            }
            Self::Calls(_) => Ok(()),
        }
    }
}

type AnyMapping = Mapping<AnyBacking>;

/// Moves a mapping into memory of the heap, and returns its handle.
fn keep(mapping: Result<AnyMapping, Error>) -> *mut QuarryMapping {
    match mapping.map(process::boxed) {
        Ok(Some(place)) => place.cast().as_ptr(),
        Ok(None) => null(libc::ENOMEM),
        Err(error) => null(error.errno()),
    }
}

/// # Safety
/// The mapping is open.
unsafe fn of<'a>(mapping: *mut QuarryMapping) -> &'a AnyMapping {
    // SAFETY: the handle is the address that `keep` returned (caller's promise).
    unsafe { &*mapping.cast::<AnyMapping>() }
}

/// The handle of a page: its number plus one.
fn handle(page: RawPage) -> *mut QuarryPage {
    without_provenance_mut(page.number() as usize + 1)
}

fn pinned(page: Result<PageRef<'_, ReadWrite>, Error>) -> *mut QuarryPage {
    match page {
        Ok(page) => handle(page.into_raw()),
        Err(error) => null(error.errno()),
    }
}

/// The page with this handle; prints a line and aborts if the page is not pinned.
fn raw(entry: &str, page: *mut QuarryPage) -> RawPage {
    RawPage::pinned(page.addr().wrapping_sub(1))
        .unwrap_or_else(|| fatal(format_args!("{entry}({page:p}): no page that is pinned")))
}

fn range(first: c_ulong, count: c_ulong) -> core::ops::Range<u64> {
    first..first.saturating_add(count)
}

fn builder(page_order: c_uint) -> quarry::MappingBuilder {
    // Other orders are refused when the mapping is made.
    PageCache::builder().page_order(u8::try_from(page_order).unwrap_or(u8::MAX))
}

/// Makes a mapping with the functions of `backing`, which it copies. Its pages have 4 KiB <<
/// page_order, for orders 0 to 4. Returns NULL with EINVAL (wrong struct_size, size or read is
/// NULL, or order above 4), ENOMEM, or ENOTSUP if QUARRY_DISABLE=1.
///
/// # Safety
/// The functions do what quarry_backing requires until the mapping is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_mapping_open(
    backing: *const QuarryBacking,
    page_order: c_uint,
) -> *mut QuarryMapping {
    let Some(backing) = NonNull::new(backing.cast_mut()) else { return null(libc::EINVAL) };
    // SAFETY: it is a quarry_backing (caller's promise).
    let calls = unsafe { *backing.as_ref() };
    let is_whole = calls.struct_size == size_of::<QuarryBacking>();
    if !is_whole || calls.size.is_none() || calls.read.is_none() {
        return null(libc::EINVAL);
    }
    keep(builder(page_order).open(AnyBacking::Calls(calls)))
}

/// Makes a mapping over an open file. Returns NULL like quarry_mapping_open, or with the errno of
/// fstat; it then closes the descriptor if flags have QUARRY_OWN_FD.
///
/// # Safety
/// The descriptor stays open until the mapping is closed; if flags have QUARRY_OWN_FD, no other
/// code closes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_mapping_open_fd(
    fd: c_int,
    page_order: c_uint,
    flags: c_uint,
) -> *mut QuarryMapping {
    if flags & !QUARRY_OWN_FD != 0 {
        return null(libc::EINVAL);
    }
    // SAFETY: the caller's promise is passed on.
    let file = unsafe { FileBacking::of_number(fd, flags == QUARRY_OWN_FD) };
    keep(file.and_then(|file| builder(page_order).open(AnyBacking::File(file))))
}

/// Writes dirty pages, and closes a mapping; NULL is ignored. Returns 0, or -1 with the errno of a
/// write that failed since the last flush: then pages that are still dirty are lost. The mapping is
/// closed in both cases.
///
/// # Safety
/// No code uses the mapping any more, and none of its pages is pinned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_mapping_close(mapping: *mut QuarryMapping) -> c_int {
    let Some(place) = NonNull::new(mapping.cast::<AnyMapping>()) else { return 0 };
    // SAFETY: the mapping is open, and no other code uses it (caller's promise).
    let mapping = unsafe { place.read() };
    let flushed = mapping.flush(..);
    if flushed.is_err() {
        // Otherwise the drop would write again, and print a line.
        let _ = mapping.truncate(0);
    }
    drop(mapping);
    // SAFETY: `keep` has allocated it, and the mapping was moved out.
    unsafe { process::free(place.cast()) };
    match flushed {
        // The parent process writes its pages itself.
        Err(Error::Forked) => 0,
        flushed => answer(flushed),
    }
}

/// Pins a page that is cached; never waits. Returns NULL with ENOENT if the page is not cached.
///
/// # Safety
/// The mapping is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_page_get(
    mapping: *mut QuarryMapping,
    index: c_ulong,
) -> *mut QuarryPage {
    // SAFETY: the caller's promise is passed on.
    match unsafe { of(mapping) }.get(index) {
        Some(page) => handle(page.into_raw()),
        None => null(libc::ENOENT),
    }
}

/// Pins a page, and reads it if it is not cached. Returns NULL with the errno of the backing,
/// ENOMEM, ENXIO if the backing has no byte of the page, or ESTALE in the child of a fork.
///
/// # Safety
/// The mapping is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_page_read(
    mapping: *mut QuarryMapping,
    index: c_ulong,
) -> *mut QuarryPage {
    // SAFETY: the caller's promise is passed on.
    pinned(unsafe { of(mapping) }.read(index))
}

/// Makes a page of zeroes, pinned and dirty. Returns NULL with EBUSY if the page is cached, with
/// ENXIO if it would end after 2^63 bytes, or like quarry_page_read.
///
/// # Safety
/// The mapping is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_page_create(
    mapping: *mut QuarryMapping,
    index: c_ulong,
) -> *mut QuarryPage {
    // SAFETY: the caller's promise is passed on.
    pinned(unsafe { of(mapping) }.create(index).map(|page| page.fill_dirty(|_| {})))
}

/// The bytes of a page, which stay in place while it is pinned. If other threads write the page,
/// the caller must lock it.
///
/// # Safety
/// The page is pinned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_page_bytes(page: *mut QuarryPage) -> *mut c_void {
    raw("quarry_page_bytes", page).address().as_ptr().cast()
}

/// Adds a pin to a page.
///
/// # Safety
/// The page is pinned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_page_pin(page: *mut QuarryPage) {
    // SAFETY: the caller's promise is passed on.
    unsafe { raw("quarry_page_pin", page).pin_again() };
}

/// Releases a pin of a page; NULL is ignored.
///
/// # Safety
/// The pin belongs to the caller, which does not use the page any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_page_unpin(page: *mut QuarryPage) {
    if !page.is_null() {
        // SAFETY: the caller's promise is passed on.
        unsafe { raw("quarry_page_unpin", page).unpin() };
    }
}

/// Locks a page for reading, or for writing with QUARRY_EXCLUSIVE, and waits for other threads.
/// Returns 0; with QUARRY_TRY, -1 with EBUSY instead of waiting.
///
/// # Safety
/// The page is pinned, and the calling thread has not locked it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_page_lock(page: *mut QuarryPage, flags: c_uint) -> c_int {
    let (is_exclusive, waits) = (flags & QUARRY_EXCLUSIVE != 0, flags & QUARRY_TRY == 0);
    // SAFETY: the caller's promise is passed on.
    if unsafe { raw("quarry_page_lock", page).latch(is_exclusive, waits) } {
        return 0;
    }
    refused(libc::EBUSY)
}

/// Unlocks a page, with the flags with which it was locked. Prints a line and aborts if no thread
/// has locked it with these flags, or if another thread has locked it for writing.
///
/// # Safety
/// The caller has locked it with these flags.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_page_unlock(page: *mut QuarryPage, flags: c_uint) {
    let is_exclusive = flags & QUARRY_EXCLUSIVE != 0;
    let locked = raw("quarry_page_unlock", page);
    if !locked.is_latched(is_exclusive) {
        fatal(format_args!("quarry_page_unlock({page:p}): nobody has locked the page so"));
    }
    if is_exclusive && locked.is_latched_by_other() {
        fatal(format_args!("quarry_page_unlock({page:p}): another thread has locked the page"));
    }
    // SAFETY: the caller's promise is passed on.
    unsafe { locked.unlatch(is_exclusive) };
}

/// Marks a page as newer than its backing, before it is unlocked. The backing's may_write gets the
/// mark: the sequence number of the change in a log, or 0. If too many pages are dirty, this writes
/// some of them that no thread has locked.
///
/// # Safety
/// The page belongs to the mapping, and is pinned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_page_dirty(
    mapping: *mut QuarryMapping,
    page: *mut QuarryPage,
    mark: c_ulong,
) {
    let changed = raw("quarry_page_dirty", page);
    // SAFETY: the caller's promise is passed on.
    let mapping = unsafe { of(mapping) };
    if !changed.is_of(mapping.raw()) {
        fatal(format_args!("quarry_page_dirty({page:p}): a page of another mapping"));
    }
    // SAFETY: the page belongs to the mapping, and is pinned.
    unsafe { mapping.mark_dirty(changed, mark) };
}

/// Writes the dirty pages among `count` pages from `first` on, and waits until they are written.
/// Returns 0; or -1 with the errno of a write that failed since the last flush, whose pages stay
/// dirty, with EAGAIN if the backing does not allow some pages to be written yet, or with ESTALE.
///
/// # Safety
/// The mapping is open, and the calling thread has locked none of its pages.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_mapping_flush(
    mapping: *mut QuarryMapping,
    first: c_ulong,
    count: c_ulong,
) -> c_int {
    // SAFETY: the caller's promise is passed on.
    answer(unsafe { of(mapping) }.flush(range(first, count)))
}

/// Writes all dirty pages, and waits until they survive a loss of power. Returns like
/// quarry_mapping_flush.
///
/// # Safety
/// Same as quarry_mapping_flush.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_mapping_sync(mapping: *mut QuarryMapping) -> c_int {
    // SAFETY: the caller's promise is passed on.
    answer(unsafe { of(mapping) }.sync())
}

/// Drops all pages from index `from` on, dirty ones too. Pinned pages keep their bytes. Returns 0,
/// or -1 with ESTALE.
///
/// # Safety
/// Same as quarry_mapping_flush.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_mapping_truncate(
    mapping: *mut QuarryMapping,
    from: c_ulong,
) -> c_int {
    // SAFETY: the caller's promise is passed on.
    answer(unsafe { of(mapping) }.truncate(from).map(drop))
}

/// Drops the unused clean pages among `count` pages from `first` on; with QUARRY_DIRTY_TOO also
/// dirty pages. Returns the number of pages that stay.
///
/// # Safety
/// The mapping is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_mapping_invalidate(
    mapping: *mut QuarryMapping,
    first: c_ulong,
    count: c_ulong,
    flags: c_uint,
) -> c_ulong {
    let is_all = flags & QUARRY_DIRTY_TOO != 0;
    let which = if is_all { Invalidate::All } else { Invalidate::CleanOnly };
    // SAFETY: the caller's promise is passed on.
    unsafe { of(mapping) }.invalidate(range(first, count), which).busy
}

/// Reads the pages among `count` pages from `first` on that are not cached. This is a hint.
///
/// # Safety
/// The mapping is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_mapping_prefetch(
    mapping: *mut QuarryMapping,
    first: c_ulong,
    count: c_ulong,
) {
    // SAFETY: the caller's promise is passed on.
    unsafe { of(mapping) }.prefetch(range(first, count));
}

/// Gives a cached page another index, and drops the page that was there. Returns 0; or -1 with
/// ENXIO if no page is cached at `old_index` or no page can be at `new_index`, EBUSY if another
/// thread uses the page at `new_index`, ENOMEM or ESTALE.
///
/// # Safety
/// The mapping is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_mapping_rekey(
    mapping: *mut QuarryMapping,
    old_index: c_ulong,
    new_index: c_ulong,
) -> c_int {
    // SAFETY: the caller's promise is passed on.
    answer(unsafe { of(mapping) }.rekey(old_index, new_index))
}

/// The number of pages that a mapping has cached.
///
/// # Safety
/// The mapping is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_mapping_pages(mapping: *mut QuarryMapping) -> c_ulong {
    // SAFETY: the caller's promise is passed on.
    unsafe { of(mapping) }.pages()
}
