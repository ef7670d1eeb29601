//! State that tasks share besides Quarry's locks: address spaces and barriers.

use crate::task::{here, shared_line};
use quarry_sys::primitive::Access;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// The lock of an address space (`mmap_sem` of Linux): page faults share it, calls that change
/// mappings exclude all others. A page fault still takes its line twice, which stops page faults
/// of many threads from scaling. A task that cannot have it sleeps; first come, first served.
pub struct AddressSpace {
    /// A line of its own (see [`shared_line`]), and the key of those who sleep.
    line: u32,
    readers: Cell<u32>,
    has_writer: Cell<bool>,
    /// Keys of those who wait, and whether they write.
    waiting: RefCell<VecDeque<(usize, bool)>>,
    /// Numbers those who wait.
    tickets: Cell<usize>,
}

/// A share of an address space, or all of it, until it is dropped.
pub struct Held<'a> {
    space: &'a AddressSpace,
    writes: bool,
}

impl AddressSpace {
    /// One whose line has this number of the caller's (below 2^16); each has another.
    #[must_use]
    pub fn new(line: u32) -> Self {
        Self {
            line,
            readers: Cell::new(0),
            has_writer: Cell::new(false),
            waiting: RefCell::default(),
            tickets: Cell::new(0),
        }
    }

    /// Shares it, as a page fault does.
    pub fn read(&self) -> Held<'_> {
        self.take(false)
    }

    /// Takes all of it, as `mmap` does.
    pub fn write(&self) -> Held<'_> {
        self.take(true)
    }

    fn take(&self, writes: bool) -> Held<'_> {
        shared_line(self.line, Access::Update);
        let is_free =
            !self.has_writer.get() && (self.readers.get() == 0 || !writes) && self.queue_is_empty();
        if is_free {
            self.enter(writes);
        } else {
            self.wait(writes);
        }
        Held { space: self, writes }
    }

    fn queue_is_empty(&self) -> bool {
        self.waiting.borrow().is_empty()
    }

    fn enter(&self, writes: bool) {
        self.has_writer.set(writes);
        self.readers.set(self.readers.get() + u32::from(!writes));
    }

    /// Sleeps until who leaves lets the task in.
    fn wait(&self, writes: bool) {
        let ticket = self.tickets.get() + 1;
        self.tickets.set(ticket);
        // Above the keys of memory, and above those of other lines.
        let key = 1 << 62 | (self.line as usize) << 44 | ticket & ((1 << 44) - 1);
        self.waiting.borrow_mut().push_back((key, writes));
        let since_ns = here().state().here().1;
        here().block(key, None);
        let mut state = here().state();
        let now_ns = state.here().1;
        state.outcome.address_space_waiting_ns += now_ns - since_ns;
    }

    fn leave(&self, writes: bool) {
        shared_line(self.line, Access::Update);
        if writes {
            self.has_writer.set(false);
        } else {
            self.readers.set(self.readers.get() - 1);
        }
        loop {
            let next = self.waiting.borrow().front().copied();
            let Some((key, writes)) = next else { return };
            if self.has_writer.get() || (writes && self.readers.get() > 0) {
                return;
            }
            self.waiting.borrow_mut().pop_front();
            self.enter(writes);
            let mut state = here().state();
            let now_ns = state.here().1;
            state.wake(key, 1, now_ns);
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.space.leave(self.writes);
    }
}

/// Tasks that wait until all have come.
pub struct Barrier {
    tasks: usize,
    come: Cell<usize>,
}

impl Barrier {
    /// One for `tasks` tasks.
    #[must_use]
    pub fn new(tasks: usize) -> Self {
        Self { tasks, come: Cell::new(0) }
    }

    /// Waits until all tasks have called this. May be used again.
    pub fn wait(&self) {
        let key = std::ptr::from_ref(self) as usize;
        here().order();
        self.come.set(self.come.get() + 1);
        if self.come.get() < self.tasks {
            here().block(key, None);
            return;
        }
        self.come.set(0);
        let mut state = here().state();
        let now_ns = state.here().1;
        state.wake(key, usize::MAX, now_ns);
    }
}
