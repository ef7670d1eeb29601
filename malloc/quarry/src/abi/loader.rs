//! Functions of the loader. A program that contains Quarry may be static, and have none: there they
//! are weak symbols, so that they bring no loader into the program.

#[cfg(not(feature = "override"))]
pub(crate) use libc::{dladdr, dlopen, dlsym};

#[cfg(feature = "override")]
pub(crate) use contained::{dladdr, dlerror, dlopen, dlsym};

#[cfg(feature = "override")]
mod contained {
    use core::ffi::{c_char, c_int, c_void};
    use core::mem::transmute;
    use core::ptr::null_mut;
    use quarry_sys::glibc::private_symbol;
    use quarry_sys::weak_address;

    /// Returns whether the program has no loader. A static C library may have functions of these
    /// names, which find nothing, and allocate a message.
    fn is_static() -> bool {
        // SAFETY: getauxval has no preconditions. The kernel, or the loader in its place, gives the
        // address and the number of the program's headers, which stay where they are.
        let headers = unsafe {
            let start = libc::getauxval(libc::AT_PHDR) as *const libc::Elf64_Phdr;
            let count = if start.is_null() { 0 } else { libc::getauxval(libc::AT_PHNUM) };
            core::slice::from_raw_parts(
                if count == 0 { [].as_ptr() } else { start },
                count as usize,
            )
        };
        headers.iter().all(|header| header.p_type != libc::PT_INTERP)
    }

    /// Calls a function of the loader; the alternative is for programs without one.
    macro_rules! call {
        ($symbol:literal : $type:ty, ($($argument:expr),*), else $otherwise:expr) => {{
            let function = weak_address!($symbol);
            if function.is_null() || is_static() {
                return $otherwise;
            }
            // SAFETY: the type is the C prototype; the rest is the caller's promise.
            unsafe { transmute::<*const u8, $type>(function)($($argument),*) }
        }};
    }

    /// `dlsym`; null without a loader.
    ///
    /// # Safety
    /// Same as for the C function.
    pub(crate) unsafe fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
        type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
        call!("dlsym": Dlsym, (handle, name), else null_mut())
    }

    /// `dlopen`; null without a loader.
    ///
    /// # Safety
    /// Same as for the C function.
    pub(crate) unsafe fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void {
        type Dlopen = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;
        let function = if is_static() { null_mut() } else { private_symbol(c"dlopen") };
        if function.is_null() {
            return null_mut();
        }
        // SAFETY: the type is the C prototype; the rest is the caller's promise.
        unsafe { transmute::<*mut c_void, Dlopen>(function)(name, flags) }
    }

    /// `dladdr`; 0 without a loader.
    ///
    /// # Safety
    /// Same as for the C function.
    pub(crate) unsafe fn dladdr(address: *const c_void, info: *mut libc::Dl_info) -> c_int {
        type Dladdr = unsafe extern "C" fn(*const c_void, *mut libc::Dl_info) -> c_int;
        call!("dladdr": Dladdr, (address, info), else 0)
    }

    /// `dlerror`, which forgets the error; null without a loader.
    pub(crate) fn dlerror() -> *const c_char {
        call!("dlerror": unsafe extern "C" fn() -> *const c_char, (), else null_mut())
    }
}
