//! The chunk of the running thread.

use crate::file;
use quarry_trace::layout::{
    AT_CHUNK_START, AT_CHUNK_THREAD, AT_CHUNK_USED, CHUNK_BYTES, CHUNK_HEADER_BYTES,
};
use quarry_trace::{Call, Encoder, Event, LONGEST_EVENT};
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

/// The position of a thread in its chunk.
#[derive(Clone, Copy)]
struct Chunk {
    start: *mut u8,
    used: usize,
    encoder: Encoder,
}

const NONE: Chunk = Chunk { start: ptr::null_mut(), used: CHUNK_BYTES, encoder: Encoder::new(0) };

std::thread_local! {
    static CHUNK: Cell<Chunk> = const { Cell::new(NONE) };
    /// The thread's number; 0 before it has one.
    static NUMBER: Cell<u32> = const { Cell::new(0) };
    /// True within `note`.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

#[inline]
pub(crate) fn note(at_ns: u64, call: Call) {
    if IS_INSIDE.replace(true) {
        return file::lose();
    }
    append(at_ns, call);
    IS_INSIDE.set(false);
}

fn append(at_ns: u64, call: Call) {
    let mut chunk = CHUNK.get();
    if chunk.used + LONGEST_EVENT > CHUNK_BYTES - CHUNK_HEADER_BYTES {
        let Some(start) = file::next_chunk() else { return file::lose() };
        chunk = begin(start, at_ns);
    }
    // SAFETY: this call has no arguments. Without support it returns -1, which counts as CPU 0.
    let cpu = unsafe { libc::sched_getcpu() }.max(0) as u32;
    let mut bytes = [0; LONGEST_EVENT];
    let length = chunk.encoder.encode(&Event { at_ns, cpu, call }, &mut bytes);
    // SAFETY: the chunk is this thread's, and has room for the longest event (checked above).
    unsafe {
        let end = chunk.start.add(CHUNK_HEADER_BYTES + chunk.used);
        end.copy_from_nonoverlapping(bytes.as_ptr(), length);
    }
    chunk.used += length;
    count(chunk.start).store(chunk.used as u32, Ordering::Release);
    CHUNK.set(chunk);
}

fn count(start: *mut u8) -> &'static AtomicU32 {
    // SAFETY: chunks begin at multiples of 4 KiB of a mapping (`HEADER_BYTES`, `CHUNK_BYTES`), and
    // `AT_CHUNK_USED` is a multiple of 4, so the word is aligned; the mapping stays, and all code
    // uses the word as an atomic.
    unsafe { AtomicU32::from_ptr(start.add(AT_CHUNK_USED).cast()) }
}

fn begin(start: *mut u8, at_ns: u64) -> Chunk {
    if NUMBER.get() == 0 {
        NUMBER.set(file::next_thread());
    }
    // SAFETY: the chunk was handed to this thread alone, and both words lie aligned in its header.
    unsafe {
        start.add(AT_CHUNK_START).cast::<u64>().write(at_ns);
        start.add(AT_CHUNK_THREAD).cast::<u32>().write(NUMBER.get());
    }
    Chunk { start, used: 0, encoder: Encoder::new(at_ns) }
}
