//! An extension of Python with Quarry inside. `tests/override.rs` builds it, and opens it after
//! many others.

use std::ffi::{CStr, c_char, c_int, c_void};

#[global_allocator]
static A: quarry::Quarry = quarry::Quarry;

/// `PyModuleDef` of Python 3.
#[repr(C)]
struct Module {
    base: [usize; 5],
    name: *const c_char,
    documentation: *const c_char,
    size: isize,
    rest: [*mut c_void; 5],
}

// SAFETY: only Python changes it, under its lock.
unsafe impl Sync for Module {}

const NAME: &CStr = c"quarry_inside";
static mut MODULE: Module = Module {
    // A reference count of 1.
    base: [1, 0, 0, 0, 0],
    name: NAME.as_ptr(),
    documentation: std::ptr::null(),
    size: -1,
    rest: [std::ptr::null_mut(); 5],
};

unsafe extern "C" {
    fn PyModule_Create2(module: *mut Module, version: c_int) -> *mut c_void;
}

/// Makes the module, after some work on the heap.
///
/// # Safety
/// Python calls this, with its lock held.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PyInit_quarry_inside() -> *mut c_void {
    let texts: Vec<String> = (0..10_000).map(|number| number.to_string()).collect();
    assert!(quarry::Quarry::owns(texts[9999].as_ptr()));
    quarry::Quarry::validate().expect("every invariant holds");
    // SAFETY: `PyModule_Create2` of the version of the interface that Python 3 has kept.
    unsafe { PyModule_Create2(&raw mut MODULE, 1013) }
}
