//! A policy with its name, for the registries of page policies and LRU policies.

/// A policy in a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered<P> {
    /// The name.
    pub name: &'static str,
    /// The policy.
    pub policy: P,
    /// Name of its page in `lab/docs/policies`, without the extension.
    pub page: &'static str,
    /// A short description.
    pub about: &'static str,
}

/// The policy of this name, if the registry has one.
pub(crate) fn named<P: Copy>(all: &[Registered<P>], name: &str) -> Option<P> {
    all.iter().find(|known| known.name == name).map(|known| known.policy)
}
