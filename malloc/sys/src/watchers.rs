//! Code that watches which memory leaves its addresses, by functions in place of libc's.
//!
//! Such a function may allocate, lock, or use its thread's storage: so Quarry calls it only on
//! threads that the C library knows, and while it holds no lock that a request takes. (A library
//! that changes the code of libc's own functions is not noticed.)

use crate::primitive::{AtomicBool, Ordering};
use core::ffi::{c_int, c_void};

static ARE_THERE: AtomicBool = AtomicBool::new(false);

/// Addresses of `munmap`, of `madvise` and of a function that only libc defines.
type Functions = [usize; 3];

/// Looks whether `munmap` or `madvise` is another function than libc's. Takes a lock of the loader,
/// so the caller holds none of Quarry's. (`dladdr` would search the symbols: 30 us for each start.)
pub fn look_for() {
    let functions: Functions = [
        libc::munmap as *const () as usize,
        libc::madvise as *const () as usize,
        libc::getauxval as *const () as usize,
    ];
    // SAFETY: the callback gets each loaded object, and these functions.
    let found = unsafe {
        libc::dl_iterate_phdr(Some(has_some_only), (&raw const functions).cast_mut().cast())
    };
    ARE_THERE.store(found != 0, Ordering::Relaxed);
}

/// Returns 1, which ends the iteration, if the object contains some of the functions but not all.
///
/// # Safety
/// `object` is valid, and `functions` points to [`Functions`].
unsafe extern "C" fn has_some_only(
    object: *mut libc::dl_phdr_info,
    _: usize,
    functions: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise; the loader's headers lie in the object.
    let (functions, base, headers) = unsafe {
        let headers = core::slice::from_raw_parts((*object).dlpi_phdr, (*object).dlpi_phnum.into());
        (&*functions.cast::<Functions>(), (*object).dlpi_addr as usize, headers)
    };
    let mut found = 0;
    for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD) {
        let start = base.wrapping_add(header.p_vaddr as usize);
        let is_inside = |it: &&usize| it.wrapping_sub(start) < header.p_memsz as usize;
        found += functions.iter().filter(is_inside).count();
    }
    c_int::from(found != 0 && found != functions.len())
}

/// Returns whether [`look_for`] has found such code.
#[must_use]
pub fn are_there() -> bool {
    ARE_THERE.load(Ordering::Relaxed)
}
