//! The C library's allocator, for `QUARRY_DISABLE=1`: the definitions after ours in search order.

use crate::abi::loader::{dlopen, dlsym};
use core::ffi::{CStr, c_int, c_void};
use core::mem::transmute_copy;
use quarry_sys::primitive::{AtomicPtr, Ordering};
use quarry_sys::report::fatal;

/// A symbol of the next object in the search order, looked up only once.
pub(crate) struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// The address of the symbol; null if no later object defines it.
    pub(crate) fn address(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // For musl's loader nothing comes after an object that was opened.
        let musl: &[&CStr] = if cfg!(target_env = "musl") { &[c"libc.so"] } else { &[] };
        next_or_in(&self.address, self.name, musl)
    }

    /// The symbol as a function; `None` if no later object defines it.
    ///
    /// # Safety
    /// `F` is the function pointer type of the symbol.
    unsafe fn find<F>(&self) -> Option<F> {
        let address = self.address();
        // SAFETY: function and object pointers have one size; the caller vouches for the type.
        (!address.is_null()).then(|| unsafe { transmute_copy(&address) })
    }

    /// The symbol as a function; aborts if no later object defines it.
    ///
    /// # Safety
    /// `F` is the function pointer type of the symbol.
    unsafe fn function<F>(&self) -> F {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.find() }.unwrap_or_else(|| {
            fatal(format_args!("QUARRY_DISABLE=1, but no other {:?} was found", self.name))
        })
    }
}

/// Looks a symbol up in the objects after this one in the search order, then in `libraries`, as far
/// as these are loaded. Stores its address, or null, in `known`.
#[inline(never)]
pub(crate) fn next_or_in(
    known: &AtomicPtr<c_void>,
    name: &CStr,
    libraries: &[&CStr],
) -> *mut c_void {
    // SAFETY: the names are NUL-terminated. The handle is kept, so the library stays loaded.
    let address = unsafe {
        let mut address = dlsym(libc::RTLD_NEXT, name.as_ptr());
        for library in libraries {
            if !address.is_null() {
                break;
            }
            let handle = dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if !handle.is_null() {
                address = dlsym(handle, name.as_ptr());
            }
        }
        address
    };
    known.store(address, Ordering::Relaxed);
    address
}

/// Lets Quarry serve in spite of `QUARRY_DISABLE=1` if the program has no other `malloc`. Called
/// before a request that may be the first one.
#[cfg(feature = "override")]
pub(crate) fn look_for_another() {
    use quarry::process::{Mode, ensure_ready, serve_anyway};
    static NEXT: Next = Next::new(c"malloc");
    if ensure_ready() == Mode::Disabled && NEXT.address().is_null() {
        serve_anyway();
    }
}

/// The fields of `struct mallinfo2` of glibc 2.33, and of `struct mallinfo`, which has `int`s.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct MallinfoOf<T> {
    pub(crate) arena: T,
    pub(crate) ordblks: T,
    pub(crate) smblks: T,
    pub(crate) hblks: T,
    pub(crate) hblkhd: T,
    pub(crate) usmblks: T,
    pub(crate) fsmblks: T,
    pub(crate) uordblks: T,
    pub(crate) fordblks: T,
    pub(crate) keepcost: T,
}

pub(crate) type Mallinfo2 = MallinfoOf<usize>;
/// Its fields are too narrow for some values: then they saturate.
pub(crate) type Mallinfo = MallinfoOf<c_int>;

macro_rules! forward {
    ($($name:ident / $symbol:literal ($($argument:ident : $type:ty),*) $(-> $result:ty)?;)*) => {
        $(
            /// Calls the next definition of this function.
            ///
            /// # Safety
            /// Same as the C function of this name.
            pub(crate) unsafe fn $name($($argument: $type),*) $(-> $result)? {
                static NEXT: Next = Next::new($symbol);
                type Function = unsafe extern "C" fn($($type),*) $(-> $result)?;
                // SAFETY: the type is the C prototype of the symbol, and the caller makes the
                // promise of the C function.
                unsafe { NEXT.function::<Function>()($($argument),*) }
            }
        )*
    };
}

static FREE: Next = Next::new(c"free");

/// Calls the next `malloc`. Looks for `free` before that: a search frees the message of the last
/// one that has failed, so a `free` that is not known then would search for itself for ever.
///
/// # Safety
/// Same as the C function of this name.
pub(crate) unsafe fn malloc(size: usize) -> *mut c_void {
    static NEXT: Next = Next::new(c"malloc");
    FREE.address();
    // SAFETY: the type is the C prototype of the symbol.
    unsafe { NEXT.function::<unsafe extern "C" fn(usize) -> *mut c_void>()(size) }
}

/// Calls the next `free`.
///
/// # Safety
/// Same as the C function of this name.
pub(crate) unsafe fn free(pointer: *mut c_void) {
    // SAFETY: the type is the C prototype of the symbol; the rest is the caller's promise.
    unsafe { FREE.function::<unsafe extern "C" fn(*mut c_void)>()(pointer) };
}

forward! {
    calloc / c"calloc" (count: usize, size: usize) -> *mut c_void;
    realloc / c"realloc" (pointer: *mut c_void, size: usize) -> *mut c_void;
    memalign / c"memalign" (align: usize, size: usize) -> *mut c_void;
    malloc_usable_size / c"malloc_usable_size" (pointer: *mut c_void) -> usize;
    malloc_trim / c"malloc_trim" (pad: usize) -> c_int;
    mallopt / c"mallopt" (parameter: c_int, value: c_int) -> c_int;
    malloc_stats / c"malloc_stats" ();
    malloc_info / c"malloc_info" (options: c_int, stream: *mut libc::FILE) -> c_int;
    mallinfo / c"mallinfo" () -> Mallinfo;
}

/// `mallinfo2` of the C library, `None` before glibc 2.33.
pub(crate) fn mallinfo2() -> Option<Mallinfo2> {
    static NEXT: Next = Next::new(c"mallinfo2");
    // SAFETY: the type is the C prototype of the symbol, which has no preconditions.
    unsafe { NEXT.find::<unsafe extern "C" fn() -> Mallinfo2>().map(|mallinfo2| mallinfo2()) }
}
