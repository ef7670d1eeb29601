//! The choices of a stack, and their spelling in `QUARRY_*`.
//!
//! [`OPTIONS`] also has options of the process's own stack and of the command `quarry`, so that the
//! command can check them without linking that stack, whose constructors would run in the command.

use super::bytes::parse_limit;
pub use super::bytes::{least_limit, parse_bytes};
use super::check_options::{self, CheckOptions};
use crate::frame::{FRAME_BYTES, MAX_NODES, NodeId};
use crate::pcp::{CACHE_SLICE_BYTES, FaultPolicy, FreeListPolicy, PageConfig, V6_18};
use crate::slab::{PolicyOptions, SlabPolicy};
use crate::zone::MarkOptions;
use quarry_sys::percpu::{PerCpu, SlotIndex};
use quarry_sys::placement::Placement;

/// The setup of a stack.
#[derive(Clone, Copy, Debug)]
pub struct StackOptions<P = V6_18> {
    /// Zones and per-CPU page lists.
    pub pages: PageConfig<P>,
    /// The rule by which the marks of the budget follow from its limit.
    pub marks: MarkOptions,
    /// The slab policy's own options.
    pub slab: PolicyOptions,
    /// Checks for errors of the program.
    pub checks: CheckOptions,
    /// If true, the size classes of `malloc` are created.
    pub heap: bool,
    /// If true, freed memory goes back before the process exceeds its recent size.
    pub bounds_footprint: bool,
}

/// Address space of a heap by default: 8 TiB, half of what frame numbers can name. It takes no
/// memory, and is halved until the system grants it.
pub const DEFAULT_RESERVE: usize = 8 << 40;

fn first_node(_slot: SlotIndex) -> NodeId {
    NodeId(0)
}

/// The node of the running CPU. (A slot's number is that of a CPU, but of some CPU's node only the
/// kernel knows.)
fn running_node(_slot: SlotIndex) -> NodeId {
    NodeId((quarry_sys::topology::current_node() as usize).min(MAX_NODES - 1) as u8)
}

impl<P: Default> Default for StackOptions<P> {
    /// The options that `libquarry.so` starts with.
    fn default() -> Self {
        let nodes = (quarry_sys::topology::memory_node_limit() as usize).min(MAX_NODES) as u8;
        Self {
            pages: PageConfig {
                reserve_bytes: DEFAULT_RESERVE,
                limit_frames: u32::MAX,
                initial_frames: 0,
                grow: true,
                nodes,
                node_of_slot: if nodes == 1 { first_node } else { running_node },
                declared_cpus: quarry_sys::topology::possible_cpus(),
                declared: None,
                cache_slice_bytes: CACHE_SLICE_BYTES,
                policy: P::default(),
                lists_extents: true,
                faults: FaultPolicy { populate: true, huge: true },
                free_list: FreeListPolicy::OneSection,
            },
            marks: MarkOptions::default(),
            slab: PolicyOptions::default(),
            checks: CheckOptions::OFF,
            heap: true,
            bounds_footprint: true,
        }
    }
}

/// The reason why a setting was refused; prints as one line that names what is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionError {
    /// No such name.
    UnknownName,
    /// The value is not of the kind that `accepted` describes.
    BadValue {
        /// The accepted values.
        accepted: &'static str,
    },
}

/// An option, as the library, the command and the documentation describe it.
pub struct OptionHelp {
    /// Name without the prefix `QUARRY_`.
    pub name: &'static str,
    /// Accepted values.
    pub accepted: &'static str,
    /// Its effect.
    pub meaning: &'static str,
}

impl OptionHelp {
    #[inline(never)]
    fn of_line(line: &'static str) -> Self {
        let (name, rest) = line.split_once('\t').unwrap_or_default();
        let (accepted, meaning) = rest.split_once('\t').unwrap_or_default();
        Self { name, accepted, meaning }
    }
}

