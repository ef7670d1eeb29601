//! One line at the start if the program that contains Quarry is not the only place of a `malloc`:
//! it was linked to have one heap.

use super::front::{file_of, malloc_of_another};
use super::loader::{dlerror, dlsym};
use core::ffi::CStr;
use quarry_sys::report::warn;

/// Runs when the object is loaded.
extern "C" fn at_start() {
    let own = name(file_of(at_start as *const core::ffi::c_void));
    if let Some(owner) = malloc_of_another() {
        let serving = if owner.is_program { "the program" } else { name(Some(owner.file)) };
        warn(format_args!(
            "{own} contains a Quarry that serves C code, which only a program can: its C code \
             calls the malloc of {serving}"
        ));
        return;
    }
    // SAFETY: the name is NUL-terminated.
    let another = unsafe { dlsym(libc::RTLD_NEXT, c"quarry_version".as_ptr()) };
    if another.is_null() {
        // The program looks for errors of its own calls.
        dlerror();
    } else {
        let other = name(file_of(another));
        warn(format_args!(
            "{own} contains Quarry, which serves it; {other} has no effect there, so do not \
             preload it"
        ));
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

fn name(file: Option<&CStr>) -> &str {
    file.and_then(|file| file.to_str().ok()).unwrap_or("the program")
}
