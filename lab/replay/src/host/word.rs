//! The words that simulated tasks share: those of locks, queues and barriers of a replay.
//!
//! A simulated machine knows by the address which words have a cache line in common. An allocator
//! puts a word where it likes, other ones in every process, so each has a line of its own here. A
//! word that is gone leaves its line to the next one, in an order that no address has a part in.

use quarry_sys::primitive::AtomicU32;
use std::array;
use std::cell::RefCell;
use std::fmt;
use std::ops::Deref;

/// Lines of a page.
const LINES: usize = 64;

/// One cache line.
#[repr(align(64))]
struct Line(AtomicU32);

/// The lines of a machine's replay begin at the same offset of a page wherever they are.
#[repr(align(4096))]
struct Page([Line; LINES]);

/// Lines of the machine of this thread that no word has.
#[derive(Default)]
struct Pool {
    /// Machines of this thread so far.
    machine: u32,
    /// The one that is given away next comes last.
    free: Vec<&'static Line>,
}

std::thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

/// From now on words get lines that no earlier machine of this thread had: what is left of that
/// machine may still use its own.
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
                // A page for each 64 words that a replay has at once; it is never given back.
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
        // Where the thread ends, the pool may be gone before the word.
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