/// A table of options as one text: a line for each option, with tabs between its three parts. (With
/// an array of texts, each start would relocate three addresses per option, on one page more.)
#[derive(Clone, Copy)]
pub struct Options(&'static str);

impl Options {
    /// No options.
    pub const NONE: Self = Self("");

    /// The options in `lines`.
    #[must_use]
    pub const fn of(lines: &'static str) -> Self {
        Self(lines)
    }

    /// The options in order.
    pub fn iter(self) -> impl Iterator<Item = OptionHelp> {
        self.0.lines().map(OptionHelp::of_line)
    }

    /// The option of this name.
    #[must_use]
    pub fn named(self, name: &str) -> Option<OptionHelp> {
        self.iter().find(|option| option.name == name)
    }
}

macro_rules! options {
    (
        $(#[$about:meta])* $table:ident:
        $(name: $name:literal, accepted: $accepted:literal, meaning: $meaning:literal;)+
    ) => {
        $(#[$about])*
        pub const $table: Options =
            Options(concat!($($name, "\t", $accepted, "\t", $meaning, "\n"),+));
    };
}

options! {
    /// Options that every library and crate of Quarry accepts.
    OPTIONS:
    name: "STATS", accepted: "0, 1 or a file name, with %p for the process's number",
    meaning: "print slabinfo, buddyinfo and lock counters at exit";
    name: "STATS_FORMAT", accepted: "text or json",
    meaning: "how they are printed (json in files whose names end so)";
    name: "RECORD", accepted: "0, 1, exit or live",
    meaning: "show statistics to other processes of the same user (once there are some)";
    name: "PROFILE", accepted: "0 or a file name, in which %p is the process",
    meaning: "profile the heap, and write at exit what `quarry profile` shows (0)";
    name: "PROFILE_MEAN", accepted: "bytes, such as 512K",
    meaning: "mean bytes from one sample of that profile to the next (512K)";
    name: "SIGNAL", accepted: "SIGUSR1, SIGUSR2, SIGHUP, SIGQUIT, SIGURG or SIGWINCH",
    meaning: "the signal that has statistics published and printed at once (none)";
    name: "PRESSURE", accepted: "auto, off or the whole name of a file",
    meaning: "what tells that memory is short (auto: systemd's file, or the group's)";
    name: "DISABLE", accepted: "0 or 1",
    meaning: "hand every request to the C library";
    name: "DEEPBIND", accepted: "0 or 1",
    meaning: "let objects opened with RTLD_DEEPBIND bind the C library's malloc (0)";
    name: "STRICT", accepted: "0 or 1",
    meaning: "end the program at its start if an option is not accepted (0)";
    name: "SANDBOX", accepted: "0 or 1",
    meaning: "make no system call that the C library's malloc does not make (0)";
    name: "LIMIT",
    accepted: "bytes, 4K or more, such as 1.5G, 512Mi or 1e9, or 50% of memory; 0 for none",
    meaning: "most memory that the heap may hold";
    name: "MIN_FREE", accepted: "bytes, such as 64M or 64Mi",
    meaning: "what the budget keeps for those that reclaim (by the square root of the limit)";
    name: "WATERMARK_SCALE", accepted: "1 to 3000",
    meaning: "gaps between the marks of the budget, in 10,000ths of the limit (10)";
    name: "PURGE_DELAY", accepted: "milliseconds, 0 = at once, -1 = never",
    meaning: "how long freed memory is kept before it goes back (500)";
    name: "BACKGROUND", accepted: "0 or 1",
    meaning: "whether a thread may give memory back while the program is idle (1)";
    name: "POPULATE", accepted: "0 or 1",
    meaning: "bring new slabs of growing caches into memory by one call (1)";
    name: "THP", accepted: "0 or 1",
    meaning: "ask for huge pages where slabs will fill them (1)";
    name: "NUMA", accepted: "local or interleave",
    meaning: "which node's memory the heap takes (that of who touches it first)";
    name: "CGROUP", accepted: "0 or 1",
    meaning: "whether the limits of the control group are the heap's as well (1)";
    name: "RESERVE", accepted: "bytes from 64M on, such as 1T",
    meaning: "addresses that the heap may use";
    name: "SLAB", accepted: "sheaf, or the NAME of a libquarry-NAME.so",
    meaning: "slab policy; chosen by the shared object, see `quarry run --slab`";
    name: "LIBRARY", accepted: "a file name",
    meaning: "the shared object that `quarry run` preloads";
}

options! {
    /// Options of builds with guard pages: shared objects, and crates with the feature `guard`.
    GUARD_OPTIONS:
    name: "GUARD", accepted: "0, milliseconds or all",
    meaning: "objects between guard pages now and then, or all that fit (0)";
}

options! {
    /// Options of builds with records: `libquarry-full.so`, and crates with the feature `checks`.
    RECORD_OPTIONS:
    name: "DEBUG",
    accepted: "letters of F, Z, P and U, then maybe malloc-SIZE, malloc-PREFIX* or large",
    meaning: "find errors: sanity checks, red zones, poison, owners (of all objects)";
    name: "HARDEN", accepted: "0 or 1",
    meaning: "random order, delayed reuse, canaries and guard pages (0)";
}

/// Returns whether a setting needs a build with records.
#[must_use]
pub fn asks_for_records(name: &str, value: &str) -> bool {
    RECORD_OPTIONS.named(name).is_some() && !matches!(value, "0" | "-")
}

/// The options of the product's builds.
pub fn all_options() -> impl Iterator<Item = OptionHelp> {
    [OPTIONS, GUARD_OPTIONS, RECORD_OPTIONS].into_iter().flat_map(Options::iter)
}

/// The name in `tables` that is likest to `name`, unless more than half of the letters differ.
#[must_use]
pub fn likest(name: &str, tables: &[Options]) -> Option<&'static str> {
    let (mut least, mut likest) = (name.len() / 2 + 1, None);
    for table in tables {
        for option in table.iter() {
            let distance = distance(name.as_bytes(), option.name);
            if distance < least {
                (least, likest) = (distance, Some(option.name));
            }
        }
    }
    likest
}

/// The least number of letters to insert, remove or replace that turn `name` into `other`; letters
/// of both cases are the same. A long name is like no other. O(both lengths).
fn distance(name: &[u8], other: &str) -> usize {
    let mut row: [usize; 33] = core::array::from_fn(|column| column);
    let Some(row) = row.get_mut(..=name.len()) else { return usize::MAX };
    for letter in other.bytes() {
        let mut diagonal = row[0];
        row[0] += 1;
        for column in 1..row.len() {
            let replaced = diagonal + usize::from(name[column - 1].to_ascii_uppercase() != letter);
            diagonal = row[column];
            row[column] = replaced.min(diagonal + 1).min(row[column - 1] + 1);
        }
    }
    row[row.len() - 1]
}

/// Signals that a program may leave to Quarry.
const SIGNALS: &[(&str, i32)] = &[
    ("SIGUSR1", libc::SIGUSR1),
    ("SIGUSR2", libc::SIGUSR2),
    ("SIGHUP", libc::SIGHUP),
    ("SIGQUIT", libc::SIGQUIT),
    ("SIGURG", libc::SIGURG),
    ("SIGWINCH", libc::SIGWINCH),
];

/// The number of a signal that `QUARRY_SIGNAL` may name.
#[must_use]
pub fn signal_number(name: &str) -> Option<i32> {
    SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

/// The placement that `QUARRY_NUMA` may name.
#[must_use]
pub fn placement_named(name: &str) -> Option<Placement> {
    match name {
        "local" => Some(Placement::Local),
        "interleave" => Some(Placement::Interleave),
        _ => None,
    }
}

/// Bytes of the longest name that [`names_file`] accepts.
pub const LONGEST_FILE_NAME: usize = 511;

/// Returns whether the value of `QUARRY_PRESSURE` is the whole name of a file.
#[must_use]
pub fn names_file(value: &[u8]) -> bool {
    value.starts_with(b"/") && value.len() <= LONGEST_FILE_NAME
}

impl<P> StackOptions<P> {
    /// Applies one setting; `name` is without the prefix. Names that concern only the library or
    /// the command (`STATS`, `SLAB`) change nothing here. Fails, and changes nothing, for unknown
    /// names and values.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        let bad = refusal(OPTIONS, name)?;
        match name {
            "LIMIT" => self.pages.limit_frames = parse_limit(value).ok_or(bad)?,
            "MIN_FREE" => {
                let frames = parse_bytes(value).ok_or(bad)? / FRAME_BYTES;
                self.marks.min = Some(u32::try_from(frames).map_err(|_| bad)?);
            }
            "WATERMARK_SCALE" => {
                let scale = value.parse().ok().filter(|scale| (1..=3000).contains(scale));
                self.marks.scale = scale.ok_or(bad)?;
            }
            "RESERVE" => {
                let bytes = parse_bytes(value).filter(|bytes| *bytes >= 64 << 20).ok_or(bad)?;
                self.pages.reserve_bytes = bytes.min(DEFAULT_RESERVE);
            }
            // Pages of all nodes are one zone's.
            "NUMA" if placement_named(value).ok_or(bad)? == Placement::Interleave => {
                (self.pages.nodes, self.pages.node_of_slot) = (1, first_node);
            }
            "POPULATE" => self.pages.faults.populate = parse_switch(value).ok_or(bad)?,
            "THP" => self.pages.faults.huge = parse_switch(value).ok_or(bad)?,
            "DISABLE" | "DEEPBIND" | "SANDBOX" | "BACKGROUND" | "CGROUP" | "STRICT"
                if parse_switch(value).is_none() =>
            {
                return Err(bad);
            }
            "PURGE_DELAY" if !value.parse().is_ok_and(|delay: i64| delay >= -1) => {
                return Err(bad);
            }
            "PURGE_DELAY" => self.bounds_footprint = value.parse() != Ok(-1i64),
            "PROFILE_MEAN" if parse_bytes(value).is_none_or(|mean| mean == 0) => return Err(bad),
            "STATS_FORMAT" if !["text", "json"].contains(&value) => return Err(bad),
            "PRESSURE" if !matches!(value, "auto" | "off") && !names_file(value.as_bytes()) => {
                return Err(bad);
            }
            "SIGNAL" if signal_number(value).is_none() => return Err(bad),
            "RECORD" if !["0", "1", "exit", "live"].contains(&value) => return Err(bad),
            _ => {}
        }
        Ok(())
    }

    /// Same as [`set`](Self::set), for [`GUARD_OPTIONS`].
    pub fn set_guard(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        let bad = refusal(GUARD_OPTIONS, name)?;
        self.checks.guard = check_options::sampling(value).ok_or(bad)?;
        Ok(())
    }

    /// Same as [`set`](Self::set), for [`RECORD_OPTIONS`].
    pub fn set_records(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        let bad = refusal(RECORD_OPTIONS, name)?;
        let checks = &mut self.checks;
        match name {
            "DEBUG" => {
                (checks.debug, checks.debugged) = check_options::debug(value).ok_or(bad)?;
            }
            _ => checks.harden = parse_switch(value).ok_or(bad)?,
        }
        Ok(())
    }

    /// Same as [`set`](Self::set), for the options of the slab policy `S`.
    pub fn set_slab<C: PerCpu, S: SlabPolicy<C>>(
        &mut self,
        name: &str,
        value: &str,
    ) -> Result<(), OptionError> {
        let bad = refusal(Options::of(S::OPTIONS), name)?;
        if S::set_option(&mut self.slab, name, value) { Ok(()) } else { Err(bad) }
    }
}

fn refusal(options: Options, name: &str) -> Result<OptionError, OptionError> {
    let OptionHelp { accepted, .. } = options.named(name).ok_or(OptionError::UnknownName)?;
    Ok(OptionError::BadValue { accepted })
}

fn parse_switch(value: &str) -> Option<bool> {
    match value {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}
