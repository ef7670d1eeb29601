//! Switching the profile from outside: no signal, no right to trace the process, and no file that
//! others write.
//!
//! Whoever wants a profile sleeps on words of the process's record in the statistics page, as on
//! futexes. When the process publishes its statistics it also wakes whoever sleeps there, and
//! learns from the number of those it woke what is wanted; the word itself never changes. This is a
//! system call that `malloc` of the C library makes as well, ten times a second at most.
//!
//! | word of the record | who sleeps on it |
//! |---|---|
//! | [`BELL`] | wants a profile, and lives: sleeps there again when it was woken |
//! | [`STOP`] | wants no profile any more |
//! | [`WISHES`]` + 4 * n` | wants one sample in 2^(n mod 32) bytes; from n = 32 on frees, too |
//!
//! A profile that was started so ends when nobody has slept on the bell for [`PATIENCE`] looks.

use super::switch::{start, start_with_frees, stop};
use quarry_record::profile_bell::{BELL, PATIENCE, STOP, WISHES, mean_of};
use quarry_sys::primitive::{AtomicU32, Ordering::Relaxed, futex};

/// Looks that may find nobody before the profile ends; 0 where it was not started from outside.
static LEFT: AtomicU32 = AtomicU32::new(0);

/// Looks whether somebody outside wants a profile, or wants none any more. Called after each
/// publication, with no lock held, outside of the gate; `record` is the address of the process's
/// record.
pub(crate) fn look(record: usize) {
    let sleeps_on = |offset: usize| futex::wake_others(record + offset, i32::MAX) > 0;
    let is_rung = sleeps_on(BELL);
    match LEFT.load(Relaxed) {
        0 if is_rung => {
            let wish = (0..64).find(|number| sleeps_on(WISHES + 4 * number));
            let Some(number) = wish else { return };
            let (mean, frees) = mean_of(number);
            let started = if frees { start_with_frees(mean) } else { start(mean) };
            if started.is_ok() {
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
}

/// In the child of a fork: nobody has asked it for a profile.
pub(super) fn forget() {
    if LEFT.load(Relaxed) != 0 {
        LEFT.store(0, Relaxed);
    }
}
