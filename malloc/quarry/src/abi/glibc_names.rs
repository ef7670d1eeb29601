//! glibc's second names of its allocator, by which tools that define `malloc` find the real one.
//!
//! A program may mix both names of a function, so Quarry defines the second ones, too. They never
//! call a function by its first name, because what stands in front of this library under that name
//! may have called them.

use crate::abi::fast_path::{free_within, malloc_within};
use crate::abi::libc_malloc::Next;
use crate::abi::malloc::{
    calloc_slow, memalign_within, pvalloc_within, realloc_within, valloc_within,
};
use core::ffi::{CStr, c_void};
use core::mem::transmute;
use quarry::process::{Mode, ensure_ready};

/// Defines functions that do what `$ours` does. If the C library serves, each calls the C library's
/// function of its own name: a `malloc` after this library may call it in turn.
macro_rules! second_names {
    ($($name:ident / $symbol:literal => $ours:path
        : ($($argument:ident : $type:ty),*) $(-> $result:ty)?;)*) => {
        $(
            /// The second name of a function of glibc; see the head of this file.
            ///
            /// # Safety
            /// Same as for the first name.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
                type Function = unsafe extern "C" fn($($type),*) $(-> $result)?;
                let ours: Function = $ours;
                // SAFETY: glibc defines the symbol with this type, too; the rest is the caller's
                // promise.
                unsafe {
                    let serving = serving(ours as *mut c_void, $symbol);
                    transmute::<*mut c_void, Function>(serving)($($argument),*)
                }
            }
        )*
    };
}

/// `ours`, or the C library's function if the C library serves.
#[inline(never)]
fn serving(ours: *mut c_void, symbol: &'static CStr) -> *mut c_void {
    match ensure_ready() {
        Mode::Disabled => Next::new(symbol).address(),
        _ => ours,
    }
}

second_names! {
    __libc_malloc / c"__libc_malloc" => malloc_within: (size: usize) -> *mut c_void;
    __libc_free / c"__libc_free" => free_within: (pointer: *mut c_void);
    __libc_calloc / c"__libc_calloc" => calloc_slow: (count: usize, size: usize) -> *mut c_void;
    __libc_realloc / c"__libc_realloc" => realloc_within:
        (pointer: *mut c_void, size: usize) -> *mut c_void;
    __libc_memalign / c"__libc_memalign" => memalign_within:
        (align: usize, size: usize) -> *mut c_void;
    __libc_valloc / c"__libc_valloc" => valloc_within: (size: usize) -> *mut c_void;
    __libc_pvalloc / c"__libc_pvalloc" => pvalloc_within: (size: usize) -> *mut c_void;
}
