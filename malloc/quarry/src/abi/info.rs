//! Functions for queries and tuning: `mallinfo`, `malloc_info`, `malloc_trim` and others.

use crate::abi::libc_malloc::{self, Mallinfo, Mallinfo2};
use core::ffi::c_int;
use core::fmt::{self, Write};
use quarry::Quarry;
use quarry::process::{self, Mode, ensure_ready, print_stats_to};
use quarry_mm::frame::FRAME_BYTES;
use quarry_sys::errno::KeepErrno;

/// Memory that Quarry has from the system, in use and free, in glibc's fields.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo2() -> Mallinfo2 {
    if ensure_ready() == Mode::Disabled {
        return libc_malloc::mallinfo2().unwrap_or_default();
    }
    let usage = process::heap_use();
    Mallinfo2 {
        arena: usage.arena_bytes,
        ordblks: usage.free_objects,
        // Parked objects are reported as glibc's fast bins: free, but not for every thread.
        smblks: usage.parked_objects,
        hblks: usage.mappings,
        hblkhd: usage.mapped_bytes,
        fsmblks: usage.parked_bytes,
        uordblks: usage.used_bytes,
        fordblks: usage.free_bytes,
        keepcost: usage.free_bytes / FRAME_BYTES * FRAME_BYTES,
        ..Mallinfo2::default()
    }
}

/// [`mallinfo2`] with fields of type `int`.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo() -> Mallinfo {
    if ensure_ready() == Mode::Disabled {
        // SAFETY: mallinfo has no preconditions.
        return unsafe { libc_malloc::mallinfo() };
    }
    let wide = mallinfo2();
    let narrow = |value: usize| c_int::try_from(value).unwrap_or(c_int::MAX);
    Mallinfo {
        arena: narrow(wide.arena),
        ordblks: narrow(wide.ordblks),
        smblks: narrow(wide.smblks),
        hblks: narrow(wide.hblks),
        hblkhd: narrow(wide.hblkhd),
        fsmblks: narrow(wide.fsmblks),
        uordblks: narrow(wide.uordblks),
        fordblks: narrow(wide.fordblks),
        keepcost: narrow(wide.keepcost),
        ..Mallinfo::default()
    }
}

/// Gives free memory back to the system, as far as possible. Returns 1 if it gave any back, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(pad: usize) -> c_int {
    let _errno = KeepErrno::new();
    match ensure_ready() {
        Mode::Ready => c_int::from(Quarry::trim() > 0),
        // SAFETY: malloc_trim has no preconditions.
        Mode::Disabled => unsafe { libc_malloc::malloc_trim(pad) },
        Mode::Unavailable => 0,
    }
}

/// Parameters of glibc's `mallopt` that have an effect here (`malloc.h`, glibc 2.36).
const M_TRIM_THRESHOLD: c_int = -1;
const M_MMAP_MAX: c_int = -4;
const M_CHECK_ACTION: c_int = -5;
const M_PERTURB: c_int = -6;

/// Sets a parameter. Returns 1 if the heap does what it says, else 0.
///
/// `M_TRIM_THRESHOLD` -1 keeps all freed memory; other values end that. These always hold:
/// `M_MMAP_MAX` 0 (no block is apart), `M_CHECK_ACTION` 3 (errors abort), `M_PERTURB` 0.
#[unsafe(no_mangle)]
pub extern "C" fn mallopt(parameter: c_int, value: c_int) -> c_int {
    if ensure_ready() == Mode::Disabled {
        // SAFETY: mallopt has no preconditions.
        return unsafe { libc_malloc::mallopt(parameter, value) };
    }
    let is_so = match (parameter, value) {
        (M_TRIM_THRESHOLD, _) => process::keep_all(value < 0),
        (M_MMAP_MAX | M_PERTURB, 0) | (M_CHECK_ACTION, 3) => true,
        _ => false,
    };
    c_int::from(is_so)
}

/// Prints slabinfo, buddyinfo and lock counters to standard error.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_stats() {
    let _errno = KeepErrno::new();
    match ensure_ready() {
        Mode::Ready => print_stats_to(2),
        // SAFETY: malloc_stats has no preconditions.
        Mode::Disabled => unsafe { libc_malloc::malloc_stats() },
        Mode::Unavailable => {}
    }
}

struct Stream(*mut libc::FILE);

impl Write for Stream {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // SAFETY: the caller of malloc_info vouches for the stream; the text is a live slice.
        let done = unsafe { libc::fwrite(text.as_ptr().cast(), 1, text.len(), self.0) };
        if done == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// Writes an XML description of the heap's state to `stream`. `options` must be 0.
///
/// # Safety
/// `stream` is an open stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_info(options: c_int, stream: *mut libc::FILE) -> c_int {
    if ensure_ready() == Mode::Disabled {
        // SAFETY: the caller's promise is passed on.
        return unsafe { libc_malloc::malloc_info(options, stream) };
    }
    if options != 0 {
        return libc::EINVAL;
    }
    let usage = process::heap_use();
    let written = write!(
        Stream(stream),
        "<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n</sizes>\n\
         <total type=\"fast\" count=\"{}\" size=\"{}\"/>\n\
         <total type=\"rest\" count=\"{}\" size=\"{}\"/>\n\
         <system type=\"current\" size=\"{}\"/>\n\
         <aspace type=\"total\" size=\"{}\"/>\n</heap>\n\
         <total type=\"mmap\" count=\"{}\" size=\"{}\"/>\n\
         <system type=\"current\" size=\"{}\"/>\n</malloc>\n",
        usage.parked_objects,
        usage.parked_bytes,
        usage.free_objects.saturating_sub(usage.parked_objects),
        usage.free_bytes.saturating_sub(usage.parked_bytes),
        usage.arena_bytes,
        usage.address_space_bytes,
        usage.mappings,
        usage.mapped_bytes,
        usage.arena_bytes + usage.mapped_bytes,
    );
    if written.is_ok() { 0 } else { -1 }
}
