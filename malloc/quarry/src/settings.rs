//! The settings of `QUARRY_*` variables, read without allocating, even before the C library has
//! started.
//!
//! The settings of the process are read once: when the object is loaded, or at an earlier
//! allocation. The settings of the stack are read when the stack is built. For each name or value
//! that is not accepted, this reading prints a line; such a setting changes nothing, but a limit is
//! never dropped: it becomes the smallest that its text may mean. With `QUARRY_STRICT=1` the
//! reading ends the process instead.

use crate::instance::{HAS_GUARDS, HAS_RECORDS, SLAB, SLAB_OPTIONS, Slab};
use crate::{heap_profile, statistics};
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int};
use core::fmt::Write;
use quarry_mm::frame::FRAME_BYTES;
use quarry_mm::heap::options::{
    GUARD_OPTIONS, LONGEST_FILE_NAME, OPTIONS, OptionError, Options, RECORD_OPTIONS, StackOptions,
    asks_for_records, least_limit, likest, names_file, placement_named, signal_number,
};
use quarry_mm::pcp::FaultPolicy;
use quarry_mm::slab::SlabPolicy;
use quarry_sys::confined::{confine, is_confined};
use quarry_sys::file::find_piece;
use quarry_sys::percpu::NativeSlots;
use quarry_sys::placement;
use quarry_sys::primitive::{AtomicBool, AtomicU32, Ordering, relax};
use quarry_sys::psi::Trigger;
use quarry_sys::report::{Line, expect_reader, warn};
use quarry_sys::send_descriptor::LONGEST_NAME;

/// Settings of the process, not of the stack. A value that is not accepted changes nothing.
pub(crate) struct Settings {
    /// `QUARRY_DISABLE`: the C library serves.
    pub(crate) disable: AtomicBool,
    /// `QUARRY_STRICT`: a setting that is not accepted ends the process.
    pub(crate) strict: bool,
    /// A file name among the settings is not accepted.
    refused: bool,
    /// `QUARRY_DEEPBIND`: `dlopen` leaves RTLD_DEEPBIND set.
    pub(crate) deepbind: bool,
    /// `QUARRY_BACKGROUND`: a background thread may start.
    pub(crate) background: bool,
    /// `QUARRY_CGROUP`: the heap obeys the limit of the control group.
    pub(crate) cgroup: bool,
    /// `QUARRY_PURGE_DELAY`, in milliseconds; negative = never.
    pub(crate) purge_delay_ms: i64,
    /// `QUARRY_PRESSURE`, or else `MEMORY_PRESSURE_WATCH`.
    pub(crate) pressure: Pressing,
    /// `MEMORY_PRESSURE_WRITE`: how much waiting for memory is pressure.
    pub(crate) trigger: Trigger,
    pub(crate) record: Wish,
    pub(crate) signal: Option<c_int>,
    /// `QUARRYRUN_PID`: the process that `quarry run` has turned into, or 0.
    pub(crate) run_pid: u32,
    /// `QUARRYRUN_STATS`: the abstract socket of a watcher, or empty.
    pub(crate) watcher: Line<LONGEST_NAME>,
}

/// The kind of statistics page that the process should have (`QUARRY_RECORD`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// No page.
    None,
    /// A page, made at the first publication.
    OnDemand,
    /// A page, made at the start.
    Page,
    /// A page, made at the start; the process also publishes at its start and its exit.
    UntilExit,
    /// A page, made at the start; a thread publishes in it even if the process is idle.
    Live,
}

/// Where the process learns that the system is short of memory.
#[expect(clippy::large_enum_variant, reason = "there is one, and no place to box it")]
pub(crate) enum Pressing {
    /// Nowhere.
    Off,
    /// In the kernel's file of its group.
    OwnGroup,
    /// In a file, whose name ends with a NUL.
    File(Line<{ LONGEST_FILE_NAME + 1 }>),
}

