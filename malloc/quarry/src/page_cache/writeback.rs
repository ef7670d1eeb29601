//! Writes dirty pages to their backing, in the order of their indexes, neighbours together.
//!
//! While a page is written, it is latched for reading: so its bytes do not change, and readers need
//! not wait. Before a writeback waits for a latch, it writes the pages that it has latched and
//! releases their latches, so it never waits for a task that waits for it.
//!
//! A page that is made dirty again while it is written stays dirty. A page that the backing refuses
//! stays dirty as well, and the error is recorded for the next flush.

use super::backing::Backing;
use super::mapping_core::MappingCore;
use super::raw_mapping::{RawPage, inside, waiting};
use crate::error::{Error, OsError};
use core::ops::Range;
use quarry_cache::lru::{PageNo, State};
use quarry_cache::page_cache::ErrorCursor;

/// Maximum number of pages of one write: 256 KiB of small pages.
const RUN: usize = 64;

/// How the caller of a writeback waits (`enum writeback_sync_modes`, Linux 6.6).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// No caller waits, so pages in use are skipped (`WB_SYNC_NONE`).
    Background,
    /// A caller waits until all pages are written (`WB_SYNC_ALL`).
    Flush,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    pub(crate) pages: usize,
    /// Number of pages that the backing does not allow to be written yet.
    pub(crate) withheld: usize,
}

/// Neighbouring pages that are being written: pinned, latched for reading, and marked.
struct Run<'a> {
    core: &'a MappingCore,
    first: u64,
    pages: [Option<RawPage>; RUN],
    count: usize,
    /// Number of written pages; the run does not own them any more.
    done: usize,
}

impl<'a> Run<'a> {
    fn new(core: &'a MappingCore) -> Self {
        Self { core, first: 0, pages: [None; RUN], count: 0, done: 0 }
    }

    fn push(&mut self, index: u64, page: RawPage) {
        if self.count == 0 {
            self.first = index;
        }
        self.pages[self.count] = Some(page);
        self.count += 1;
    }

    fn takes(&self, index: u64) -> bool {
        self.count == 0 || self.count < RUN && self.first + self.count as u64 == index
    }

    /// Writes all pages, and unpins them. Returns how many were written.
    fn write<B: Backing>(mut self, backing: &B) -> usize {
        let bytes = self.core.page_bytes;
        // Bytes written so far of the page number `done`.
        let mut within = 0;
        while self.done < self.count {
            let mut pieces = [&[] as &[u8]; RUN];
            for (piece, page) in pieces.iter_mut().zip(self.pages[self.done..].iter().flatten()) {
                // SAFETY: the page is pinned and latched for reading until it leaves the run.
                *piece = unsafe { core::slice::from_raw_parts(page.address().as_ptr(), bytes) };
            }
            let lacking = self.count - self.done;
            pieces[0] = &pieces[0][within..];
            let offset = (self.first + self.done as u64) * bytes as u64 + within as u64;
            match backing.write_pages(offset, &pieces[..lacking]) {
                Ok(0) => {
                    self.core.note_error(libc::EIO);
                    return self.done;
                }
                Ok(moved) => within += moved.min(lacking * bytes - within),
                Err(OsError(errno)) => {
                    self.core.note_error(errno);
                    return self.done;
                }
            }
            while within >= bytes {
                within -= bytes;
                self.end_next(false);
            }
        }
        self.core.end_quiet();
        self.done
    }

    fn end_next(&mut self, failed: bool) {
        if let Some(page) = self.pages[self.done].take() {
            inside(|cache| cache.end_writeback(page.0, failed));
            let_go(page);
        }
        self.done += 1;
    }
}

impl Drop for Run<'_> {
    /// Pages that were not written, because the backing failed or panicked, stay dirty.
    fn drop(&mut self) {
        while self.done < self.count {
            self.end_next(true);
        }
    }
}

fn let_go(page: RawPage) {
    waiting(|cache| cache.unlatch_shared(page.0));
    // SAFETY: the pin came with the page from the look-up of dirty pages.
    unsafe { page.unpin() };
}

