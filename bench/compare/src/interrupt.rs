//! Notices signals that end the command, so that the results so far can still be printed.

use anyhow::Result;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd};

/// While this exists, SIGINT, SIGTERM and SIGHUP do not end the process.
#[derive(Debug)]
pub struct Interrupt {
    signals: SignalFd,
    signal: Cell<Option<u32>>,
}

impl Interrupt {
    /// Begins to listen, also to signals that this process ignores: a shell makes background
    /// programs ignore SIGINT.
    pub fn listen() -> Result<Self> {
        let signals = listen_to([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])?;
        Ok(Self { signals, signal: Cell::new(None) })
    }

    /// The last signal that came.
    pub fn signal(&self) -> Option<u32> {
        if let Ok(Some(came)) = self.signals.read_signal() {
            self.signal.set(Some(came.ssi_signo));
        }
        self.signal.get()
    }

    /// A descriptor that becomes readable when a signal comes.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }
}

/// Blocks signals in this thread, and receives them by a descriptor instead.
pub(super) fn listen_to(signals: [Signal; 3]) -> Result<SignalFd> {
    let signals = SigSet::from_iter(signals);
    signals.thread_block()?;
    Ok(SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?)
}
