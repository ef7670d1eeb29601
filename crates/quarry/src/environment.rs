//! `QUARRY_*` variables: read once, without allocating, before anything else works.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char};
use quarry_core::heap::options::{OPTIONS, OptionError, StackOptions};
use quarry_core::pcp::FaultPolicy;
use quarry_sys::confined::is_confined;
use quarry_sys::file::find_piece;
use quarry_sys::primitive::{AtomicU32, Ordering};
use quarry_sys::report::warn;

/// What concerns the process rather than the stack.
pub(crate) struct Settings {
    /// `QUARRY_DISABLE=1`.
    pub(crate) disable: bool,
    /// `QUARRY_BACKGROUND`.
    pub(crate) background: bool,
    /// `QUARRY_CGROUP`.
    pub(crate) cgroup: bool,
    /// `QUARRY_PURGE_DELAY`, in milliseconds; negative = never.
    pub(crate) purge_delay_ms: i64,
}

/// Where statistics go at exit.
pub(crate) enum StatsTarget {
    /// A copy of the descriptor that was standard error when the process started.
    StandardError(i32),
    /// A file, appended to.
    File(*const c_char),
}

const STATS_NONE: u32 = 0;
const STATS_STDERR: u32 = 1;
const STATS_FILE: u32 = 2;
static STATS: AtomicU32 = AtomicU32::new(STATS_NONE);
static STATS_FD: AtomicU32 = AtomicU32::new(libc::STDERR_FILENO as u32);
/// Where the copy of standard error is put at least: out of the way of programs that count on the
/// lowest free descriptors.
const STATS_FD_FROM: i32 = 100;
static STATS_FILE_NAME: FileName = FileName(UnsafeCell::new([0; FILE_NAME_BYTES]));

/// Bytes of the longest file name with its NUL (`PATH_MAX` of Linux).
const FILE_NAME_BYTES: usize = libc::PATH_MAX as usize;

/// A copy of the name: daemons that change their title write over the environment itself.
struct FileName(UnsafeCell<[u8; FILE_NAME_BYTES]>);

// SAFETY: written by `set_stats` only, from the one thread that builds the process-wide stack, and
// read only after `STATS` was seen to be STATS_FILE, which is stored afterwards with release
// ordering.
unsafe impl Sync for FileName {}

pub(crate) fn stats_target() -> Option<StatsTarget> {
    match STATS.load(Ordering::Acquire) {
        STATS_STDERR => Some(StatsTarget::StandardError(STATS_FD.load(Ordering::Relaxed) as i32)),
        STATS_FILE => Some(StatsTarget::File(STATS_FILE_NAME.0.get().cast())),
        _ => None,
    }
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Applies every `QUARRY_*` variable to `options`. A name or value that is not accepted prints one
/// line and changes nothing. Programs with raised privileges (AT_SECURE) are not configured.
pub(crate) fn apply(options: &mut StackOptions) -> Settings {
    let mut settings =
        Settings { disable: false, background: true, cgroup: true, purge_delay_ms: 500 };
    each_entry(|entry| apply_entry(options, &mut settings, entry));
    if is_confined() {
        settings.background = false;
        settings.cgroup = false;
        options.pages.faults = FaultPolicy { populate: false, huge: false };
    }
    settings
}

/// Whether `QUARRY_SANDBOX=1`, which must be known before anything is asked of the system.
pub(crate) fn asks_for_confinement() -> bool {
    let mut asks = false;
    each_entry(|entry| {
        asks |= entry == b"QUARRY_SANDBOX=1";
        asks &= entry != b"QUARRY_SANDBOX=0";
    });
    asks
}

/// Calls `visit` for each entry of the environment; for none in programs with raised privileges.
fn each_entry(mut visit: impl FnMut(&[u8])) {
    // SAFETY: getauxval has no preconditions.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return;
    }
    // SAFETY: `environ` is either null or a null-terminated array of NUL-terminated strings; nobody
    // changes it while the first allocation is under way.
    unsafe {
        let mut entry = environ;
        if entry.is_null() {
            // Before libc has started: the loader or a `.preinit_array` allocates.
            let _ = find_piece(c"/proc/self/environ", 0, |entry| {
                visit(entry);
                None::<()>
            });
            return;
        }
        while !(*entry).is_null() {
            visit(CStr::from_ptr(*entry).to_bytes());
            entry = entry.add(1);
        }
    }
}

fn apply_entry(options: &mut StackOptions, settings: &mut Settings, entry: &[u8]) {
    let Some(rest) = entry.strip_prefix(b"QUARRY_") else { return };
    let Some(equals) = rest.iter().position(|byte| *byte == b'=') else { return };
    let (Ok(name), Ok(value)) =
        (core::str::from_utf8(&rest[..equals]), core::str::from_utf8(&rest[equals + 1..]))
    else {
        return warn(format_args!("a QUARRY_ variable is not UTF-8 and was ignored"));
    };
    match options.set(name, value) {
        Ok(()) => match name {
            "DISABLE" => settings.disable = value == "1",
            "BACKGROUND" => settings.background = value == "1",
            "CGROUP" => settings.cgroup = value == "1",
            "PURGE_DELAY" => settings.purge_delay_ms = value.parse().unwrap_or(-1),
            "STATS" => set_stats(value),
            _ => {}
        },
        Err(OptionError::UnknownName) => {
            warn(format_args!("QUARRY_{name} is not an option; accepted are {}", Names))
        }
        Err(OptionError::BadValue { accepted }) => {
            warn(format_args!("QUARRY_{name}={value} is not accepted; use {accepted}"));
        }
    }
}

fn set_stats(value: &str) {
    let target = match value {
        "" | "0" => STATS_NONE,
        "1" => STATS_STDERR,
        _ if value.len() >= FILE_NAME_BYTES => {
            return warn(format_args!(
                "QUARRY_STATS: a file name has fewer than {FILE_NAME_BYTES} bytes"
            ));
        }
        _ => STATS_FILE,
    };
    if target == STATS_STDERR {
        // Programs that check their output close standard error before they are done.
        // SAFETY: duplicating a descriptor touches no memory; a failure leaves the original.
        let copy =
            unsafe { libc::fcntl(libc::STDERR_FILENO, libc::F_DUPFD_CLOEXEC, STATS_FD_FROM) };
        if copy >= 0 {
            STATS_FD.store(copy as u32, Ordering::Relaxed);
        }
    }
    if target == STATS_FILE {
        // SAFETY: nobody reads before STATS says so below, and only the builder of the stack
        // writes; the value and a NUL fit.
        unsafe {
            let name = STATS_FILE_NAME.0.get().cast::<u8>();
            core::ptr::copy_nonoverlapping(value.as_ptr(), name, value.len());
            name.add(value.len()).write(0);
        }
    }
    STATS.store(target, Ordering::Release);
}

/// All names, as a list for people.
struct Names;

impl core::fmt::Display for Names {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for (index, option) in OPTIONS.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(out, "{separator}QUARRY_{}", option.name)?;
        }
        Ok(())
    }
}
