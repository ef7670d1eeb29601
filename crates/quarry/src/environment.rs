//! What `QUARRY_*` variables set: applied once, without allocating, before anything else works.

use crate::instance::{HAS_MECHANISMS, SLAB};
use crate::record::Wish;
use crate::variables::{each_entry, is_privileged};
use crate::{profile, statistics};
use quarry_core::heap::options::{MECHANISM_OPTIONS, OPTIONS, OptionError, StackOptions};
use quarry_core::pcp::FaultPolicy;
use quarry_core::slab::slab_policy;
use quarry_sys::confined::is_confined;
use quarry_sys::primitive::{AtomicBool, Ordering};
use quarry_sys::report::warn;

/// Settings of the process rather than of the stack.
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

/// `QUARRY_DEEPBIND`.
static KEEPS_DEEPBIND: AtomicBool = AtomicBool::new(false);

/// Returns whether RTLD_DEEPBIND is to be left alone.
pub(crate) fn keeps_deepbind() -> bool {
    KEEPS_DEEPBIND.load(Ordering::Relaxed)
}

/// Applies every `QUARRY_*` variable to `options`. A name or value that is not accepted prints one
/// line and changes nothing. Programs with raised privileges (AT_SECURE) are not configured.
pub(crate) fn apply(options: &mut StackOptions) -> Settings {
    let mut settings =
        Settings { disable: false, background: true, cgroup: true, purge_delay_ms: 500 };
    each_entry(|entry| apply_entry(options, &mut settings, entry));
    // Without a delay nothing is held back.
    options.pages.lists_extents &= settings.purge_delay_ms != 0;
    if is_confined() {
        settings.background = false;
        settings.cgroup = false;
        options.pages.faults = FaultPolicy { populate: false, huge: false };
    }
    settings
}

/// Lets statistics be printed at exit, if they are asked for.
pub(crate) fn prepare_statistics() {
    each_entry(|entry| match entry {
        b"QUARRY_STATS_FORMAT=json" => statistics::set_format("json"),
        b"QUARRY_STATS_FORMAT=text" => statistics::set_format("text"),
        _ => {}
    });
    each_entry(|entry| {
        let value = entry.strip_prefix(b"QUARRY_STATS=").map(core::str::from_utf8);
        if let Some(Ok(value)) = value {
            statistics::prepare(value);
        }
    });
    statistics::register();
}

/// Returns whether the process shows its statistics to others: not where the C library serves, not
/// in a confined process, and not with raised privileges.
pub(crate) fn wished_record() -> Wish {
    let (mut wish, mut is_served) = (Wish::Page, !is_privileged());
    each_entry(|entry| match entry {
        b"QUARRY_DISABLE=1" | b"QUARRY_SANDBOX=1" => is_served = false,
        _ => {
            let value = entry.strip_prefix(b"QUARRY_RECORD=");
            wish = value.and_then(Wish::named).unwrap_or(wish);
        }
    });
    if is_served { wish } else { Wish::None }
}

fn apply_entry(options: &mut StackOptions, settings: &mut Settings, entry: &[u8]) {
    let Some(rest) = entry.strip_prefix(b"QUARRY_") else { return };
    let Some(equals) = rest.iter().position(|byte| *byte == b'=') else { return };
    let (Ok(name), Ok(value)) =
        (core::str::from_utf8(&rest[..equals]), core::str::from_utf8(&rest[equals + 1..]))
    else {
        return warn(format_args!("a QUARRY_ variable is not UTF-8 and was ignored"));
    };
    let set = match options.set(name, value) {
        Err(OptionError::UnknownName) if HAS_MECHANISMS => options.set_mechanism(name, value),
        set => set,
    };
    match set {
        Ok(()) => match name {
            "DISABLE" => settings.disable = value == "1",
            "DEEPBIND" => KEEPS_DEEPBIND.store(value == "1", Ordering::Relaxed),
            "BACKGROUND" => settings.background = value == "1",
            "CGROUP" => settings.cgroup = value == "1",
            "PURGE_DELAY" => settings.purge_delay_ms = value.parse().unwrap_or(-1),
            "STATS" => statistics::prepare(value),
            "PROFILE" | "PROFILE_MEAN" => profile::prepare(name, value),
            "STATS_FORMAT" => statistics::set_format(value),
            "SLAB" if slab_policy(value).is_none_or(|wanted| wanted.name != SLAB) => {
                warn(format_args!(
                    "QUARRY_SLAB={value}: {SLAB} is compiled in here; `quarry run --slab {value}` \
                 takes the library that has {value}"
                ))
            }
            _ => {}
        },
        Err(OptionError::UnknownName) => {
            warn(format_args!("QUARRY_{name} is not an option; accepted are QUARRY_.. {}", Names))
        }
        Err(OptionError::BadValue { accepted }) => {
            warn(format_args!("QUARRY_{name}={value} is not accepted; use {accepted}"));
        }
    }
}

/// All names, as a list for people: with what they have in common, it is longer than a line.
struct Names;

impl core::fmt::Display for Names {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let of_slab: &[_] = if HAS_MECHANISMS { MECHANISM_OPTIONS } else { &[] };
        for (index, option) in OPTIONS.iter().chain(of_slab).enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(out, "{separator}{}", option.name)?;
        }
        Ok(())
    }
}
