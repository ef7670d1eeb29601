//! The entries of the environment, read without allocating, even before the C library has started.

use core::ffi::{CStr, c_char};
use quarry_sys::file::find_piece;

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Calls `visit` for each entry of the environment; for none if the program is setuid or the like.
pub(crate) fn each_entry(mut visit: impl FnMut(&[u8])) {
    if is_privileged() {
        return;
    }
    // SAFETY: `environ` is either null or a null-terminated array of NUL-terminated strings; no
    // thread changes it while the first allocation is under way.
    unsafe {
        let mut entry = environ;
        if entry.is_null() {
            return each_of_file(&mut visit);
        }
        while !(*entry).is_null() {
            visit(CStr::from_ptr(*entry).to_bytes());
            entry = entry.add(1);
        }
    }
}

/// [`each_entry`] before libc has started, for allocations by the loader or a `.preinit_array`.
#[cold]
#[inline(never)]
fn each_of_file(visit: &mut dyn FnMut(&[u8])) {
    let _ = find_piece(c"/proc/self/environ", 0, |entry| {
        visit(entry);
        None::<()>
    });
}

pub(crate) fn is_privileged() -> bool {
    // SAFETY: getauxval has no preconditions.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
