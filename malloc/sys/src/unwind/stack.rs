//! Reads words of a stack whose end is not known.

use crate::peek;

/// Bytes that the kernel checks at a time; pages are at least as large.
const PAGE: usize = 4096;
/// Maximum number of pages by which one step may go up the stack.
const MOST_PAGES: usize = 64;

/// The part of a stack that is known to be readable: consecutive whole pages.
pub(super) struct Stack {
    begin: usize,
    end: usize,
}

impl Stack {
    /// The stack of the running function, whose stack pointer is `pointer`.
    ///
    /// # Safety
    /// The word at `pointer` is on the running thread's stack.
    pub(super) unsafe fn of(pointer: usize) -> Self {
        let page = pointer & !(PAGE - 1);
        Self { begin: pointer, end: page + PAGE }
    }

    /// Continues at another stack pointer, for example that of code that a signal has interrupted;
    /// false if the memory there cannot be read.
    pub(super) fn go_to(&mut self, pointer: usize) -> bool {
        let page = pointer & !(PAGE - 1);
        if pointer < self.begin || page >= self.end {
            if !pointer.is_multiple_of(8) || peek::is_zero(page).is_none() {
                return false;
            }
            self.end = page + PAGE;
        }
        self.begin = pointer;
        true
    }

    /// The word at `address`, if that is on the same stack and not below the trace's position.
    pub(super) fn word(&mut self, address: usize) -> Option<usize> {
        let end = address.checked_add(8)?;
        if !address.is_multiple_of(8) || address < self.begin || end > self.end + MOST_PAGES * PAGE
        {
            return None;
        }
        while end > self.end {
            // Asks the kernel, because this page may be the first after the stack.
            peek::is_zero(self.end)?;
            self.end += PAGE;
        }
        // SAFETY: the word is aligned. The first page holds the running thread's frames, and the
        // kernel has read the others. All belong to live callers, so they stay mapped.
        Some(unsafe { (address as *const usize).read_volatile() })
    }
}
