//! The names of all slab policies, for commands, tables and messages.

/// A policy by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisteredPolicy {
    /// The name of the policy.
    pub name: &'static str,
    /// Name of its page in `lab/docs/policies`, without the extension.
    pub page: &'static str,
    /// A short description.
    pub about: &'static str,
}

macro_rules! define {
    ($($name:literal, $page:literal, $about:literal;)+) => {
        /// All slab policies, the default first.
        pub const SLAB_POLICIES: &[RegisteredPolicy] =
            &[$(RegisteredPolicy { name: $name, page: $page, about: $about }),+];
    };
}

// `Makefile` reads these lines too.
define! {
    "sheaf", "sheaf", "arrays per CPU, barns, bits (ours)";
    "sheaf-6.18", "sheaf-6.18", "sheaves (6.18)";
    "sheaf-7.0", "sheaf-7.0", "sheaves, no CPU slabs (7.0)";
    "slub-2.6.29", "slub", "a lock bit per slab";
    "slub-3.0", "slub", "kmalloc to 8 KiB";
    "slub-3.1", "slub", "slow paths without a lock";
    "slub-4.9", "slub", "partial lists per CPU, too";
    "slab", "slab", "arrays per CPU and node (2.6.36)";
    "slqb", "slqb", "queues of objects per CPU (2009)";
    "slam", "slam", "ours: a mode per cache and CPU";
}

/// Aliases, each with the name that it stands for.
pub const SLAB_ALIASES: &[(&str, &str)] = &[("slub", "slub-4.9")];

/// The policy of this name or alias.
#[must_use]
pub fn slab_policy(name: &str) -> Option<&'static RegisteredPolicy> {
    let alias = SLAB_ALIASES.iter().find(|(alias, _)| *alias == name);
    let name = alias.map_or(name, |(_, meant)| meant);
    SLAB_POLICIES.iter().find(|policy| policy.name == name)
}

/// All names that are accepted, aliases last.
pub fn slab_names() -> impl Iterator<Item = &'static str> {
    let names = SLAB_POLICIES.iter().map(|policy| policy.name);
    names.chain(SLAB_ALIASES.iter().map(|(alias, _)| *alias))
}
