//! The call sites of memory that a process allocated while `quarry top` watched it.

use anyhow::Result;
use quarry_live::Choice;
use quarry_profile::{Taken, Wish, print_in_use, take};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Mean bytes from one sample to the next: an eighth of a profile's, because growth is small.
const MEAN: usize = 64 << 10;
const MOST_SITES: usize = 10;

/// A profile that a thread takes while the screen is shown.
pub(super) struct CallSites {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Result<Taken>>,
}

impl CallSites {
    /// Begins a profile, unless there are several processes.
    pub(super) fn of(choice: &Choice) -> Self {
        let (choice, is_over) = (choice.clone(), Arc::new(AtomicBool::new(false)));
        let over = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let wish = Wish { patience: Duration::MAX, mean: MEAN, frees: false };
            take(choice.only()?, &wish, |_| over.load(Ordering::Relaxed))
        });
        Self { is_over, thread }
    }

    /// Ends the profile and prints its call sites, or the reason why there are none.
    pub(super) fn print(self, out: &mut dyn Write) -> Result<()> {
        self.is_over.store(true, Ordering::Relaxed);
        writeln!(out, "\nAllocated since the first look, and still in use:")?;
        match self.thread.join() {
            Ok(Ok(taken)) => print_in_use(&taken, MOST_SITES, out)?,
            Ok(Err(error)) => writeln!(out, "no call sites: {error:#}")?,
            Err(_) => writeln!(out, "no call sites: the profile failed")?,
        }
        Ok(())
    }
}
