//! The C library's own allocator, for `QUARRY_DISABLE=1`: the next definitions behind ours.

use core::ffi::{CStr, c_int, c_void};
use core::mem::transmute_copy;
use quarry_sys::primitive::{AtomicPtr, Ordering};
use quarry_sys::report::fatal;

/// A symbol of the next object in the search order, looked up once.
pub(crate) struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// Its address, null where there is none.
    pub(crate) fn address(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the name is NUL-terminated; dlsym has no other precondition.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(found, Ordering::Relaxed);
        found
    }

    /// The symbol as a function.
    ///
    /// # Safety
    /// `F` is the function pointer type of the symbol.
    unsafe fn function<F>(&self) -> F {
        let address = self.address();
        if address.is_null() {
            fatal(format_args!("QUARRY_DISABLE=1, but no other {:?} was found", self.name));
        }
        // SAFETY: function pointers and object pointers have one size here, and the caller vouches
        // for the type.
        unsafe { transmute_copy(&address) }
    }
}

macro_rules! forward {
    ($($name:ident / $symbol:literal ($($argument:ident : $type:ty),*) $(-> $result:ty)?;)*) => {
        $(
            /// Forwards to the next definition.
            ///
            /// # Safety
            /// As the C function of this name.
            pub(crate) unsafe fn $name($($argument: $type),*) $(-> $result)? {
                static NEXT: Next = Next::new($symbol);
                type Function = unsafe extern "C" fn($($type),*) $(-> $result)?;
                // SAFETY: the type is the C prototype of the symbol, and the caller's promise is
                // that of the C function.
                unsafe { NEXT.function::<Function>()($($argument),*) }
            }
        )*
    };
}

forward! {
    malloc / c"malloc" (size: usize) -> *mut c_void;
    free / c"free" (pointer: *mut c_void);
    calloc / c"calloc" (count: usize, size: usize) -> *mut c_void;
    realloc / c"realloc" (pointer: *mut c_void, size: usize) -> *mut c_void;
    memalign / c"memalign" (align: usize, size: usize) -> *mut c_void;
    malloc_usable_size / c"malloc_usable_size" (pointer: *mut c_void) -> usize;
    malloc_trim / c"malloc_trim" (pad: usize) -> c_int;
}
