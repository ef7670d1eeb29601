//! The trace of this process.

use quarry_trace::CHUNK_BYTES;
use quarry_trace::layout::{
    AT_CHUNK_BYTES, AT_CHUNKS, AT_COMMAND, AT_COMMAND_LENGTH, AT_LOST, AT_PROCESS, AT_START,
    AT_THREADS, AT_USED_CHUNKS, AT_VERSION, COMMAND_BYTES, MAGIC, VERSION, file_bytes,
};
use std::env::var_os;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// The variable with the trace's path; set by `quarry record`.
const FILE_VARIABLE: &str = "QUARRY_TRACE";
/// The variable with the maximum number of bytes that the trace may have; set by `quarry record`.
const BYTES_VARIABLE: &str = "QUARRY_TRACE_BYTES";

/// The variable that makes children record too; set by `quarry record --children`.
const CHILDREN_VARIABLE: &str = "QUARRY_TRACE_CHILDREN";

/// The mapped trace; null before it is open, in forked children, and if it could not be made.
static MAPPED: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

fn number(mapped: *mut u8, at: usize) -> &'static AtomicU32 {
    // SAFETY: `mapped` is a mapping of at least a header that is never unmapped; `at` is one of the
    // layout's offsets, a multiple of 4 within the header, and all code uses it as an atomic.
    unsafe { AtomicU32::from_ptr(mapped.add(at).cast()) }
}

fn long_number(mapped: *mut u8, at: usize) -> &'static AtomicU64 {
    // SAFETY: as in `number`, with multiples of 8.
    unsafe { AtomicU64::from_ptr(mapped.add(at).cast()) }
}

pub(crate) fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[inline]
pub(crate) fn is_open() -> bool {
    !MAPPED.load(Ordering::Acquire).is_null()
}

/// Counts a call that is not recorded.
pub(crate) fn lose() {
    let mapped = MAPPED.load(Ordering::Acquire);
    if !mapped.is_null() {
        long_number(mapped, AT_LOST).fetch_add(1, Ordering::Relaxed);
    }
}

pub(crate) fn next_thread() -> u32 {
    match MAPPED.load(Ordering::Acquire) {
        mapped if mapped.is_null() => 1,
        mapped => number(mapped, AT_THREADS).fetch_add(1, Ordering::Relaxed) + 1,
    }
}

/// An unused chunk, [`CHUNK_BYTES`] long and zero; `None` if the file has no room left.
pub(crate) fn next_chunk() -> Option<*mut u8> {
    let mapped = MAPPED.load(Ordering::Acquire);
    if mapped.is_null() {
        return None;
    }
    let (used, all) = (number(mapped, AT_USED_CHUNKS), number(mapped, AT_CHUNKS));
    let all = all.load(Ordering::Relaxed);
    let take = |seen| (seen < all).then_some(seen + 1);
    let chunk = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
    // SAFETY: the mapping has `all` chunks after its header.
    Some(unsafe { mapped.add(file_bytes(chunk as usize)) })
}

/// Stops recording in a forked child, which would write into its parent's chunks.
extern "C" fn in_child() {
    MAPPED.store(ptr::null_mut(), Ordering::Release);
}

/// Makes the trace that the environment names, and begins to record. If that fails, it prints the
/// reason in one line, and the program runs without being recorded.
pub(crate) fn open() {
    // `begun` frees its blocks before recording begins, as the trace lacks their allocations.
    if let Some(mapped) = begun() {
        // SAFETY: the handler only stores one word, which is allowed in a forked child.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        MAPPED.store(mapped, Ordering::Release);
    }
}

fn begun() -> Option<*mut u8> {
    let (path, bytes) = (var_os(FILE_VARIABLE)?, var_os(BYTES_VARIABLE)?);
    let bytes = bytes.to_str().and_then(|text| text.parse().ok()).unwrap_or(0);
    let children = var_os(CHILDREN_VARIABLE).is_some();
    make(Path::new(&path), bytes / CHUNK_BYTES, children).unwrap_or_else(|error| {
        let path = path.to_string_lossy();
        eprintln!("quarry: {path}: {error}; the program runs, and is not recorded");
        None
    })
}

/// A mapped file of this many chunks, with its header; `None` if the process is not to be recorded.
fn make(path: &Path, chunks: usize, children: bool) -> io::Result<Option<*mut u8>> {
    if chunks == 0 {
        return Err(io::Error::other("there is no room for a chunk"));
    }
    let Some((file, own)) = create(path, children)? else { return Ok(None) };
    let mapped = reserve(&file, file_bytes(chunks)).inspect_err(|_| {
        let _ = fs::remove_file(own);
    })?;
    fill_header(mapped, chunks as u32);
    Ok(Some(mapped))
}

/// Creates the file `path`. If another process of the program has this file already, creates
/// `path.PID` if `children` are recorded, and otherwise returns `None`. A process that executes
/// several programs in turn replaces its own file, which so holds the last of them.
fn create(path: &Path, children: bool) -> io::Result<Option<(File, PathBuf)>> {
    let own = PathBuf::from(format!("{}.{}", path.to_string_lossy(), std::process::id()));
    for name in std::iter::once(path.to_owned()).chain(children.then_some(own)) {
        if owner(&name) == Some(std::process::id()) {
            let _ = fs::remove_file(&name);
        }
        match File::options().read(true).write(true).create_new(true).mode(0o600).open(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            file => return Ok(Some((file?, name))),
        }
    }
    Ok(None)
}

fn owner(name: &Path) -> Option<u32> {
    let mut header = [0; AT_PROCESS + 4];
    File::open(name).ok()?.read_exact(&mut header).ok()?;
    Some(u32::from_le_bytes(header[AT_PROCESS..].try_into().ok()?))
}

/// Gives the file its full size on the disk, and maps it.
fn reserve(file: &File, bytes: usize) -> io::Result<*mut u8> {
    let (file, access) = (file.as_raw_fd(), libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: `file` is open for writing.
    let refused = unsafe { libc::posix_fallocate(file, 0, bytes as libc::off_t) };
    if refused != 0 {
        return Err(io::Error::from_raw_os_error(refused));
    }
    // SAFETY: a new mapping, which replaces none, and which stays when the file is closed.
    let mapped = unsafe { libc::mmap(ptr::null_mut(), bytes, access, libc::MAP_SHARED, file, 0) };
    if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(mapped.cast()) }
}

fn fill_header(mapped: *mut u8, chunks: u32) {
    let numbers = [
        (AT_VERSION, VERSION),
        (AT_CHUNK_BYTES, CHUNK_BYTES as u32),
        (AT_CHUNKS, chunks),
        (AT_PROCESS, std::process::id()),
    ];
    for (at, value) in numbers {
        number(mapped, at).store(value, Ordering::Relaxed);
    }
    long_number(mapped, AT_START).store(now_ns(), Ordering::Relaxed);
    let command = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let length = command.len().min(COMMAND_BYTES);
    number(mapped, AT_COMMAND_LENGTH).store(length as u32, Ordering::Relaxed);
    // SAFETY: the header has room for COMMAND_BYTES there, and no other thread uses it yet.
    unsafe { mapped.add(AT_COMMAND).copy_from_nonoverlapping(command.as_ptr(), length) };
    // SAFETY: the header begins with the magic, which comes last: without it the file is no trace.
    unsafe { mapped.copy_from_nonoverlapping(MAGIC.as_ptr(), MAGIC.len()) };
}