pub(crate) fn write_range<'a, B: Backing>(
    core: &'a MappingCore,
    backing: &B,
    range: Range<u64>,
    most: usize,
    mode: Mode,
) -> Written {
    let mut written = Written::default();
    let mut run = Run::new(core);
    let mut from = range.start;
    while written.pages + run.count < most {
        let mut found = [PageNo(0); RUN];
        let count = core.raw.dirty_pages(from, &mut found);
        for page in found[..count].iter().copied().map(RawPage) {
            let index = page.index();
            from = index + 1;
            let is_wanted = range.contains(&index) && written.pages + run.count < most;
            if !is_wanted {
                // SAFETY: the pin came with the page.
                unsafe { page.unpin() };
                continue;
            }
            let mut write_run = |run: &mut Run<'a>| {
                written.pages += core::mem::replace(run, Run::new(core)).write(backing);
            };
            if !waiting(|cache| cache.try_latch_shared(page.0)) {
                if mode == Mode::Background {
                    // SAFETY: the pin came with the page.
                    unsafe { page.unpin() };
                    continue;
                }
                write_run(&mut run);
                waiting(|cache| cache.latch_shared(page.0));
            }
            if mode == Mode::Flush && page.state().has(State::WRITEBACK) {
                write_run(&mut run);
                waiting(|cache| cache.wait_writeback(page.0));
            }
            match begin(backing, page, mode) {
                Begun::Yes => {
                    // A page in writeback keeps its index.
                    let index = page.index();
                    if !run.takes(index) {
                        write_run(&mut run);
                    }
                    run.push(index, page);
                }
                Begun::Withheld => {
                    written.withheld += 1;
                    let_go(page);
                }
                Begun::No => let_go(page),
            }
        }
        if count < found.len() || from >= range.end {
            break;
        }
    }
    written.pages += run.write(backing);
    written
}

enum Begun {
    Yes,
    No,
    Withheld,
}

/// Marks a latched page as being written, if the backing allows it and the page is still dirty.
fn begin<B: Backing>(backing: &B, page: RawPage, mode: Mode) -> Begun {
    if !backing.may_write(page.private(), mode == Mode::Flush) {
        return Begun::Withheld;
    }
    if inside(|cache| cache.begin_writeback(page.0)) { Begun::Yes } else { Begun::No }
}

pub(crate) fn is_any_dirty(core: &MappingCore) -> bool {
    let mut found = [PageNo(0)];
    let is_any = core.raw.dirty_pages(0, &mut found) > 0;
    if is_any {
        // SAFETY: the pin came with the page.
        unsafe { RawPage(found[0]).unpin() };
    }
    is_any
}

pub(crate) fn wait_writeback(core: &MappingCore, range: Range<u64>) {
    let mut from = range.start;
    loop {
        let mut found = [PageNo(0); RUN];
        let count = core.raw.pages_in_writeback(from, &mut found);
        for page in found[..count].iter().copied().map(RawPage) {
            let index = page.index();
            from = index + 1;
            if range.contains(&index) {
                waiting(|cache| cache.wait_writeback(page.0));
            }
            // SAFETY: the pin came with the page.
            unsafe { page.unpin() };
        }
        if count < found.len() || from >= range.end {
            return;
        }
    }
}

/// Writes all dirty pages of a range and waits for pages that other tasks write.
///
/// # Errors
/// [`Error::Withheld`], or an error of the backing since the cursor (`None`: since the last flush).
pub(crate) fn flush<B: Backing>(
    core: &MappingCore,
    backing: &B,
    range: Range<u64>,
    cursor: Option<&mut ErrorCursor>,
) -> Result<(), Error> {
    core.check_process()?;
    // Waits first: another task's write may fail, or may have begun before the page's last change.
    wait_writeback(core, range.clone());
    let written = write_range(core, backing, range.clone(), usize::MAX, Mode::Flush);
    wait_writeback(core, range);
    match core.news(cursor) {
        Some(errno) => Err(Error::Write(OsError(errno))),
        None if written.withheld > 0 => Err(Error::Withheld { pages: written.withheld }),
        None => Ok(()),
    }
}

/// Flushes all pages, and syncs the backing. A failed sync is recorded as an error of the mapping,
/// like a failed write (`vfs_fsync_range`, `file_check_and_advance_wb_err`, Linux 6.6).
///
/// # Errors
/// Same as [`flush`], or the error of the sync.
pub(crate) fn sync<B: Backing>(
    core: &MappingCore,
    backing: &B,
    mut cursor: Option<&mut ErrorCursor>,
) -> Result<(), Error> {
    flush(core, backing, 0..u64::MAX, cursor.as_deref_mut())?;
    let synced = backing.sync();
    if let Err(OsError(errno)) = synced {
        core.note_sync_error(errno);
    }
    // A recorded error counts even if this sync succeeded, because the backing may have reported it
    // to another flusher. The error of this sync counts even if the cursor is past it already.
    match core.news(cursor) {
        Some(errno) => Err(Error::Write(OsError(errno))),
        None => synced.map_err(Error::Write),
    }
}
