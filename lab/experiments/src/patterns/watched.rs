//! The part of a sample that runs in the watched process. Functions allocate only if they say so.

use super::heap::{Block, Heap};
use super::window::{Done, process_cpu_ns};
use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use quarry_harness::results::Measurement;
use quarry_harness::watch::GROUP_VARIABLE;
use std::io::Write;
use std::ptr::NonNull;
use std::time::Duration;

/// Joins the control group that the parent made, if there is one. Allocates.
pub(crate) fn join_group() -> Result<()> {
    let Some(file) = std::env::var_os(GROUP_VARIABLE) else { return Ok(()) };
    // "0" stands for the writing process.
    std::fs::write(file, "0").context("cannot join the control group")
}

/// Announces a phase with numbers. Formats them on the thread's stack, and writes by one call.
pub(crate) fn announce(phase: &str, numbers: &[u64]) {
    let mut line = [0u8; 256];
    let mut rest = &mut line[..];
    let mut written = write!(rest, "{phase}");
    for number in numbers {
        written = written.and_then(|()| write!(rest, " {number}"));
    }
    written.and_then(|()| writeln!(rest)).expect("phases are short");
    let length = 256 - rest.len();
    // SAFETY: the first `length` bytes of the line have been written.
    unsafe { libc::write(libc::STDOUT_FILENO, line.as_ptr().cast(), length) };
}

/// Waits until the parent closes the pipe, without the alarm that limits samples.
pub(crate) fn wait_for_the_end() {
    nix::unistd::alarm::cancel();
    let mut byte = 0u8;
    // SAFETY: reads at most one byte into `byte`.
    while unsafe { libc::read(libc::STDIN_FILENO, (&raw mut byte).cast(), 1) } > 0 {}
}

pub(crate) fn minor_faults() -> Result<u64> {
    Ok(getrusage(UsageWho::RUSAGE_SELF)?.minor_page_faults() as u64)
}

pub(crate) fn resident() -> u64 {
    let mut text = [0u8; 128];
    // SAFETY: the name is NUL-terminated; read writes at most the buffer.
    let length = unsafe {
        let file = libc::open(c"/proc/self/statm".as_ptr(), libc::O_RDONLY);
        let length = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        usize::try_from(length).unwrap_or(0)
    };
    let text = std::str::from_utf8(&text[..length]).unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0);
    // SAFETY: sysconf has no preconditions.
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}

/// The answer of a watched process: the file that serves malloc, operations, verified blocks,
/// counters. Allocates.
pub(crate) fn answer(
    heap: Heap,
    Done { operations, verified }: Done,
    wall: Duration,
    counters: &[(&str, u64)],
) -> Result<Measurement> {
    let ns = wall.as_nanos() as u64;
    let served_by = heap.served_by().context("no object serves malloc")?;
    let measurement = Measurement::of_window(operations, ns, ns, process_cpu_ns(), &served_by);
    Ok(Measurement { verified, ..measurement.with(counters) })
}

/// A block that a table owns, or no block: `word = 0`.
#[derive(Default)]
pub(crate) struct Entry {
    word: usize,
    pub(crate) size: usize,
}

impl Entry {
    /// Allocates a block of at least 8 bytes and writes all of it.
    pub(crate) fn allocate(heap: Heap, size: usize) -> Self {
        let word = heap.allocate(size, size as u64).into_word();
        // SAFETY: the block has `size` bytes, of which the first 8 keep their mark.
        unsafe { std::ptr::write_bytes((word + 8) as *mut u8, 0x5a, size - 8) };
        Self { word, size }
    }

    /// Frees the block, if there is one. Returns its size.
    pub(crate) fn free(&mut self, heap: Heap) -> Option<usize> {
        let Self { word, size } = std::mem::take(self);
        if word == 0 {
            return None;
        }
        // SAFETY: `allocate` turned a block into the word, and this entry, the only one with the
        // word, has just lost it.
        heap.free(unsafe { Block::from_word(word) }, size as u64);
        Some(size)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.word == 0
    }
}

/// A zeroed table outside the heap under test. Entries use memory once they are written.
pub(crate) struct Table<T> {
    start: NonNull<T>,
    length: usize,
}

impl<T> Table<T> {
    /// Bytes of a mapping for a table, at least one: there is no empty mapping.
    fn bytes(length: usize) -> usize {
        (length * size_of::<T>()).max(1)
    }

    /// A table of `length` entries. All-zero bytes must be a valid `T`.
    pub(crate) fn new(length: usize) -> Self {
        let bytes = Self::bytes(length);
        // SAFETY: a new anonymous mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert!(start != libc::MAP_FAILED, "no memory for a table of {bytes} bytes");
        Self { start: NonNull::new(start.cast()).expect("mmap gives no null"), length }
    }
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping is the table's own. No error is possible; entries own nothing.
        unsafe { libc::munmap(self.start.as_ptr().cast(), Self::bytes(self.length)) };
    }
}

// SAFETY: a table owns its mapping as a vector does.
unsafe impl<T: Send> Send for Table<T> {}

impl<T> std::ops::Deref for Table<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds `length` entries, which were zero or have been written.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl<T> std::ops::DerefMut for Table<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: same as in `deref`; the table is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}
