//! Switches the profile on and off.
//!
//! The counts are in memory that the first start maps, and that exists until the process ends. It
//! is a memfd that the same user may read, or private memory in a confined process or if the
//! system refuses a memfd. In the child of a fork private memory replaces the memfd at once, so
//! that the child never changes the counts of its parent.

use crate::error::Error;
use crate::gate;
use crate::instance::{STACK, is_ready, profile};
use core::ptr::NonNull;
use quarry_sys::clock::{coarse_ns, wall_ns};
use quarry_sys::confined::is_confined;
use quarry_sys::errno::KeepErrno;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::memfd::{replace_by_private, replace_by_sealed};
use quarry_sys::os::{Linux, Os, OsResult};
use quarry_sys::own_stack;
use quarry_sys::primitive::{AtomicBool, Ordering};
use quarry_sys::system_call::process_id;
use quarry_sys::unwind;
use quarry_watch::profile::layout::{BUCKETS, FRAMES, Head, MOST_FRAMES, words};
use quarry_watch::profile::{Area, LARGEST_MEAN, ProfileKind, ProfileOptions};

/// Held while the profile is switched; callers only `try_lock`.
static SWITCH: CountedLock<()> = CountedLock::new(());
static IS_SHARED: AtomicBool = AtomicBool::new(false);
/// The tables exist. A fork's child checks this, because reading the profile would fault in a page.
static HAS_TABLES: AtomicBool = AtomicBool::new(false);

/// The name of the memfd, as `/proc/PID/fd` shows it.
const NAME: &core::ffi::CStr = c"quarry-profile";
/// The lowest number that the descriptor of the memfd may have.
const LEAST_DESCRIPTOR: i32 = 100;

/// Mean bytes between two samples by default.
pub const DEFAULT_MEAN_BYTES: usize = quarry_watch::profile::DEFAULT_MEAN as usize;

pub(crate) fn visit_locks(visit: &mut Visit<'_>) {
    visit("profile->switch", &SWITCH);
}

/// Stops the profile. Its counts can still be written to a file; sampled objects stay samples until
/// they are freed. Does nothing if no profile is on, or if another thread is switching it.
pub fn stop() {
    let _errno = KeepErrno::new();
    if !is_ready() || !profile().is_on() {
        return;
    }
    let _inside = gate::enter();
    let Some(_switch) = SWITCH.try_lock() else { return };
    // Pins are counted then, which takes stack.
    own_stack::run(|| profile().stop(&STACK));
    note(Head::Stopped, wall_ns());
}

/// Starts the profile of an instance that serves.
pub(crate) fn begin(mean_bytes: usize, kind: ProfileKind) -> Result<(), Error> {
    let _errno = KeepErrno::new();
    let _inside = gate::enter();
    let _switch = SWITCH.try_lock().ok_or(Error::Switching)?;
    if profile().is_on() {
        return Err(Error::AlreadyOn);
    }
    make_tables()?;
    if kind == ProfileKind::Pins {
        profile().prepare_pins(&STACK, &Linux)?;
    }
    unwind::unwinder();
    let options = ProfileOptions {
        mean: (mean_bytes as u64).clamp(1, LARGEST_MEAN),
        kind,
        // The address of a local variable differs from process to process.
        seed: coarse_ns() ^ core::ptr::from_ref(&kind) as u64,
        tracer: |frames: &mut [u64; MOST_FRAMES]| unwind::trace(frames),
    };
    profile().start(&STACK, &options).map_err(|_| Error::Switching)?;
    note(Head::Started, wall_ns());
    note(Head::Pid, process_id().into());
    Ok(())
}

fn note(word: Head, value: u64) {
    if let Some(area) = profile().area() {
        area.head(word).store(value, Ordering::Relaxed);
    }
}

/// Makes the tables at the first call, and lets readers map the counts, if allowed.
fn make_tables() -> OsResult<()> {
    if profile().area().is_none() {
        let bytes = (words(BUCKETS, FRAMES) * 8).next_multiple_of(Linux.page_size());
        let start = Linux.reserve(bytes)?;
        // SAFETY: fresh memory of this size, never unmapped; its replacements are zero as well.
        let area = unsafe { Area::new(start.cast(), BUCKETS, FRAMES) };
        profile().prepare(&STACK, &Linux, area)?;
        HAS_TABLES.store(true, Ordering::Relaxed);
    }
    if !is_confined() && !IS_SHARED.load(Ordering::Relaxed) {
        let shared = with_memory(|start, bytes| {
            // SAFETY: the mapping is ours; tasks add to it only by atomic words.
            unsafe { replace_by_sealed(start, NAME, bytes, LEAST_DESCRIPTOR) }
        });
        IS_SHARED.store(shared.is_ok(), Ordering::Relaxed);
    }
    Ok(())
}

fn with_memory(change: impl FnOnce(NonNull<u8>, usize) -> OsResult<()>) -> OsResult<()> {
    let Some(area) = profile().area() else { return Ok(()) };
    change(area.start().cast(), area.bytes().next_multiple_of(Linux.page_size()))
}

/// Stops the profile in a fork's child; samples stay samples. False if there never was a profile.
pub(super) fn adopt_in_child() -> bool {
    if !HAS_TABLES.load(Ordering::Relaxed) {
        return false;
    }
    profile().adopt_in_child();
    if IS_SHARED.swap(false, Ordering::Relaxed) {
        // SAFETY: the mapping is ours, and the child has one thread.
        let private = with_memory(|start, bytes| unsafe { replace_by_private(start, bytes) });
        if private.is_err() {
            // The counts of the parent must not change.
            IS_SHARED.store(true, Ordering::Relaxed);
        }
    }
    profile().stop(&STACK);
    true
}

pub(super) fn is_of_this_process() -> bool {
    let pid = u64::from(process_id());
    profile().area().is_some_and(|area| area.head(Head::Pid).load(Ordering::Relaxed) == pid)
}
