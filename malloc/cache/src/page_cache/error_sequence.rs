//! Errors of writeback: a *flusher*, a task that syncs, gets an error once (`lib/errseq.c`, 4.13).
//!
//! ```text
//! | count : 19 | seen : 1 | errno : 12 |
//! ```
//!
//! A new error replaces the old one; if a flusher has seen the old error, the count is incremented
//! as well. A flusher finds new errors by comparing the word with the value that it saw last. A new
//! flusher also gets an old error that no flusher has seen.

use quarry_sys::primitive::{AtomicU32, Ordering};

const ERRNO: u32 = (1 << 12) - 1;
const SEEN: u32 = 1 << 12;
const COUNT: u32 = 1 << 13;

/// The errors of one mapping.
#[derive(Debug, Default)]
pub struct ErrorSequence {
    word: AtomicU32,
}

/// The point up to which a flusher knows the errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCursor(u32);

impl ErrorSequence {
    /// Records an error, 1 to 4,095. O(1).
    pub fn record(&self, errno: i32) {
        let errno = errno.unsigned_abs().clamp(1, ERRNO);
        let mut now = self.word.load(Ordering::Acquire);
        loop {
            let counted = if now & SEEN == 0 { now } else { now.wrapping_add(COUNT) };
            let next = counted & !(ERRNO | SEEN) | errno;
            match self.word.compare_exchange(now, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(changed) => now = changed,
            }
        }
    }

    /// A cursor for a new flusher, which will learn of an error that no flusher has seen.
    #[must_use]
    pub fn cursor(&self) -> ErrorCursor {
        let now = self.word.load(Ordering::Acquire);
        ErrorCursor(if now & SEEN == 0 { 0 } else { now })
    }

    /// Returns the last error since the cursor, and moves the cursor to it. O(1).
    pub fn advance(&self, cursor: &mut ErrorCursor) -> Option<i32> {
        let now = self.word.load(Ordering::Acquire);
        if now == cursor.0 {
            return None;
        }
        // If another task records an error before this step, the flusher gets the newer error.
        let before = self.word.fetch_or(SEEN, Ordering::AcqRel);
        cursor.0 = before | SEEN;
        Some((before & ERRNO) as i32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_flusher_learns_of_an_error_once() {
        let errors = ErrorSequence::default();
        let (mut first, mut second) = (errors.cursor(), errors.cursor());
        assert_eq!(errors.advance(&mut first), None);
        errors.record(5);
        assert_eq!((errors.advance(&mut first), errors.advance(&mut first)), (Some(5), None));
        assert_eq!((errors.advance(&mut second), errors.advance(&mut second)), (Some(5), None));
        errors.record(5);
        assert_eq!(errors.advance(&mut first), Some(5), "the same error again is another one");
    }

    #[test]
    fn a_new_flusher_learns_of_what_nobody_has_seen() {
        let errors = ErrorSequence::default();
        errors.record(28);
        let mut late = errors.cursor();
        assert_eq!(errors.advance(&mut late), Some(28));
        let mut later = errors.cursor();
        assert_eq!(errors.advance(&mut later), None, "it has been reported");
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn flushers_see_the_last_of_the_errors_since_they_looked(
            steps in prop::collection::vec((0usize..5, 1i32..40), 1..200),
        ) {
            let errors = ErrorSequence::default();
            let mut all: Vec<i32> = Vec::new();
            let mut cursors = [errors.cursor(); 3];
            let mut seen = [0; 3];
            for (who, errno) in steps {
                if who < 3 {
                    let news = all[seen[who]..].last().copied();
                    prop_assert_eq!(errors.advance(&mut cursors[who]), news);
                    seen[who] = all.len();
                } else {
                    all.push(errno);
                    errors.record(errno);
                }
            }
        }
    }
}
