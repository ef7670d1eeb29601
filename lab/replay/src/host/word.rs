//! Words that simulated tasks share: the words of a replay's locks, queues and barriers.
//!
//! A simulated machine knows by address which words share a cache line. An ordinary allocator
//! places words differently in every process, so each word here has its own cache line. A dropped
//! word leaves its line to the next new word, in an order that does not depend on addresses.

use quarry_sys::primitive::AtomicU32;
use std::cell::RefCell;
use std::ops::Deref;
use std::{array, fmt};

const LINES: usize = 64;

#[repr(align(64))]
struct Line(AtomicU32);

/// The lines of a replay's machine. They always begin at the same offset within a page.
#[repr(align(4096))]
struct Page([Line; LINES]);

/// Lines of the current machine of this thread that no word uses.
#[derive(Default)]
struct Pool {
    /// Machines that this thread has had so far.
    machine: u32,
    /// Free lines; the last one is used next.
    free: Vec<&'static Line>,
}

std::thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

/// Makes the words of this thread's next machine use lines that no earlier machine used, because
/// words that an earlier machine left may still use their lines.
pub(super) fn new_machine() {
    POOL.with_borrow_mut(|pool| {
        pool.machine += 1;
        pool.free.clear();
    });
}

/// A word on a line of its own, 0 at first.
pub(super) struct Word {
    line: &'static Line,
    machine: u32,
}

impl Default for Word {
    fn default() -> Self {
        POOL.with_borrow_mut(|pool| {
            if pool.free.is_empty() {
                // Allocates a page for each 64 words that a replay has at once. It is never freed.
                let page: &'static Page =
                    Box::leak(Box::new(Page(array::from_fn(|_| Line(AtomicU32::new(0))))));
                pool.free.extend(page.0.iter().rev());
            }
            let line = pool.free.pop().expect("a page has lines");
            line.0.raw().store(0, std::sync::atomic::Ordering::SeqCst);
            Self { line, machine: pool.machine }
        })
    }
}

impl Drop for Word {
    fn drop(&mut self) {
        // At the end of the thread the pool may be dropped before the word is.
        let _ = POOL.try_with(|pool| {
            let mut pool = pool.borrow_mut();
            if pool.machine == self.machine {
                pool.free.push(self.line);
            }
        });
    }
}

impl Deref for Word {
    type Target = AtomicU32;

    fn deref(&self) -> &AtomicU32 {
        &self.line.0
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Word")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_sys::primitive::Ordering::SeqCst;

    fn address(word: &Word) -> usize {
        std::ptr::from_ref(&**word) as usize
    }

    #[test]
    fn each_has_a_line_and_leaves_it_to_the_next() {
        new_machine();
        let words: Vec<Word> = (0..=LINES).map(|_| Word::default()).collect();
        let mut lines: Vec<usize> = words.iter().map(|word| address(word) / 64).collect();
        assert_eq!(lines[0] % LINES, 0, "a page begins with the first");
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), words.len());
        words[7].store(3, SeqCst);
        let mut words = words;
        let gone = address(&words.swap_remove(7));
        let next = Word::default();
        assert_eq!((address(&next), next.load(SeqCst)), (gone, 0));
    }

    #[test]
    fn a_word_of_an_earlier_machine_keeps_its_line() {
        new_machine();
        let old = Word::default();
        let line = address(&old);
        new_machine();
        drop(old);
        assert_ne!(address(&Word::default()), line);
    }
}
