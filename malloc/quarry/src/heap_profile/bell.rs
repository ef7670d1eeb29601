//! Switches the profile at a client's request. A request needs no signal, no right to trace the
//! process, and no file that other users could write.
//!
//! A client sleeps on futexes: words of the process's record in the statistics page. When the
//! process publishes its statistics, at most ten times a second, it wakes these sleepers, and
//! learns from the words on which clients slept what they request; no word ever changes. A system
//! call filter that suits glibc's `malloc` permits this, because that `malloc` uses futexes, too.
//!
//! | word of the record | its sleepers |
//! |---|---|
//! | [`BELL`] | request a profile, and are alive: they sleep there again after a wake-up |
//! | [`STOP`] | request the end of the profile |
//! | [`WISHES`]` + 4 * n` | request one sample in 2^(n mod 32) bytes; from n = 32 on with frees |
//! | the first 12 of these | request one sample in 2^(n + 12) bytes, of pins |
//!
//! A profile started this way ends after [`PATIENCE`] looks without a sleeper on the bell.

use super::probes::look_anew;
use super::switch::{begin, stop};
use quarry_record::profile_bell::{BELL, PATIENCE, STOP, WISHES, mean_of, wants_pins};
use quarry_sys::primitive::{AtomicU32, Ordering::Relaxed, futex};
use quarry_watch::profile::ProfileKind;

/// Looks without a sleeper until the profile ends; 0 if no client has started a profile.
static LEFT: AtomicU32 = AtomicU32::new(0);

/// Does what clients request. Called after each publication, without a lock, outside the gate;
/// `record` is the address of the process's record.
pub(crate) fn look(record: usize) {
    let sleeps_on = |offset: usize| futex::wake_others(record + offset, i32::MAX) > 0;
    let is_rung = sleeps_on(BELL);
    match LEFT.load(Relaxed) {
        0 if is_rung => {
            let wish = (0..64).find(|number| sleeps_on(WISHES + 4 * number));
            let Some(number) = wish else { return };
            let (mean, frees) = mean_of(number);
            let kind = match frees {
                _ if wants_pins(number) => ProfileKind::Pins,
                true => ProfileKind::Frees,
                false => ProfileKind::InUse,
            };
            if begin(mean, kind).is_ok() {
                LEFT.store(PATIENCE, Relaxed);
            }
        }
        0 => {}
        _ if sleeps_on(STOP) => end(),
        _ if is_rung => LEFT.store(PATIENCE, Relaxed),
        1 => end(),
        left => LEFT.store(left - 1, Relaxed),
    }
}

fn end() {
    LEFT.store(0, Relaxed);
    stop();
    look_anew();
}

pub(super) fn forget() {
    if LEFT.load(Relaxed) != 0 {
        LEFT.store(0, Relaxed);
    }
}
