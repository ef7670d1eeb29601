//! A number that each thread carries: 0 at first, and in a new thread. It belongs to one layer
//! above, which is told when a thread ends with another number.
//!
//! A key of the C library holds the number, because only its destructor runs at a thread's end.
//! `malloc` reads the number at each call, so a word of thread-local storage holds it as well,
//! where that is at one offset for all threads.

#[cfg(not(any(miri, quarry_model, quarry_sim, quarry_no_rseq)))]
use crate::percpu::{set_thread_word, thread_word};
use crate::primitive::{AtomicU32, Ordering};
use core::ffi::c_void;
use core::ptr::without_provenance;

#[cfg(any(miri, quarry_model, quarry_sim, quarry_no_rseq))]
fn thread_word() -> Option<u32> {
    None
}

#[cfg(any(miri, quarry_model, quarry_sim, quarry_no_rseq))]
fn set_thread_word(_number: u32) {}

/// The key plus 1; 0: none yet.
static KEY: AtomicU32 = AtomicU32::new(0);

fn key() -> libc::pthread_key_t {
    KEY.load(Ordering::Acquire).wrapping_sub(1)
}

/// Makes the numbers, once per process; `ended` gets the number of a thread that ends with one
/// other than 0, on that thread. Returns false if the C library has no key left. [`set`] and
/// [`get`] may be called after this.
pub fn prepare(ended: unsafe extern "C" fn(number: *mut c_void)) -> bool {
    if KEY.load(Ordering::Acquire) != 0 {
        return true;
    }
    let mut key: libc::pthread_key_t = 0;
    // SAFETY: the destructor lives as long as the process.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(ended)) } != 0 {
        return false;
    }
    if KEY.compare_exchange(0, key + 1, Ordering::AcqRel, Ordering::Acquire).is_err() {
        // SAFETY: another thread was first; no thread has a value of this key.
        unsafe { libc::pthread_key_delete(key) };
    }
    true
}

/// The number of the running thread. In most programs one load.
#[inline(always)]
#[must_use]
pub fn get() -> u32 {
    match thread_word() {
        Some(number) => number,
        None => get_by_key(),
    }
}

#[cold]
#[inline(never)]
fn get_by_key() -> u32 {
    // SAFETY: the key exists, and has only values that `set` has stored.
    unsafe { libc::pthread_getspecific(key()).addr() as u32 }
}

/// Sets the number of the running thread; returns false, and changes nothing, if the C library has
/// no memory for it.
pub fn set(number: u32) -> bool {
    // SAFETY: the key exists; the destructor takes any value.
    let failed = unsafe {
        let value = without_provenance(number as usize);
        libc::pthread_setspecific(key(), value)
    };
    if failed == 0 {
        set_thread_word(number);
    }
    failed == 0
}
