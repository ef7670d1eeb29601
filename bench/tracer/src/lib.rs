//! `libquarry_tracer.so`, which `quarry record` preloads: it records each call of `malloc`, `free`
//! and related functions, and passes it on to glibc's own allocator.
//!
//! The trace is a file ([`quarry_trace::layout`]). Before the first call is recorded, the process
//! gives this file its full size on the disk and maps it. So no call fails because the disk is
//! full, and the file keeps the records however the process ends. A thread appends to its own
//! chunk, without locks. A call inside another call of its thread, such as one made by a signal
//! handler, is counted but not recorded.
//!
//! A forked child records nothing. If children are recorded, a program that the child executes is
//! recorded into `TRACE.PID`.
//!
//! ```text
//! file     the trace of this process: opened once, chunks for threads
//! thread   the chunk of the running thread
//! glibc    the allocator that serves the calls
//! symbols  the functions that programs call
//! ```
//!
//! Each file uses only those above it in this list.

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
