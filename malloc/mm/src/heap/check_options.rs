//! The checks, their objects, and the spelling of `QUARRY_DEBUG` and `QUARRY_GUARD`.

use super::check_flags::CheckFlags;
use super::classes;

/// The objects that `QUARRY_DEBUG` applies to: a bit for each size class, bit 0 for larger objects.
pub type Classes = u128;

/// The checks of a stack, from `QUARRY_DEBUG`, `QUARRY_HARDEN` and `QUARRY_GUARD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckOptions {
    /// Checks of the objects that `debugged` names.
    pub debug: CheckFlags,
    /// See [`Classes`].
    pub debugged: Classes,
    /// `QUARRY_HARDEN=1`.
    pub harden: bool,
    /// Guard pages by sampling.
    pub guard: Sampling,
}

/// The rate at which objects get guard pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sampling {
    /// Never.
    #[default]
    Off,
    /// One object in this many milliseconds.
    Each(u32),
    /// Each object, as long as there are free guard pages.
    All,
}

impl CheckOptions {
    /// No checks.
    pub const OFF: Self = Self {
        debug: CheckFlags::NONE,
        debugged: Classes::MAX,
        harden: false,
        guard: Sampling::Off,
    };

    /// Returns whether objects have records.
    #[must_use]
    pub fn have_records(&self) -> bool {
        self.harden || self.debug != CheckFlags::NONE
    }

    /// The checks of the objects of a class; class 0 stands for all larger objects.
    #[must_use]
    pub fn flags_of(&self, class: usize) -> CheckFlags {
        let debug = if self.debugged >> class & 1 == 1 { self.debug } else { CheckFlags::NONE };
        if self.harden { debug.with(CheckFlags::HARDEN) } else { debug }
    }
}

/// `QUARRY_DEBUG`: letters of `slub_debug`, or `-` for no check. Names of the objects to check may
/// follow, each after a comma; a `*` ends a prefix, as in the kernel.
pub(super) fn debug(value: &str) -> Option<(CheckFlags, Classes)> {
    let mut parts = value.split(',');
    let letters = parts.next()?;
    let flags = match letters {
        "" => return None,
        "-" => CheckFlags::NONE,
        _ => letters.bytes().try_fold(CheckFlags::NONE, |all, letter| {
            Some(all.with(CheckFlags::of_letter(letter)?))
        })?,
    };
    let named = parts.try_fold(0, |named, name| Some(named | classes_named(name)?))?;
    Some((flags, if named == 0 { Classes::MAX } else { named }))
}

/// The classes that a name, or a prefix with `*`, stands for; `None` where it is unknown.
fn classes_named(name: &str) -> Option<Classes> {
    let matches = |full: &str| match name.strip_suffix('*') {
        Some(prefix) => full.starts_with(prefix),
        None => full == name,
    };
    let large = Classes::from(matches("large"));
    let named = (1..=classes::COUNT).fold(large, |found, class| {
        let is_named = core::str::from_utf8(classes::name(class).as_bytes()).is_ok_and(matches);
        found | Classes::from(is_named) << class
    });
    (named != 0).then_some(named)
}

const _: () = assert!(classes::COUNT < Classes::BITS as usize);

/// `QUARRY_GUARD`: milliseconds between two guarded objects, 0 for none, or `all`.
pub(super) fn sampling(value: &str) -> Option<Sampling> {
    match value {
        "all" => Some(Sampling::All),
        "0" => Some(Sampling::Off),
        _ => value.parse().ok().map(Sampling::Each),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_names_are_understood() {
        let all = CheckFlags::SANITY
            .with(CheckFlags::RED_ZONES)
            .with(CheckFlags::POISON)
            .with(CheckFlags::OWNER);
        assert_eq!(debug("FZPU"), Some((all, Classes::MAX)));
        assert_eq!(debug("-"), Some((CheckFlags::NONE, Classes::MAX)));
        assert_eq!(debug("u,malloc-16"), Some((CheckFlags::OWNER, 1 << 1)));
        assert_eq!(debug("Z,malloc-32,large"), Some((CheckFlags::RED_ZONES, 1 << 2 | 1)));
        let twelves = debug("F,malloc-12*").expect("there are three").1;
        assert_eq!(twelves.count_ones(), 3, "128, 1216, 12288");
        for bad in ["", "X", "FZ,", "FZ,malloc-17", "FZ,dentry", "1"] {
            assert_eq!(debug(bad), None, "{bad}");
        }
    }

    #[test]
    fn samples_come_by_time_or_always() {
        assert_eq!(sampling("100"), Some(Sampling::Each(100)));
        assert_eq!((sampling("0"), sampling("all")), (Some(Sampling::Off), Some(Sampling::All)));
        assert_eq!((sampling(""), sampling("-1")), (None, None));
    }
}
