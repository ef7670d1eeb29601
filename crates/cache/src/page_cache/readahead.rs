//! Read-ahead on demand: which pages to read together when one is missed, or when a reader comes to
//! the page that was marked for this (`mm/readahead.c`, Linux 6.6).
//!
//! A *window* is what one request reads: `pages` pages from `start` on. The last `ahead` of them
//! were not asked for; the first of those is marked (`State::READAHEAD`), and its first use starts
//! the next window while the reader still has pages to use:
//!
//! ```text
//! start                      start + size - ahead                start + size
//! |  pages that were asked for  |M  pages read ahead ..............|
//! ```
//!
//! A stream that goes on doubles its windows up to the most; a miss that continues no stream reads
//! what was asked for, and leaves the stream that is known alone. Interleaved streams find their
//! sizes again from what is cached behind their markers.
//!
//! Invariant: `ahead <= size <= most`, where a mapping has one `most` for all its requests.

use quarry_sys::broken::{Broken, Check};

/// Most bytes of a window by default: 128 KiB (`VM_READAHEAD_PAGES`, `include/linux/pagemap.h`,
/// Linux 6.6).
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
    /// The first page that is asked for, or the marked one.
    pub index: u64,
    /// Number of pages asked for, 1 at least.
    pub pages: u32,
    /// Most pages of a window, 1 at least.
    pub most: u32,
    /// Its cause.
    pub trigger: Trigger,
}

/// Pages to read in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first of them.
    pub start: u64,
    /// Number of them; 0 where there is nothing to read.
    pub pages: u32,
    /// The one to mark.
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
    /// The page behind the last one that was missed; 0 where none was.
    next: u64,
}

impl ReadAhead {
    /// No stream yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { start: 0, size: 0, ahead: 0, next: 0 }
    }

    /// The window for a request; `is_cached` says what is there already. After a miss the window
    /// may begin behind the missed page: where that was the marked one, and was evicted before its
    /// use, its own reader reads it. O(most) looks.
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
            // Where the file begins, where much is asked for, and where the page follows the one
            // that was missed last, or is that one.
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

    /// A stream begins.
    fn begin(&mut self, index: u64, pages: u32, most: u32) -> Window {
        self.start = index;
        self.size = first_size(pages, most);
        self.ahead = if self.size > pages { self.size - pages } else { self.size };
        self.read(index, most)
    }

    /// A marker of a stream that this is not the record of: what is cached behind it says how far
    /// that stream has come.
    fn find_stream(&mut self, need: Need, mut is_cached: impl FnMut(u64) -> bool) -> Window {
        let Need { index, pages, most, .. } = need;
        let distance = (1..=most).find(|distance| !is_cached(index + u64::from(*distance)));
        let Some(distance) = distance else { return Window::NONE };
        self.start = index + u64::from(distance);
        self.size = next_size((distance + pages).min(most), most);
        self.ahead = self.size;
        self.read(index, most)
    }

    /// A miss behind pages that a stream may have left in the cache, or a random one.
    fn join_or_read(&mut self, need: Need, mut is_cached: impl FnMut(u64) -> bool) -> Window {
        let Need { index, pages, most, .. } = need;
        let front = u64::from(most).min(index) as u32;
        let missing = (1..=front).find(|distance| !is_cached(index - u64::from(*distance)));
        let history = missing.map_or(front, |distance| distance - 1);
        if history <= pages {
            return Window { start: index, pages, marker: None };
        }
        // All that precedes is cached: the stream has begun with the file.
        let history = if u64::from(history) >= index { history * 2 } else { history };
        self.start = index;
        self.size = (history + pages).min(most);
        self.ahead = 1;
        self.read(index, most)
    }

    /// The window that the record describes now. Where the request itself is the marked page of it,
    /// the window after it comes along.
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
