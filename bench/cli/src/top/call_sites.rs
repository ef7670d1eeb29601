//! The call sites of memory that a process allocated while `quarry top` watched it.

use anyhow::Result;
use quarry_live::{Identity, Process};
use quarry_profile::{Taken, Wish, print_in_use, take};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Mean bytes from one sample to the next, an eighth of the usual mean, because growth is small.
const MEAN: usize = 64 << 10;
const MOST_SITES: usize = 10;

/// A thread that takes a profile of a process while the screen is shown.
pub(super) struct CallSites {
    pub(super) process: Identity,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Result<Taken>>,
}

impl CallSites {
    /// Begins the profile.
    pub(super) fn of(process: &Identity) -> Self {
        let (pid, is_over) = (process.pid, Arc::new(AtomicBool::new(false)));
        let over = Arc::clone(&is_over);
        let wish = Wish { patience: Duration::MAX, mean: MEAN, frees: false, pins: false };
        let thread = move || take(Process::new(pid)?, &wish, |_| over.load(Ordering::Relaxed));
        Self { process: process.clone(), is_over, thread: thread::spawn(thread) }
    }

    /// Asks for the end of the profile.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Waits for the profile's end, and prints its call sites, or the reason why there are none.
    pub(super) fn print(self, out: &mut dyn Write) -> Result<()> {
        let heading = "Allocated since the first look, and still in use (samples count as blocks):";
        writeln!(out, "\n{heading}")?;
        match self.thread.join() {
            Ok(Ok(taken)) => print_in_use(&taken, MOST_SITES, out)?,
            Ok(Err(error)) => writeln!(out, "no call sites: {error:#}")?,
            Err(_) => writeln!(out, "no call sites: the profile failed")?,
        }
        Ok(())
    }
}