struct Place(UnsafeCell<Settings>);

// SAFETY: the thread that takes `STATE` from `UNREAD` to `READING` writes it. Other threads read it
// once they see `READ`, which that thread stores with release ordering when it is done.
unsafe impl Sync for Place {}

static SETTINGS: Place = Place(UnsafeCell::new(Settings {
    disable: AtomicBool::new(false),
    strict: false,
    refused: false,
    deepbind: false,
    background: true,
    cgroup: true,
    purge_delay_ms: 500,
    pressure: Pressing::OwnGroup,
    trigger: Trigger::USUAL,
    record: Wish::OnDemand,
    signal: None,
    run_pid: 0,
    watcher: Line::new(),
}));

/// The options that are accepted here.
const TABLES: &[Options] = &[
    OPTIONS,
    if HAS_GUARDS { GUARD_OPTIONS } else { Options::NONE },
    if HAS_RECORDS { RECORD_OPTIONS } else { Options::NONE },
    Options::of(SLAB_OPTIONS),
];

/// `EX_CONFIG` of `sysexits.h`, which systemd shows as `78/CONFIG`.
const MISCONFIGURED: c_int = 78;

const UNREAD: u32 = 0;
const READING: u32 = 1;
const READ: u32 = 2;
static STATE: AtomicU32 = AtomicU32::new(UNREAD);

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Calls `visit` for each entry of the environment; for none if the process is AT_SECURE.
fn each_entry(mut visit: impl FnMut(&[u8])) {
    if is_privileged() {
        return;
    }
    // SAFETY: `environ` is either null or a null-terminated array of NUL-terminated strings; no
    // thread changes it while the first allocation is under way.
    unsafe {
        let mut entry = environ;
        if entry.is_null() {
            return each_of_file(&mut visit);
        }
        while !(*entry).is_null() {
            visit(CStr::from_ptr(*entry).to_bytes());
            entry = entry.add(1);
        }
    }
}

/// [`each_entry`] before libc has started, for allocations by the loader or a `.preinit_array`.
#[cold]
#[inline(never)]
fn each_of_file(visit: &mut dyn FnMut(&[u8])) {
    let _ = find_piece(c"/proc/self/environ", 0, |entry| {
        visit(entry);
        None::<()>
    });
}

fn is_privileged() -> bool {
    // SAFETY: getauxval has no preconditions.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Confines the process if `QUARRY_SANDBOX=1`. Called before Quarry makes any other system call.
pub(crate) fn confine_if_asked() {
    let mut asks = false;
    each_entry(|entry| {
        asks |= entry == b"QUARRY_SANDBOX=1";
        asks &= entry != b"QUARRY_SANDBOX=0";
    });
    if asks {
        confine();
    }
}

pub(crate) fn known() -> Option<&'static Settings> {
    // SAFETY: once READ is seen, the settings do not change any more.
    (STATE.load(Ordering::Acquire) == READ).then(|| unsafe { &*SETTINGS.0.get() })
}

/// The settings of the process, read by the first call, on a stack of Quarry's own: the reading
/// takes more stack than a caller of `malloc` may have.
pub(crate) fn settings() -> &'static Settings {
    loop {
        if let Some(settings) = known() {
            return settings;
        }
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        if STATE.compare_exchange(UNREAD, READING, acquire, relaxed).is_ok() {
            confine_if_asked();
            // SAFETY: STATE was UNREAD, so only this thread is here, and the others wait for READ.
            unsafe { (*SETTINGS.0.get()).read() };
            STATE.store(READ, Ordering::Release);
        }
        relax();
    }
}

/// The name, without `QUARRY`, and the value of an entry of the environment that is Quarry's.
fn ours(entry: &[u8]) -> Option<(&str, &str)> {
    core::str::from_utf8(entry.strip_prefix(b"QUARRY")?).ok()?.split_once('=')
}

