//! Memory that other processes of the same user can read: a sealed memfd.

use crate::errno::{OsError, OsResult};
use crate::file_descriptor::{FileDescriptor, duplicate, opened};
use crate::glibc::is_single_threaded;
use crate::system_call::{filled, map};
use core::ffi::CStr;
use core::ptr::{NonNull, null_mut};

/// Linux 6.3, `include/uapi/linux/memfd.h`; required where `vm.memfd_noexec` is 2.
const MFD_NOEXEC_SEAL: libc::c_uint = 8;
/// Linux 5.1, `include/uapi/linux/fcntl.h`: only mappings that exist stay writable.
const F_SEAL_FUTURE_WRITE: libc::c_int = 0x10;

/// Highest limit of open files that may become the descriptor's number: the kernel's table of open
/// files takes 8 bytes for each number up to the highest in use. The usual limit is 1,024.
const MOST_LIMIT: i32 = 4096;

/// Makes a memfd of exactly `bytes`, maps it shared and writable, and seals it: its size never
/// changes, and from Linux 5.1 on no other process can write it. The descriptor stays open until
/// `exec`, with a number of at least `least`, because programs expect to get the lowest numbers.
/// If the limit of open files is low, the number may be the limit: programs that close all numbers
/// below it leave this one open. Returns the memory and the number. About ten system calls.
///
/// # Errors
/// The error of a system call: no memfd, no such number, or a limit of file sizes below `bytes`
/// (`EFBIG`). Then nothing stays open or mapped.
pub fn map_sealed(name: &CStr, bytes: usize, least: i32) -> OsResult<(NonNull<u8>, i32)> {
    // SAFETY: a new mapping that replaces nothing.
    unsafe { map_sealed_at(null_mut(), name, bytes, least) }
}

/// [`map_sealed`] in place of the memory at `at`, which loses its contents.
///
/// # Errors
/// As for [`map_sealed`]; the memory has not changed then.
///
/// # Safety
/// The `bytes` at `at`, whole pages, are the caller's mapping, and all other code accesses them as
/// atomic words, any of which may become 0.
pub unsafe fn replace_by_sealed(
    at: NonNull<u8>,
    name: &CStr,
    bytes: usize,
    least: i32,
) -> OsResult<()> {
    // SAFETY: the caller's promise is passed on.
    unsafe { map_sealed_at(at.as_ptr().cast(), name, bytes, least) }.map(drop)
}

/// Puts private memory in place of the memory at `at`, which loses its contents.
///
/// # Errors
/// The system's refusal; the memory has not changed then.
///
/// # Safety
/// The same as for [`replace_by_sealed`].
pub unsafe fn replace_by_private(at: NonNull<u8>, bytes: usize) -> OsResult<()> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: the mapping is the caller's (its promise).
    unsafe { map(at.as_ptr(), bytes, protection, flags, -1) }.map(drop)
}

/// # Safety
/// `at` is null, or satisfies what [`replace_by_sealed`] requires.
unsafe fn map_sealed_at(
    at: *mut libc::c_void,
    name: &CStr,
    bytes: usize,
    least: i32,
) -> OsResult<(NonNull<u8>, i32)> {
    // The kernel sends SIGXFSZ to a process that makes a file larger than its limit.
    if file_size_limit() < bytes as u64 {
        return Err(OsError(libc::EFBIG));
    }
    let low = create(name)?;
    low.set_size(bytes as u64)?;
    let kept = match keep_beyond_limit(&low, least) {
        Some(kept) => kept,
        None => duplicate(low.number(), least)?,
    };
    drop(low);
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | if at.is_null() { 0 } else { libc::MAP_FIXED };
    // SAFETY: maps a file that no other code knows; replaces nothing, or the caller's range.
    let memory = unsafe { map(at.cast(), bytes, protection, flags, kept.number()) }?;
    seal(&kept);
    Ok((memory, kept.leave_open()))
}

/// [`duplicate`] with a number that no call of the program can return: the limit of open files,
/// which this raises by one for a moment. `None` where the system refuses, where another thread
/// could see the raised limit, or where the number would enlarge the kernel's table, which each
/// fork copies.
fn keep_beyond_limit(low: &FileDescriptor, least: i32) -> Option<FileDescriptor> {
    if !is_single_threaded() {
        return None;
    }
    let limit = limit_of(libc::RLIMIT_NOFILE, None).ok()?;
    let number = i32::try_from(limit.rlim_cur).ok().filter(|number| *number <= MOST_LIMIT)?;
    let least = number.max(least);
    let raised = libc::rlimit { rlim_cur: least as u64 + 1, ..limit };
    limit_of(libc::RLIMIT_NOFILE, Some(&raised)).ok()?;
    let kept = duplicate(low.number(), least);
    let _ = limit_of(libc::RLIMIT_NOFILE, Some(&limit));
    kept.ok()
}

