//! `libquarry_tracer.so`: preloaded by `quarry record`, it writes down each call of `malloc`,
//! `free` and their kin, and lets glibc's own allocator serve it.
//!
//! The trace is a file that the process has mapped ([`quarry_trace::layout`]), made as large as it
//! may become before the first call is recorded. So no call fails for a full disk, and whatever
//! ends the process, what was recorded is in the file. A thread appends to a chunk of its own,
//! without locks. A call that finds its thread in the middle of another one, which only a signal
//! handler can make, is counted and not recorded.
//!
//! A child by `fork` alone records nothing. A program that it executes records into a file of its
//! own, `TRACE.PID`, if children are recorded.
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

/// The loader runs it before the program begins.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;
