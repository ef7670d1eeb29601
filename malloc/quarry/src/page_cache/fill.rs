//! Reads pages into the cache. One task fills a page, and reads ahead, while others wait for it.
//!
//! A *run* is a row of neighbouring new pages that one task has made, and reads together. Tasks
//! make pages in the order of their indexes, so no two tasks wait for each other's pages. If a run
//! is dropped with unfilled pages, because the backing failed or panicked, it removes them from the
//! mapping, and the tasks that wait for them get the error.

use super::backing::Backing;
use super::mapping_core::MappingCore;
use super::raw_mapping::{Effort, RawPage};
use crate::error::{Error, OsError};
use core::ops::Range;
use quarry_cache::page_cache::{Trigger, Window};

/// Maximum number of pages of a run: 128 KiB of small pages.
const RUN: usize = 32;

struct Run<'a> {
    core: &'a MappingCore,
    first: u64,
    pages: [Option<RawPage>; RUN],
    count: usize,
    /// Number of filled pages, the first ones; the run does not own them any more.
    filled: usize,
    errno: i32,
}

impl<'a> Run<'a> {
    fn new(core: &'a MappingCore, first: u64) -> Self {
        // The error that waiting tasks get if the backing panics.
        let errno = libc::EIO;
        Self { core, first, pages: [None; RUN], count: 0, filled: 0, errno }
    }

    fn push(&mut self, page: RawPage) {
        self.pages[self.count] = Some(page);
        self.count += 1;
    }

    /// Ends the fill of the next page; returns the page, pinned. A page that was not `asked` for
    /// gets the flag for read-ahead, and also becomes the marker if its index is `marker`.
    fn finish_next(&mut self, marker: Option<u64>, asked: bool) -> Option<RawPage> {
        let page = self.pages[self.filled].take()?;
        if !asked {
            page.mark_read_ahead(marker == Some(self.first + self.filled as u64));
        }
        self.filled += 1;
        // SAFETY: this task has made the page, and its bytes are those of the backing.
        unsafe { page.fill_done() };
        Some(page)
    }

    /// Reads all pages. The first page stays pinned for the caller if `kept`.
    ///
    /// # Errors
    /// The error of the first unfilled page; the pages before it are filled.
    fn read<B: Backing>(
        &mut self,
        backing: &B,
        marker: Option<u64>,
        kept: bool,
    ) -> Result<(), OsError> {
        let bytes = self.core.page_bytes;
        // Bytes read so far into the page number `filled`.
        let mut within = 0;
        while self.filled < self.count {
            let offset = (self.first + self.filled as u64) * bytes as u64 + within as u64;
            let moved = match self.read_some(backing, offset, within) {
                Ok(0) if offset < backing.size() => Err(OsError(libc::EIO)),
                Ok(0) if within == 0 => Err(OsError(libc::ENODATA)),
                Ok(0) => {
                    // The backing ends here: the rest of its last page is zero.
                    self.bytes_of(self.filled)[within..].fill(0);
                    Ok(bytes - within)
                }
                moved => moved,
            };
            match moved {
                Ok(moved) => within += moved,
                Err(error) => {
                    self.errno = error.0;
                    return Err(error);
                }
            }
            while within >= bytes && self.filled < self.count {
                within -= bytes;
                let is_kept = kept && self.filled == 0;
                if let Some(page) = self.finish_next(marker, is_kept).filter(|_| !is_kept) {
                    // SAFETY: this task made the page, and does not need its pin any more.
                    unsafe { page.unpin() };
                }
            }
        }
        Ok(())
    }

    /// Calls the backing once: for the rest of a page, or for all unfilled pages.
    fn read_some<B: Backing>(
        &mut self,
        backing: &B,
        offset: u64,
        within: usize,
    ) -> Result<usize, OsError> {
        if within > 0 {
            let rest = &mut self.bytes_of(self.filled)[within..];
            return backing.read(offset, rest).map(|read| read.min(rest.len()));
        }
        let mut pages: [&mut [u8]; RUN] = core::array::from_fn(|_| &mut [][..]);
        let lacking = self.count - self.filled;
        for (place, number) in pages.iter_mut().zip(self.filled..self.count) {
            *place = self.bytes_of(number);
        }
        let read = match lacking {
            1 => backing.read(offset, pages[0])?,
            _ => backing.read_pages(offset, &mut pages[..lacking])?,
        };
        Ok(read.min(lacking * self.core.page_bytes))
    }

    fn bytes_of<'p>(&self, number: usize) -> &'p mut [u8] {
        let Some(page) = self.pages[number] else { return &mut [] };
        // SAFETY: until the page is filled, the run has its exclusive latch and its pin, and makes
        // one slice of its bytes at a time. They are initialised: the system zeroes memory.
        unsafe { core::slice::from_raw_parts_mut(page.address().as_ptr(), self.core.page_bytes) }
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        for page in self.pages[self.filled..self.count].iter_mut().filter_map(Option::take) {
            // SAFETY: this task made the page, and no task has used it.
            unsafe { page.fill_failed(self.errno) };
        }
    }
}

