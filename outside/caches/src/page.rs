//! Pages, their keys, and the bytes by which a reader recognises the right page.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// Words of a page.
pub const WORDS: usize = PAGE_BYTES / size_of::<u64>();
/// Pages of a file: 64 MiB.
pub const FILE_PAGES: u32 = 1 << 14;

/// The bytes of a page. The words are atomic because an optimistic reader may read while another
/// thread changes the page, and checks for that afterwards. A relaxed load is a plain load.
#[repr(transparent)]
pub struct Page([AtomicU64; WORDS]);

/// A page's place: the number of its file, and its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Number of the file.
    pub file: u32,
    /// Index within the file.
    pub index: u64,
}

/// The part of a page that a lookup reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The word that differs from that of every other page.
    Word,
    /// Every word.
    Whole,
}

impl Key {
    /// The key of page `number`, counted through all files.
    #[inline(always)]
    #[must_use]
    pub fn of(number: u32) -> Self {
        Self { file: number / FILE_PAGES, index: u64::from(number % FILE_PAGES) }
    }

    /// The number of the page, counted through all files.
    #[inline(always)]
    #[must_use]
    pub fn number(self) -> u32 {
        self.file * FILE_PAGES + self.index as u32
    }

    #[inline(always)]
    fn mixed(self) -> u64 {
        let folded = u64::from(self.number()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        folded ^ folded >> 29
    }

    #[inline(always)]
    fn word(self, place: usize) -> u64 {
        self.mixed().wrapping_add(place as u64)
    }

    /// The index of the word that [`Reading::Word`] reads. It differs from page to page, so that
    /// these words do not all fall into one set of the processor's caches.
    #[inline(always)]
    fn place(self) -> usize {
        (self.mixed() >> 40) as usize % WORDS
    }

    /// The result of [`Page::read`] for the page of this key.
    #[inline(always)]
    #[must_use]
    pub fn expected(self, reading: Reading) -> u64 {
        match reading {
            Reading::Word => self.word(self.place()),
            Reading::Whole => {
                (0..WORDS).fold(0, |sum: u64, place| sum.rotate_left(1) ^ self.word(place))
            }
        }
    }
}

impl Page {
    /// A page of zeroes.
    #[must_use]
    pub fn zeroed() -> Self {
        Self([const { AtomicU64::new(0) }; WORDS])
    }

    /// Writes the bytes of the page with this key.
    #[inline]
    pub fn write(&self, key: Key) {
        for (place, word) in self.0.iter().enumerate() {
            word.store(key.word(place), Relaxed);
        }
    }

    /// Reads the part of the page that `reading` selects. The page is that of `key` if the result
    /// is [`Key::expected`].
    #[inline(always)]
    #[must_use]
    pub fn read(&self, key: Key, reading: Reading) -> u64 {
        match reading {
            Reading::Word => self.0[key.place()].load(Relaxed),
            Reading::Whole => {
                self.0.iter().fold(0, |sum, word| sum.rotate_left(1) ^ word.load(Relaxed))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_numbers_are_the_same() {
        for number in [0, 1, FILE_PAGES - 1, FILE_PAGES, 5 * FILE_PAGES + 77] {
            assert_eq!(Key::of(number).number(), number);
        }
    }

    #[test]
    fn a_wrong_page_or_word_is_found_out() {
        let (one, other) = (Key::of(7), Key::of(8));
        let page = Page::zeroed();
        page.write(one);
        for reading in [Reading::Word, Reading::Whole] {
            assert_eq!(page.read(one, reading), one.expected(reading));
            assert_ne!(page.read(other, reading), other.expected(reading));
        }
        page.0[100].store(0, Relaxed);
        assert_ne!(page.read(one, Reading::Whole), one.expected(Reading::Whole));
    }
}
