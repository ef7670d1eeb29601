//! A thread that the C library does not know, beside the only thread of a process that it knows.
//!
//! `pthread_create` ends the single-threaded mode of glibc for the rest of the process's life:
//! then `shared_ptr` and `putc` use atomic instructions. A thread of a bare `clone` does not.
//! It must not run code that relies on that mode: no function of the C library but those that only
//! make a system call, and no function of the program.
//!
//! The thread has thread-local storage of its own, with an `errno` and a `struct rseq`, which it
//! registers itself. The loader makes that storage by the function that `pthread_create` calls
//! (`_dl_allocate_tls`, private to glibc, in every version since 2.3). The storage and the stack
//! serve one such thread after the other; there is one at most. (x86-64 with glibc only.)

#[cfg(all(target_arch = "x86_64", target_env = "gnu", not(any(miri, quarry_model, quarry_sim))))]
mod glibc_x86_64;
#[cfg(all(
    target_arch = "x86_64",
    target_env = "gnu",
    not(any(miri, quarry_model, quarry_sim))
))]
pub use glibc_x86_64::{await_end, forget, is_running, look_up, start};

#[cfg(not(all(
    target_arch = "x86_64",
    target_env = "gnu",
    not(any(miri, quarry_model, quarry_sim))
)))]
mod nowhere {
    /// There is nothing to look up here.
    pub fn look_up() {}

    /// There is no such thread here.
    pub fn start(_body: fn()) -> bool {
        false
    }

    /// There is no such thread here.
    #[must_use]
    pub fn is_running() -> bool {
        false
    }

    /// There is no such thread here.
    #[must_use]
    pub fn await_end(_most_naps: u32) -> bool {
        true
    }

    /// There is no such thread here.
    pub fn forget() {}
}
#[cfg(not(all(
    target_arch = "x86_64",
    target_env = "gnu",
    not(any(miri, quarry_model, quarry_sim))
)))]
pub use nowhere::{await_end, forget, is_running, look_up, start};
