//! `libquarry_tracer.so`: preloaded by `quarry record`, it writes down each call of `malloc`,
//! `free` and their kin, and lets glibc's own allocator serve it.
//!
//! The trace is a file that the process has mapped ([`quarry_trace::layout`]), at its full size
//! before the first call is recorded. So no call fails for a full disk, and the file keeps the
//! records however the process ends. A thread appends to its own chunk, without locks. A call
//! inside a call of its thread, as a signal handler makes it, is counted and not recorded.
//!
//! A forked child records nothing; if children are recorded, a program that it executes does, into
//! `TRACE.PID`.
//!
//! ```text
//! file     the trace of this process: opened once, chunks for threads
//! thread   the chunk of the running thread
//! glibc    the allocator that serves the calls
//! symbols  the functions that programs call
//! ```
//!
//! Order of the files, each using only those before it: as above.

mod file;
mod glibc;
pub mod symbols;
mod thread;

extern "C" fn at_load() {
    glibc::find();
    file::open();
}

/// The loader runs this before the program begins.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;
