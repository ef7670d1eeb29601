//! The libraries of slab policies: the lab has the policies, and make builds the libraries.

/// The slab policy of `libquarry.so`.
pub const DEFAULT: &str = "sheaf";

/// All policies: the default, and the others, each in a `libquarry-NAME.so`.
const ALL: &[&str] = &[
    DEFAULT,
    "sheaf-6.18",
    "sheaf-7.0",
    "slub-2.6.29",
    "slub-3.0",
    "slub-3.1",
    "slub-4.9",
    "slab",
    "slqb",
    "slam",
];

/// Aliases, each with the name that it stands for.
const ALIASES: &[(&str, &str)] = &[("slub", "slub-4.9")];

/// Options that only these libraries have. They check the values themselves.
pub const OPTIONS: &[&str] = &["SLAB_WITHOUT", "SLAM_MODE"];

/// The name of the policy that is called by this name or alias.
#[must_use]
pub fn named(name: &str) -> Option<&'static str> {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
    let name = alias.map_or(name, |(_, meant)| meant);
    ALL.iter().copied().find(|known| *known == name)
}

/// All names that are accepted, the default first, aliases last.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().copied().chain(ALIASES.iter().map(|(alias, _)| *alias))
}
