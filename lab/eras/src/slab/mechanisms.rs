//! Mechanisms that a setup can switch off, to measure what each of them is worth.
//!
//! As the options of a policy they are
//! `{- : 25 | memoryless : 1 | slam_mode + 1, or 0 : 2 | without : 4}`.

use quarry_mm::slab::PolicyOptions;

/// The options of every policy of this crate. A policy accepts also the names of mechanisms that it
/// lacks.
pub(super) const OPTIONS: &str = "\
SLAB_WITHOUT\tmerging, cpu-partial, alien, shared or local-memory, or several of them with commas\t\
mechanisms that the slab policy does without, if it has them\n\
SLAM_MODE\tauto, array, linked or remote\t\
mode of the slab policy slam (auto: each CPU chooses by its traffic)\n";

/// Sets one of [`OPTIONS`]; returns false if the value is not accepted.
pub(super) fn set_option(options: &mut PolicyOptions, name: &str, value: &str) -> bool {
    let now = Mechanisms::of(*options);
    let set = match name {
        "SLAM_MODE" => SlamMode::named(value).map(|slam_mode| Mechanisms { slam_mode, ..now }),
        _ => Mechanisms::without(value)
            .map(|without| Mechanisms { slam_mode: now.slam_mode, ..without }),
    };
    *options = set.unwrap_or(now).into();
    set.is_some()
}

/// The members of a [`SlabPolicy`](quarry_mm::slab::SlabPolicy) for these options.
macro_rules! take_options {
    () => {
        const OPTIONS: &'static str = crate::slab::mechanisms::OPTIONS;

        fn set_option(
            options: &mut quarry_mm::slab::PolicyOptions,
            name: &str,
            value: &str,
        ) -> bool {
            crate::slab::mechanisms::set_option(options, name, value)
        }
    };
}
pub(super) use take_options;

/// The mechanisms that a slab policy uses. A policy ignores mechanisms that it does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mechanisms {
    /// Caches of the same stride become one cache (`slub`, unless `slub_nomerge`).
    pub merging: bool,
    /// CPUs keep lists of partly free slabs (`slub-4.9`, `CONFIG_SLUB_CPU_PARTIAL`).
    pub cpu_partial: bool,
    /// CPUs gather the objects of other nodes in arrays (`slab`, unless `noaliencache`).
    pub alien: bool,
    /// The CPUs of a node share an array (`slab`).
    pub shared: bool,
    /// The CPUs' nodes have memory. Without it, the kernel's sheaves have no barns and stay empty,
    /// and `slub` and `sheaf-7.0` look for slabs on the lists of all nodes that can spare some.
    pub local_memory: bool,
    /// The one mode that `slam` may use; with `None`, `slam` chooses.
    pub slam_mode: Option<SlamMode>,
}

/// The place where a CPU puts free objects if its array has no room for them (`slam`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlamMode {
    /// In the barn that all CPUs share.
    Array,
    /// In the CPU's own stock, linked through the objects.
    Linked,
    /// In the inbox of the CPU that took them from their slab.
    Remote,
}

impl SlamMode {
    /// The mode of this name; `Some(None)` for `auto`, `None` for an unknown name.
    #[must_use]
    pub fn named(name: &str) -> Option<Option<Self>> {
        Some(match name {
            "auto" => None,
            "array" => Some(Self::Array),
            "linked" => Some(Self::Linked),
            "remote" => Some(Self::Remote),
            _ => return None,
        })
    }
}

impl From<Mechanisms> for PolicyOptions {
    fn from(used: Mechanisms) -> Self {
        let without = [!used.merging, !used.cpu_partial, !used.alien, !used.shared];
        let bits = (0..).zip(without).map(|(bit, without)| u32::from(without) << bit);
        let mode = used.slam_mode.map_or(0, |mode| mode as u32 + 1);
        Self(bits.sum::<u32>() | mode << 4 | u32::from(!used.local_memory) << 6)
    }
}

impl Mechanisms {
    /// The mechanisms that the options of a policy name.
    #[must_use]
    pub const fn of(PolicyOptions(bits): PolicyOptions) -> Self {
        Self {
            merging: bits & 1 == 0,
            cpu_partial: bits & 2 == 0,
            alien: bits & 4 == 0,
            shared: bits & 8 == 0,
            local_memory: bits & 64 == 0,
            slam_mode: match bits >> 4 & 3 {
                0 => None,
                1 => Some(SlamMode::Array),
                2 => Some(SlamMode::Linked),
                _ => Some(SlamMode::Remote),
            },
        }
    }

    /// All mechanisms.
    pub const ALL: Self = Self::of(PolicyOptions(0));

    /// All mechanisms except those that `names` lists; `None` if a name is unknown.
    #[must_use]
    pub fn without(names: &str) -> Option<Self> {
        let mut used = Self::ALL;
        for name in names.split(',').filter(|name| !name.is_empty()) {
            *match name {
                "merging" => &mut used.merging,
                "cpu-partial" => &mut used.cpu_partial,
                "alien" => &mut used.alien,
                "shared" => &mut used.shared,
                "local-memory" => &mut used.local_memory,
                _ => return None,
            } = false;
        }
        Some(used)
    }
}

#[cfg(test)]
mod tests {
    use super::{Mechanisms, PolicyOptions, SlamMode, set_option};

    fn after(settings: &[(&str, &str)]) -> Option<Mechanisms> {
        let mut options = PolicyOptions::default();
        let mut set = settings.iter().map(|(name, value)| set_option(&mut options, name, value));
        set.all(|accepted| accepted).then(|| Mechanisms::of(options))
    }

    #[test]
    fn modes_have_names() {
        let with = |slam_mode| Some(Mechanisms { slam_mode, ..Mechanisms::ALL });
        assert_eq!(after(&[("SLAM_MODE", "auto")]), with(None));
        assert_eq!(after(&[("SLAM_MODE", "array")]), with(Some(SlamMode::Array)));
        assert_eq!(after(&[("SLAM_MODE", "linked")]), with(Some(SlamMode::Linked)));
        assert_eq!(after(&[("SLAM_MODE", "remote")]), with(Some(SlamMode::Remote)));
        assert_eq!(after(&[("SLAM_MODE", "list")]), None);
    }

    #[test]
    fn mechanisms_are_switched_off_by_name() {
        let without = |names| after(&[("SLAB_WITHOUT", names)]);
        assert_eq!(without(""), Some(Mechanisms::ALL));
        let both = Mechanisms { merging: false, shared: false, ..Mechanisms::ALL };
        assert_eq!(without("merging,shared"), Some(both));
        let rest = Mechanisms { cpu_partial: false, local_memory: false, ..Mechanisms::ALL };
        assert_eq!(without("local-memory,cpu-partial"), Some(rest));
        assert_eq!(without("merging,barns"), None);
    }

    #[test]
    fn an_option_keeps_the_others() {
        let settings = [("SLAM_MODE", "remote"), ("SLAB_WITHOUT", "alien")];
        let remote = Some(SlamMode::Remote);
        let both = Mechanisms { alien: false, slam_mode: remote, ..Mechanisms::ALL };
        assert_eq!(after(&settings), Some(both));
        assert_eq!(after(&[settings[1], settings[0]]), Some(both));
    }
}
