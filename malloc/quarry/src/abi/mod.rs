//! The malloc ABI of C and C++, on top of the process-wide instance.
//!
//! `libquarry.so` and `libquarry.a` contain these files (`malloc/preload` names their folder), and
//! so does the crate with the feature `override`: then Quarry serves the C and C++ code of the
//! program, too. `malloc` and `free` consist of their fast paths (`fast_path`) and a call of a cold
//! function, which keeps `errno`. `malloc/preload/abi.txt` lists what a shared object exports.

mod arguments;
#[cfg(feature = "override")]
mod beside;
mod cxx;
#[cfg_attr(
    all(target_arch = "x86_64", not(any(quarry_portable, quarry_no_rseq))),
    path = "fast_path/sequence.rs"
)]
#[cfg_attr(
    not(all(target_arch = "x86_64", not(any(quarry_portable, quarry_no_rseq)))),
    path = "fast_path/portable.rs"
)]
pub(crate) mod fast_path;
pub(crate) mod front;
mod glibc_names;
mod info;
pub(crate) mod libc_malloc;
mod loader;
pub(crate) mod malloc;
#[cfg(feature = "override")]
pub(crate) mod weak;

use quarry_sys::errno;
use quarry_sys::report::fatal;

/// Ends the process: an operator new has no memory, and cannot throw.
pub(crate) fn cannot_throw() -> ! {
    fatal(format_args!("operator new failed and no C++ library is loaded to throw bad_alloc"));
}

/// Sets errno, and returns NULL.
pub(crate) fn null<T>(error: core::ffi::c_int) -> *mut T {
    errno::set(error);
    core::ptr::null_mut()
}
