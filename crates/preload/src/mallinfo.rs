//! The results of `mallinfo` and `mallinfo2`, in glibc's layouts.

use core::ffi::c_int;

/// `struct mallinfo2` of glibc 2.33.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Mallinfo2 {
    pub(crate) arena: usize,
    pub(crate) ordblks: usize,
    pub(crate) smblks: usize,
    pub(crate) hblks: usize,
    pub(crate) hblkhd: usize,
    pub(crate) usmblks: usize,
    pub(crate) fsmblks: usize,
    pub(crate) uordblks: usize,
    pub(crate) fordblks: usize,
    pub(crate) keepcost: usize,
}

/// `struct mallinfo`. Its fields are too narrow for some values: then they saturate.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Mallinfo {
    pub(crate) arena: c_int,
    pub(crate) ordblks: c_int,
    pub(crate) smblks: c_int,
    pub(crate) hblks: c_int,
    pub(crate) hblkhd: c_int,
    pub(crate) usmblks: c_int,
    pub(crate) fsmblks: c_int,
    pub(crate) uordblks: c_int,
    pub(crate) fordblks: c_int,
    pub(crate) keepcost: c_int,
}