fn file_size_limit() -> u64 {
    limit_of(libc::RLIMIT_FSIZE, None).map_or(0, |limit| limit.rlim_cur)
}

/// Returns a resource limit of the process, and sets it to `new` if given.
fn limit_of(
    resource: impl Into<libc::c_long>,
    new: Option<&libc::rlimit>,
) -> OsResult<libc::rlimit> {
    let new = new.map_or(core::ptr::null(), core::ptr::from_ref);
    let (own, resource) = (0, resource.into());
    // SAFETY: `new` is null or readable for the call, which fills the limit if it succeeds.
    unsafe { filled(|limit| libc::syscall(libc::SYS_prlimit64, own, resource, new, limit)) }
}

fn create(name: &CStr) -> OsResult<FileDescriptor> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    let create = |flags: libc::c_uint| {
        // SAFETY: the name is NUL-terminated and outlives the call.
        opened(unsafe { libc::syscall(libc::SYS_memfd_create, name.as_ptr(), flags) })
    };
    create(flags | MFD_NOEXEC_SEAL).or_else(|error| match error {
        OsError(libc::EINVAL) => create(flags),
        _ => Err(error),
    })
}

/// Errors are ignored: a memfd without seals serves as well, because only Quarry writes it.
fn seal(memfd: &FileDescriptor) {
    let seals = libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;
    let (call, command) = (libc::SYS_fcntl, libc::F_ADD_SEALS);
    // SAFETY: takes numbers only.
    let add = |seals: i32| unsafe { libc::syscall(call, memfd.number(), command, seals) == 0 };
    if !add(seals | F_SEAL_FUTURE_WRITE) {
        add(seals);
    }
}

#[cfg(all(test, not(any(miri, quarry_model, quarry_sim))))]
mod tests {
    use super::*;
    use std::fs::{self, File, OpenOptions};
    use std::io::Read;
    use std::os::fd::AsRawFd;

    const BYTES: usize = 64 << 10;

    /// Returns the descriptors of this process that refer to the memfd of this name.
    fn numbers(name: &str) -> Vec<i32> {
        let link = format!("/memfd:{name} (deleted)");
        let all = fs::read_dir("/proc/self/fd").expect("/proc is mounted").flatten();
        let ours = all.filter(|entry| fs::read_link(entry.path()).is_ok_and(|to| to == *link));
        ours.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }

    #[test]
    fn others_read_it_and_change_neither_its_size_nor_its_contents() {
        let (memory, kept) =
            map_sealed(c"quarry-test-sealed", BYTES, 100).expect("there are memfds");
        let found = numbers("quarry-test-sealed");
        let [number] = found[..] else { panic!("one descriptor: {found:?}") };
        assert!(number >= 100 && number == kept, "{number}");
        // SAFETY: the mapping is ours, writable and of BYTES.
        unsafe { memory.as_ptr().add(BYTES - 1).write(7) };
        let path = format!("/proc/self/fd/{number}");
        let mut bytes = Vec::new();
        let mut file = File::open(&path).expect("its owner reads it");
        file.read_to_end(&mut bytes).expect("it is a file");
        assert_eq!((bytes.len(), bytes[BYTES - 1]), (BYTES, 7));
        // SAFETY: fcntl with numbers only.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        assert_ne!(seals & libc::F_SEAL_SHRINK, 0, "a reader of a mapping never gets SIGBUS");
        let writer = OpenOptions::new().write(true).open(&path).expect("its owner may open it");
        assert!(writer.set_len(0).is_err() && writer.set_len(2 * BYTES as u64).is_err());
        if seals & F_SEAL_FUTURE_WRITE != 0 {
            assert!(std::io::Write::write(&mut &writer, b"x").is_err(), "no other process writes");
        }
    }

    #[test]
    fn a_refusal_leaves_nothing_open() {
        let refused = map_sealed(c"quarry-test-refused", BYTES, i32::MAX);
        assert!(refused.is_err(), "there is no such number");
        assert!(numbers("quarry-test-refused").is_empty());
    }
}