/// Reads a page that is not cached, and pages ahead with it. Returns the page, pinned.
pub(crate) fn read_missed<B: Backing>(
    core: &MappingCore,
    backing: &B,
    index: u64,
) -> Result<RawPage, Error> {
    core.check_process()?;
    let mut end = end_of(core, backing.size());
    if index >= end {
        // Another task may be filling a new page after the end of the backing.
        if let Some(page) = core.raw.get_waiting(index)? {
            return Ok(page);
        }
        end = end_of(core, backing.size_anew());
        if index >= end {
            return Err(Error::OutOfRange { index, size: backing.size() });
        }
    }
    let slot = core.get_or_alloc(index, Effort::Every)?;
    if !slot.is_new {
        return Ok(slot.page);
    }
    let mut run = Run::new(core, index);
    run.push(slot.page);
    let window = core.window(index, Trigger::Miss).map(|window| window.before(end));
    let (ahead, marker) = match window {
        Some(window) => (window.start..window.start + u64::from(window.pages), window.marker),
        None => (index..index + 1, None),
    };
    let beside = if ahead.start == index { index + 1..ahead.end } else { index + 1..index + 1 };
    let next = extend(&mut run, beside);
    read_first(run, backing, marker)?;
    // The pages of the window that are not in the run.
    read_ahead(core, backing, next.max(ahead.start)..ahead.end, marker);
    Ok(slot.page)
}

/// Reads a run whose first page the caller has asked for. If the backing refuses, asks once more
/// for that page alone, because the refusal may concern the pages read ahead.
fn read_first<B: Backing>(mut run: Run<'_>, backing: &B, marker: Option<u64>) -> Result<(), Error> {
    let refused = match run.read(backing, marker, true) {
        Err(error) if run.filled == 0 => error,
        _ => return Ok(()),
    };
    if run.count > 1 {
        let mut alone = Run::new(run.core, run.first);
        alone.pages[0] = run.pages[0].take();
        alone.count = 1;
        alone.errno = run.errno;
        drop(run);
        return alone.read(backing, None, true).map_err(|error| refusal(&alone, backing, error));
    }
    Err(refusal(&run, backing, refused))
}

fn refusal<B: Backing>(run: &Run<'_>, backing: &B, error: OsError) -> Error {
    match error {
        OsError(libc::ENODATA) if run.first >= end_of(run.core, backing.size()) => {
            Error::OutOfRange { index: run.first, size: backing.size() }
        }
        error => Error::Read { index: run.first, error },
    }
}

/// Adds pages until one is cached, memory is short or the run is full; returns the next index.
fn extend(run: &mut Run<'_>, range: Range<u64>) -> u64 {
    for index in range.clone() {
        if run.count == RUN || run.core.raw.is_cached(index) {
            return index;
        }
        match run.core.raw.get_or_alloc(index, Effort::Easy) {
            Ok(slot) if slot.is_new => run.push(slot.page),
            Ok(slot) => {
                // SAFETY: this task has the pin, and does not need it.
                unsafe { slot.page.unpin() };
                return index;
            }
            Err(_) => return index,
        }
    }
    range.end
}

/// Reads those pages of a range that are not cached, until memory is short or the backing refuses.
pub(crate) fn read_ahead<B: Backing>(
    core: &MappingCore,
    backing: &B,
    range: Range<u64>,
    marker: Option<u64>,
) {
    let mut index = range.start;
    while index < range.end {
        let mut run = Run::new(core, index);
        let next = extend(&mut run, index..range.end);
        if run.count > 0 {
            if run.read(backing, marker, false).is_err() {
                return;
            }
        } else if !core.raw.is_cached(index) {
            // No memory is left for read-ahead, for which no task waits.
            return;
        }
        index = if run.count > 0 { next } else { index + 1 };
    }
}

/// Reads the pages of a range for later use, as far as the backing has them.
pub(crate) fn prefetch<B: Backing>(core: &MappingCore, backing: &B, range: Range<u64>) {
    let mut end = end_of(core, backing.size());
    if range.end > end {
        end = end_of(core, backing.size_anew());
    }
    read_ahead(core, backing, range.start..range.end.min(end), None);
}

/// Reads the next window, after a task has used the marked page of the previous window.
#[cold]
pub(crate) fn read_after_marker<B: Backing>(core: &MappingCore, backing: &B, index: u64) {
    if core.is_forked() {
        return;
    }
    let end = end_of(core, backing.size());
    if let Some(window) = core.window(index, Trigger::Marker) {
        let Window { start, pages, marker } = window.before(end);
        read_ahead(core, backing, start..start + u64::from(pages), marker);
    }
}

/// The first index after the end of a backing of `size` bytes, or after the last possible page.
fn end_of(core: &MappingCore, size: u64) -> u64 {
    size.div_ceil(core.page_bytes as u64).min(core.most_pages())
}