impl Settings {
    #[inline(never)]
    fn read(&mut self) {
        each_entry(|entry| self.take(entry));
        if is_confined() {
            self.background = false;
            self.cgroup = false;
        }
        if self.record == Wish::OnDemand && !self.watcher.as_bytes().is_empty() {
            self.record = Wish::Page;
        }
        if is_confined() || *self.disable.get_mut() || is_privileged() {
            self.record = Wish::None;
        }
    }

    fn take(&mut self, entry: &[u8]) {
        match ours(entry) {
            Some(("RUN_PID", value)) => self.run_pid = value.parse().unwrap_or(0),
            Some(("RUN_STATS", value)) => {
                self.watcher = Line::new();
                let _ = self.watcher.write_str(value);
            }
            Some(("RUN_READER", value)) if HAS_GUARDS => expect_reader(value),
            Some((name, value)) if let Some(name) = name.strip_prefix('_') => self.set(name, value),
            _ if entry.starts_with(b"MEMORY_PRESSURE_W") => self.take_of_systemd(entry),
            _ => {}
        }
    }

    /// Takes over what systemd says about pressure (`systemd.exec(5)`); the program's own setting
    /// has precedence.
    #[cold]
    #[inline(never)]
    fn take_of_systemd(&mut self, entry: &[u8]) {
        if let Some(text) = entry.strip_prefix(b"MEMORY_PRESSURE_WRITE=") {
            self.trigger = Trigger::parse_base64(text).unwrap_or(self.trigger);
        } else if let Some(name) = entry.strip_prefix(b"MEMORY_PRESSURE_WATCH=")
            && matches!(self.pressure, Pressing::OwnGroup)
        {
            self.watch(name);
        }
    }

    /// Watches a file, or none for `off` and what systemd has for it; else changes nothing.
    #[cold]
    #[inline(never)]
    fn watch(&mut self, name: &[u8]) {
        if matches!(name, b"off" | b"/dev/null") {
            self.pressure = Pressing::Off;
        } else if names_file(name) {
            self.pressure = Pressing::File(Line::new());
            if let Pressing::File(line) = &mut self.pressure {
                line.push(name);
                line.push(b"\0");
            }
        }
    }

    fn set(&mut self, name: &str, value: &str) {
        let switch = match name {
            "DISABLE" => self.disable.get_mut(),
            "DEEPBIND" => &mut self.deepbind,
            "BACKGROUND" => &mut self.background,
            "CGROUP" => &mut self.cgroup,
            "PURGE_DELAY" => {
                let delay = value.parse().ok().filter(|delay| *delay >= -1);
                self.purge_delay_ms = delay.unwrap_or(self.purge_delay_ms);
                return;
            }
            "RECORD" => {
                self.record = match value {
                    "0" => Wish::None,
                    "1" => Wish::Page,
                    "exit" => Wish::UntilExit,
                    "live" => Wish::Live,
                    _ => self.record,
                };
                return;
            }
            "PRESSURE" => return self.watch(value.as_bytes()),
            "SIGNAL" => return self.signal = signal_number(value).or(self.signal),
            // A text that is neither may mean 1.
            "STRICT" => return self.strict = !matches!(value, "" | "0"),
            "STATS" => return self.refused |= statistics::prepare(value).is_err(),
            "NUMA" => return placement_named(value).map_or((), placement::choose),
            "STATS_FORMAT" => return statistics::set_format(value),
            "PROFILE" => return self.refused |= heap_profile::prepare(value).is_err(),
            "PROFILE_MEAN" => return heap_profile::set_mean(value),
            _ => return,
        };
        match value {
            "0" => *switch = false,
            "1" => *switch = true,
            _ => {}
        }
    }
}

