//! Writes statistics as tables for people, or as a line of JSON for programs.

use crate::gate;
use crate::instance::{DISABLED, READY, STACK, STATE};
use core::ffi::{CStr, c_char};
use core::fmt::Write;
use core::ptr::NonNull;
use quarry_mm::stack::{Report, Section, ServedBy};
use quarry_record::{
    About, Head, MAGIC, Name, Owner, RECORD_BYTES, RECORD_WORDS, Sequence, Sink, Snapshot, VERSION,
};
use quarry_sys::clock::coarse_ns;
use quarry_sys::errno;
use quarry_sys::os::{Linux, Os};
use quarry_sys::primitive::Ordering;
use quarry_sys::report::FdWriter;
use quarry_sys::system_call::process_id;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

unsafe extern "C" {
    /// glibc's name of the program without its directory.
    static program_invocation_short_name: *const c_char;
}

/// The name and the number of the process.
pub(crate) fn process() -> (&'static CStr, u32) {
    // SAFETY: glibc sets the short name, which ends with a NUL, before any constructor runs.
    (unsafe { CStr::from_ptr(program_invocation_short_name) }, process_id())
}

/// Writes the statistics to a file descriptor; after a failure, `errno` has the reason.
pub(crate) fn write_stats(fd: i32, format: Format) -> core::fmt::Result {
    match format {
        Format::Text => write_text(&mut FdWriter(fd)),
        Format::Json => write_json(fd),
    }
}

fn write_text(out: &mut FdWriter) -> core::fmt::Result {
    let (name, pid) = process();
    let name = name.to_str().unwrap_or("?");
    write!(out, "quarry {}: {name}[{pid}]", env!("CARGO_PKG_VERSION"))?;
    match STATE.load(Ordering::Acquire) {
        READY => {}
        DISABLED => return out.write_str(": QUARRY_DISABLE=1, the C library serves\n"),
        _ => return out.write_str(": nothing was asked of it\n"),
    }
    let _inside = gate::enter();
    let ServedBy { slab, pages, lru, backend } = STACK.stats().served_by;
    writeln!(out, "\npolicies: slabs {slab}, pages {pages}, LRU {lru}; {backend} serve")?;
    write!(out, "{}", Report { stack: &STACK, sections: Section::ALL })
}

/// Mapped memory for a record and its text: the heap may be full, and a handler's stack small.
struct Scratch(NonNull<u8>);

/// Longest line of JSON: at most 500 bytes for each of 56 caches, and fewer in total for all else.
const TEXT_BYTES: usize = 112 << 10;
const SCRATCH_BYTES: usize = RECORD_BYTES + TEXT_BYTES;

impl Scratch {
    fn new() -> Result<Self, core::fmt::Error> {
        Linux.reserve(SCRATCH_BYTES).map(Self).map_err(|error| {
            errno::set(error.0);
            core::fmt::Error
        })
    }

    fn parts(&mut self) -> (&mut [u64; RECORD_WORDS], &mut [u8]) {
        // SAFETY: fresh zeroed memory of SCRATCH_BYTES, which is ours; the parts do not overlap.
        unsafe {
            let text = self.0.add(RECORD_BYTES);
            let text = core::slice::from_raw_parts_mut(text.as_ptr(), TEXT_BYTES);
            (self.0.cast().as_mut(), text)
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: a whole reservation, which no code uses any more.
        unsafe { Linux.release(self.0, SCRATCH_BYTES) };
    }
}

struct Words<'a>(&'a mut [u64; RECORD_WORDS]);

impl Sink for Words<'_> {
    fn put(&mut self, at: usize, word: u64) {
        self.0[at] = word;
    }
}

/// Text that is written by one call, so that processes do not mix lines in a common file.
struct Text<'a> {
    room: &'a mut [u8],
    used: usize,
}

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = self.room.get_mut(self.used..self.used + text.len());
        room.ok_or(core::fmt::Error)?.copy_from_slice(text.as_bytes());
        self.used += text.len();
        Ok(())
    }
}

fn write_json(fd: i32) -> core::fmt::Result {
    let (name, pid) = process();
    let state = match STATE.load(Ordering::Acquire) {
        READY => "ready",
        DISABLED => "disabled",
        _ => "unused",
    };
    let head = [
        ("quarry", env!("CARGO_PKG_VERSION")),
        ("program", name.to_str().unwrap_or("?")),
        ("state", state),
    ];
    let mut scratch = Scratch::new()?;
    let (words, room) = scratch.parts();
    let mut sum = 0;
    if state == "ready" {
        let _inside = gate::enter();
        let about = About { quarry: Name::new(env!("CARGO_PKG_VERSION")), ..About::default() };
        sum = STACK.fill_record(&mut Words(words), about);
    }
    let (owner, now) = (Owner { generation: 1, pid }, coarse_ns());
    let head_of_record = Head {
        magic: MAGIC,
        version: VERSION,
        words: RECORD_WORDS as u32,
        owner: owner.to_word(),
        sequence: Sequence { generation: 1, count: 2 }.to_word(),
        claimed_ns: now,
        published_ns: now,
        publications: 1,
        sum: Head::sum_for(owner, sum),
    };
    words[..Head::WORDS].copy_from_slice(&head_of_record.to_words());
    // SAFETY: the words are initialised bytes as well.
    let bytes = unsafe { core::slice::from_raw_parts(words.as_ptr().cast::<u8>(), RECORD_BYTES) };
    let mut text = Text { room, used: 0 };
    let snapshot = Snapshot::parse(bytes).map_err(|_| core::fmt::Error)?;
    snapshot.write_json(&head, &mut text)?;
    let line = core::str::from_utf8(&text.room[..text.used]).map_err(|_| core::fmt::Error)?;
    FdWriter(fd).write_str(line)
}
