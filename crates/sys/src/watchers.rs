//! Code that watches which memory leaves its addresses, by functions in place of libc's.
//!
//! Such a function may allocate, lock, or use its thread's storage: so Quarry calls it only on
//! threads that the C library knows, and while it holds no lock that a request takes. (A library
//! that changes the code of libc's own functions is not noticed.)

use crate::glibc::weak_address;
use crate::primitive::{AtomicBool, Ordering};
use core::ffi::{c_int, c_void};
use core::mem::{MaybeUninit, transmute};

static ARE_THERE: AtomicBool = AtomicBool::new(false);

/// Looks whether `munmap` or `madvise` is another function than libc's. Takes the loader's
/// recursive lock, so the caller holds none of Quarry's.
pub fn look_for() {
    type Dladdr = unsafe extern "C" fn(*const c_void, *mut libc::Dl_info) -> c_int;
    let dladdr = weak_address!("dladdr");
    if dladdr.is_null() {
        return;
    }
    // SAFETY: the type is the C prototype of this function.
    let dladdr = unsafe { transmute::<*const u8, Dladdr>(dladdr) };
    let object_of = |function: *const c_void| {
        let mut info = MaybeUninit::<libc::Dl_info>::uninit();
        // SAFETY: `dladdr` accepts any address, and fills `info` where it finds an object.
        unsafe { (dladdr(function, info.as_mut_ptr()) != 0).then(|| info.assume_init().dli_fbase) }
    };
    let libc = object_of(libc::getauxval as *const c_void);
    let is_others = |function| object_of(function) != libc;
    let are_there =
        is_others(libc::munmap as *const c_void) || is_others(libc::madvise as *const c_void);
    ARE_THERE.store(are_there, Ordering::Relaxed);
}

/// Returns whether [`look_for`] has found such code.
#[must_use]
pub fn are_there() -> bool {
    ARE_THERE.load(Ordering::Relaxed)
}
