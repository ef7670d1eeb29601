//! A limit that was set, and how far the process is from it.

use crate::balancer::{Balancer, Cache};
use crate::instance::{STACK, zones};
use crate::{gate, limits};
use core::time::Duration;
use quarry_mm::frame::FRAME_BYTES;
use quarry_sys::clock::coarse_ns;
use quarry_sys::own_stack;
use quarry_sys::statm::anonymous_bytes;

/// Longest time for which `wait` sleeps before it reads the budget again: 10 ms.
const STEP_NS: u64 = 10_000_000;

/// A limit that was set; [`progress`](Self::progress) tells how far the process is from it.
///
/// ```
/// use quarry::Quarry;
/// use std::time::Duration;
///
/// #[global_allocator]
/// static A: Quarry = Quarry;
///
/// let buffers: Vec<Vec<u8>> = (0..1000).map(|_| vec![1; 100_000]).collect();
/// let resize = Quarry::set_limit(16 << 20)?;
/// assert!(!resize.progress().is_done(), "100 MB are in use, and stay so");
/// drop(buffers);
/// let progress = resize.wait(Duration::from_secs(60));
/// assert!(progress.is_done(), "{progress:?}");
/// # Ok::<(), quarry::Error>(())
/// ```
///
/// **Headroom.** The limit bounds `used`, but the system counts `used + beside`. So a program that
/// may have `memory` bytes sets its limit to `memory`, minus `beside` at its heaviest load, minus
/// 1/32 for the kernel. Quarry itself stays within the limit of a control group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resize {
    target: usize,
}

/// The state of a [`Resize`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The limit that was set, in bytes.
    pub target: usize,
    /// Bytes in use, which the limit bounds.
    pub used: usize,
    /// Bytes that the process has in memory in addition to `used`: freed memory on its way back to
    /// the system, Quarry's descriptors, stacks, and memory that the program has mapped itself.
    /// Memory in use that was never touched makes this figure too low; 0 without `/proc`.
    pub beside: usize,
}

impl Progress {
    /// Returns whether use is within the limit.
    #[must_use]
    pub const fn is_done(self) -> bool {
        self.used <= self.target
    }
}

fn used() -> usize {
    zones().budget().used() as usize * FRAME_BYTES
}

impl Resize {
    pub(crate) fn to(bytes: usize) -> Self {
        Self { target: if bytes == usize::MAX { bytes } else { bytes & !(FRAME_BYTES - 1) } }
    }

    /// A `Resize` whose target is the current limit, or `usize::MAX` without a limit.
    pub(crate) fn current() -> Self {
        Self { target: limits::effective().unwrap_or(usize::MAX) }
    }

    /// The current state. O(1), and reads a file of `/proc`.
    #[must_use]
    pub fn progress(self) -> Progress {
        let used = used();
        let resident = anonymous_bytes().map_or(0, |bytes| bytes as usize);
        Progress { target: self.target, used, beside: resident.saturating_sub(used) }
    }

    /// Waits until use is within the limit, for at most `most`, and gives freed memory back to the
    /// system. Without a background thread, the caller itself reclaims, and so calls shrinkers: it
    /// must not hold anything that they need.
    pub fn wait(self, most: Duration) -> Progress {
        let end = coarse_ns().saturating_add(u64::try_from(most.as_nanos()).unwrap_or(u64::MAX));
        loop {
            let beyond = used().saturating_sub(self.target);
            let left = end.saturating_sub(coarse_ns());
            if beyond == 0 || left == 0 {
                break;
            }
            Cache::approach(beyond, left.min(STEP_NS));
        }
        if self.target != usize::MAX {
            let _inside = gate::enter();
            own_stack::run(|| STACK.mappings.purge_all(zones()));
        }
        self.progress()
    }
}
