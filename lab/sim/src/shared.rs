//! State that tasks share besides Quarry's locks: barriers.

use crate::task::here;
use std::cell::Cell;

/// A barrier: tasks that reach it wait until all have come.
pub struct Barrier {
    tasks: usize,
    come: Cell<usize>,
}

impl Barrier {
    /// Makes a barrier for `tasks` tasks.
    #[must_use]
    pub fn new(tasks: usize) -> Self {
        Self { tasks, come: Cell::new(0) }
    }

    /// Waits until all tasks have called this. The barrier can be used again.
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
