//! Read-ahead on demand: decides which pages to read together at a miss, or when a reader comes to
//! a page that was marked for this (`mm/readahead.c`, Linux 6.6).
//!
//! A *window* is the `size` pages from `start` on that one request reads. Its last `ahead` pages
//! were not requested; the first of these is marked (`State::READAHEAD`), and its first use starts
//! the next window while the reader still has pages to use:
//!
//! ```text
//! start                      start + size - ahead                start + size
//! |  pages that were asked for  |M  pages read ahead ..............|
//! ```
//!
//! A continued stream doubles its windows up to `most`. A miss that continues no stream reads only
//! the requested pages, and does not change the recorded stream. If streams interleave, the sizes
//! of their windows are derived from the pages cached after their markers.
//!
//! Invariant: `ahead <= size <= most`, if all requests of a mapping have the same `most`.

use quarry_sys::broken::{Broken, Check};

/// Maximum number of bytes of a window by default (`VM_READAHEAD_PAGES`, Linux 6.6).
pub const READAHEAD_BYTES: usize = 128 << 10;

/// The cause of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The page is not cached.
    Miss,
    /// The page is cached, and marked.
    Marker,
}

/// A request to read ahead.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// The first requested page, or the marked page.
    pub index: u64,
    /// Number of requested pages, at least 1.
    pub pages: u32,
    /// Largest window in pages, at least 1.
    pub most: u32,
    /// The cause of the request.
    pub trigger: Trigger,
}

/// Pages to read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first page.
    pub start: u64,
    /// Number of pages; 0 if there is nothing to read.
    pub pages: u32,
    /// The page to mark.
    pub marker: Option<u64>,
}

impl Window {
    const NONE: Self = Self { start: 0, pages: 0, marker: None };

    /// The window without the pages from `end` on.
    #[must_use]
    pub fn before(self, end: u64) -> Self {
        let pages = end.saturating_sub(self.start).min(u64::from(self.pages)) as u32;
        Self { pages, marker: self.marker.filter(|marker| *marker < end), ..self }
    }
}

/// The last window of a stream (`struct file_ra_state`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadAhead {
    start: u64,
    size: u32,
    ahead: u32,
    /// The page after the last miss; 0 if there was none.
    next: u64,
}

impl ReadAhead {
    /// Returns the window for a request; `is_cached` tests a page. If the missed page is an evicted
    /// marker, the window begins beyond it, and the caller reads that page itself. O(most).
    pub fn window(&mut self, need: Need, is_cached: impl FnMut(u64) -> bool) -> Window {
        debug_assert!(need.pages > 0 && need.most > 0, "a request is for a page at least");
        let window = self.choose(need, is_cached);
        if need.trigger == Trigger::Miss {
            self.next = need.index + u64::from(need.pages);
        }
        window
    }

    fn choose(&mut self, need: Need, is_cached: impl FnMut(u64) -> bool) -> Window {
        let Need { index, pages, most, trigger } = need;
        let goes_on =
            self.size > 0 && (index == self.end() - u64::from(self.ahead) || index == self.end());
        if goes_on && index > 0 {
            self.start = self.end();
            self.size = next_size(self.size, most);
            self.ahead = self.size;
            return self.read(index, most);
        }
        match trigger {
            Trigger::Marker => self.find_stream(need, is_cached),
            // A miss at the file's start, or of many pages, or at or right after the last miss.
            Trigger::Miss if index == 0 || pages > most || self.follows(index) => {
                self.begin(index, pages, most)
            }
            Trigger::Miss => self.join_or_read(need, is_cached),
        }
    }

    fn end(&self) -> u64 {
        self.start + u64::from(self.size)
    }

    fn follows(&self, index: u64) -> bool {
        self.next > 0 && (index == self.next || index + 1 == self.next)
    }

    fn begin(&mut self, index: u64, pages: u32, most: u32) -> Window {
        self.start = index;
        self.size = first_size(pages, most);
        self.ahead = if self.size > pages { self.size - pages } else { self.size };
        self.read(index, most)
    }

    /// Handles a marker of another stream: the cached pages after it show how far it has come.
    fn find_stream(&mut self, need: Need, mut is_cached: impl FnMut(u64) -> bool) -> Window {
        let Need { index, pages, most, .. } = need;
        let distance = (1..=most).find(|distance| !is_cached(index + u64::from(*distance)));
        let Some(distance) = distance else { return Window::NONE };
        self.start = index + u64::from(distance);
        self.size = next_size((distance + pages).min(most), most);
        self.ahead = self.size;
        self.read(index, most)
    }

    /// Handles a random miss, or one after cached pages that may belong to another stream.
    fn join_or_read(&mut self, need: Need, mut is_cached: impl FnMut(u64) -> bool) -> Window {
        let Need { index, pages, most, .. } = need;
        let front = u64::from(most).min(index) as u32;
        let missing = (1..=front).find(|distance| !is_cached(index - u64::from(*distance)));
        let history = missing.map_or(front, |distance| distance - 1);
        if history <= pages {
            return Window { start: index, pages, marker: None };
        }
        // All pages before the missed one are cached, so the stream began at the start of the file.
        let history = if u64::from(history) >= index { history * 2 } else { history };
        self.start = index;
        self.size = (history + pages).min(most);
        self.ahead = 1;
        self.read(index, most)
    }

    /// Returns the recorded window, with the next one if the request is for its marked page.
    fn read(&mut self, index: u64, most: u32) -> Window {
        if index == self.start && self.size == self.ahead {
            let more = next_size(self.size, most);
            if self.size + more <= most {
                self.ahead = more;
                self.size += more;
            } else {
                self.size = most;
                self.ahead = most / 2;
            }
        }
        let marker = (self.ahead > 0).then(|| self.end() - u64::from(self.ahead));
        Window { start: self.start, pages: self.size, marker }
    }

    /// Checks the equation of the type for requests of up to `most` pages.
    ///
    /// # Errors
    /// The equation that does not hold.
    pub fn validate(&self, most: u32) -> Result<(), Broken> {
        let check = Check::of("readahead");
        check.that(self.ahead <= self.size && self.size <= most, "ahead <= size <= most")
    }
}

/// Pages of a stream's first window (`get_init_ra_size`).
fn first_size(pages: u32, most: u32) -> u32 {
    let size = pages.min(most).next_power_of_two();
    let grown = match size {
        size if size <= most / 32 => size * 4,
        size if size <= most / 4 => size * 2,
        _ => most,
    };
    grown.min(most)
}

/// Pages of the window after one of `size` pages (`get_next_ra_size`).
fn next_size(size: u32, most: u32) -> u32 {
    match size {
        size if size < most / 16 => size * 4,
        size if size <= most / 2 => size * 2,
        _ => most,
    }
}

#[cfg(test)]
#[path = "readahead/tests.rs"]
mod tests;
