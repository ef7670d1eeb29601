//! The function of the program that is told when a request has reached a limit.

use crate::frame::fresh_zero;
use quarry_sys::primitive::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

fresh_zero! {
    /// The function, its argument, and the task that calls it; all 0: none.
    pub struct Telling {
        function: AtomicU64,
        argument: AtomicU64,
        teller: AtomicU64,
    }
}

impl Telling {
    /// Sets the function and its argument; 0: none.
    pub fn set(&self, function: usize, argument: usize) {
        self.argument.store(argument as u64, Relaxed);
        self.function.store(function as u64, Release);
    }

    /// The function that a task is to call, and its argument, if there is one and no task is
    /// calling it. The task then calls [`end`](Self::end).
    #[must_use]
    pub fn begin(&self, task: usize) -> Option<(usize, usize)> {
        let function = self.function.load(Acquire) as usize;
        let is_first =
            function != 0 && self.teller.compare_exchange(0, task as u64, Acquire, Relaxed).is_ok();
        is_first.then(|| (function, self.argument.load(Relaxed) as usize))
    }

    /// See [`begin`](Self::begin).
    pub fn end(&self) {
        self.teller.store(0, Release);
    }

    /// The task that is calling the function, or 0.
    #[must_use]
    pub fn teller(&self) -> usize {
        self.teller.load(Acquire) as usize
    }

    pub(crate) fn reset(&self) {
        [&self.function, &self.argument, &self.teller].iter().for_each(|it| it.store(0, Relaxed));
    }

    /// In the child of a fork, whose only task is `me`: ends a call of a task that is lost.
    pub fn adopt(&self, me: usize) {
        let teller = self.teller();
        // Writes only if it must, because the kernel copies each page that the child writes.
        if teller != 0 && teller != me {
            self.end();
        }
    }
}