/// The options of the stack. Programs with raised privileges (AT_SECURE) get the defaults.
pub(crate) fn stack_options() -> StackOptions {
    let mut options = StackOptions::default();
    let mut refused = settings().refused;
    each_entry(|entry| {
        let (name, value) = match ours(entry) {
            Some((name, value)) if let Some(name) = name.strip_prefix('_') => (name, value),
            None if entry.starts_with(b"QUARRY_LIMIT=") => ("LIMIT", "\u{fffd}"),
            None if entry.starts_with(b"QUARRY_") => {
                warn(format_args!("a QUARRY_ variable is not UTF-8 and was ignored"));
                return refused = true;
            }
            _ => return,
        };
        refused |= !apply(&mut options, name, value);
    });
    if refused && settings().strict {
        warn(format_args!("the program does not start, because of QUARRY_STRICT"));
        // SAFETY: the program has not started, so nothing of it waits for an exit handler.
        unsafe { libc::_exit(MISCONFIGURED) };
    }
    // Without a purge delay, lists keep no extents.
    options.pages.lists_extents &= settings().purge_delay_ms != 0;
    if is_confined() {
        options.pages.faults = FaultPolicy { populate: false, huge: false };
    }
    options
}

fn is_compiled_in(slab: &str) -> bool {
    <Slab as SlabPolicy<NativeSlots>>::is_called(slab)
}

/// Applies a setting; returns false, and prints a line, if it has not wholly the effect asked for.
/// Most starts have no setting, so this code does not lie among theirs.
#[cold]
#[inline(never)]
fn apply(options: &mut StackOptions, name: &str, value: &str) -> bool {
    let mut set = options.set(name, value);
    if HAS_GUARDS && set == Err(OptionError::UnknownName) {
        set = options.set_guard(name, value);
    }
    if HAS_RECORDS && set == Err(OptionError::UnknownName) {
        set = options.set_records(name, value);
    }
    if !SLAB_OPTIONS.is_empty() && set == Err(OptionError::UnknownName) {
        set = options.set_slab::<NativeSlots, Slab>(name, value);
    }
    match set {
        Ok(()) if name != "SLAB" || is_compiled_in(value) => return true,
        Err(OptionError::UnknownName)
            if RECORD_OPTIONS.named(name).is_some() && !asks_for_records(name, value) =>
        {
            return true;
        }
        Err(OptionError::BadValue { .. }) if name == "LIMIT" => {
            options.pages.limit_frames = least_limit(value);
        }
        _ => {}
    }
    tell(name, value, set, options.pages.limit_frames);
    false
}

/// Prints why a setting is not, or not wholly, what its text asks.
#[cold]
#[inline(never)]
fn tell(name: &str, value: &str, set: Result<(), OptionError>, limit_frames: u32) {
    match set {
        Ok(()) => warn(format_args!(
            "QUARRY_SLAB={value}: {SLAB} is compiled in here, and no other is accepted; \
             `quarry run --slab NAME` takes libquarry-NAME.so"
        )),
        Err(OptionError::UnknownName) if !HAS_RECORDS && RECORD_OPTIONS.named(name).is_some() => {
            warn(format_args!(
                "QUARRY_{name}={value}: only libquarry-full.so has these checks; `quarry run` \
                 takes it where they are asked for"
            ));
        }
        Err(OptionError::UnknownName) => {
            let (guess, likest, end) = match likest(name, TABLES) {
                Some(likest) => ("did you mean QUARRY_", likest, "? "),
                None => ("", "", ""),
            };
            warn(format_args!(
                "QUARRY_{name} is not an option; {guess}{likest}{end}libquarry(7) and `quarry run \
                 --help` list all"
            ));
        }
        Err(OptionError::BadValue { accepted }) if name == "LIMIT" => {
            let kib = u64::from(limit_frames) * (FRAME_BYTES as u64 / 1024);
            warn(format_args!(
                "QUARRY_LIMIT={value} is not accepted, and counts as {kib} KiB; use {accepted}"
            ));
        }
        Err(OptionError::BadValue { accepted }) => {
            warn(format_args!("QUARRY_{name}={value} is not accepted; use {accepted}"));
        }
    }
}
