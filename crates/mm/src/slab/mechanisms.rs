//! Mechanisms that a setup can switch off, to measure what each of them is worth.

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

impl Mechanisms {
    /// All mechanisms.
    pub const ALL: Self =
        Self { merging: true, cpu_partial: true, alien: true, shared: true, slam_mode: None };

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
                _ => return None,
            } = false;
        }
        Some(used)
    }
}

#[cfg(test)]
mod tests {
    use super::{Mechanisms, SlamMode};

    #[test]
    fn modes_have_names() {
        assert_eq!(SlamMode::named("auto"), Some(None));
        assert_eq!(SlamMode::named("remote"), Some(Some(SlamMode::Remote)));
        assert_eq!(SlamMode::named("list"), None);
    }

    #[test]
    fn mechanisms_are_switched_off_by_name() {
        assert_eq!(Mechanisms::without(""), Some(Mechanisms::ALL));
        let both = Mechanisms { merging: false, shared: false, ..Mechanisms::ALL };
        assert_eq!(Mechanisms::without("merging,shared"), Some(both));
        let rest = Mechanisms { cpu_partial: false, alien: false, ..Mechanisms::ALL };
        assert_eq!(Mechanisms::without("alien,cpu-partial"), Some(rest));
        assert_eq!(Mechanisms::without("merging,barns"), None);
    }
}
