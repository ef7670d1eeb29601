//! The slab policies, one line each. Everything that knows a policy by its name reads them here:
//! options, the shared objects, the lab, and the property suites.

use super::policy::SlabPolicy;
use crate::pcp::one_of;
use quarry_sys::percpu::{Arrays, Lists, PerCpu};

/// Calls the macro `$callback` with all lines, the default policy first. A line is
/// `identifier: "name", Type, "page in docs/policies", "what it is";`.
#[macro_export]
macro_rules! slab_policies {
    ($callback:ident) => {
        $callback! {
            sheaf: "sheaf", $crate::slab::Sheaf, "sheaf", "arrays per CPU, barns, bits (ours)";
            sheaf_6_18: "sheaf-6.18", $crate::slab::KernelSheaf, "sheaf-6.18", "sheaves (6.18)";
            slub_2_6_29: "slub-2.6.29", $crate::slab::Slub2_6_29, "slub", "a lock bit per slab";
            slub_3_0: "slub-3.0", $crate::slab::Slub3_0, "slub", "kmalloc to 8 KiB";
            slub_3_1: "slub-3.1", $crate::slab::Slub3_1, "slub", "slow paths without a lock";
            slub_4_9: "slub-4.9", $crate::slab::Slub4_9, "slub", "partial lists per CPU, too";
            slab: "slab", $crate::slab::LinuxSlab, "slab", "arrays per CPU and node (2.6.36)";
            slqb: "slqb", $crate::slab::Slqb, "slqb", "queues of objects per CPU (2009)";
            slam: "slam", $crate::slab::Slam, "slam", "ours: a mode per cache and CPU";
        }
    };
}

/// A line of the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisteredPolicy {
    /// Its name.
    pub name: &'static str,
    /// Name of its page in `docs/policies`, without the extension.
    pub page: &'static str,
    /// A short description.
    pub about: &'static str,
}

/// Other names of policies, each with the name that it stands for.
pub const SLAB_ALIASES: &[(&str, &str)] = &[("slub", "slub-4.9")];

/// The policy of this name or alias.
#[must_use]
pub fn slab_policy(name: &str) -> Option<&'static RegisteredPolicy> {
    SLAB_POLICIES.iter().find(|policy| policy.name == behind_alias(name))
}

/// All names that are accepted, aliases last.
pub fn slab_names() -> impl Iterator<Item = &'static str> {
    let names = SLAB_POLICIES.iter().map(|policy| policy.name);
    names.chain(SLAB_ALIASES.iter().map(|(alias, _)| *alias))
}

/// The name that an alias stands for, or the name itself.
const fn behind_alias(name: &str) -> &str {
    let mut index = 0;
    while index < SLAB_ALIASES.len() {
        if is_same(SLAB_ALIASES[index].0.as_bytes(), name.as_bytes()) {
            return SLAB_ALIASES[index].1;
        }
        index += 1;
    }
    name
}

/// An operation on a policy that is known by its name.
pub trait SlabVisitor<P: PerCpu> {
    /// The result.
    type Output;

    /// Runs the operation.
    fn visit<S: SlabPolicy<P> + 'static>(self) -> Self::Output;
}

/// Line `N` of the registry, as a type.
pub struct Line<const N: usize>;

/// Implemented by [`Line`] for every line there is.
pub trait Registered {
    /// The policy of the line.
    type Policy;
}

/// The line of a policy, by its name or an alias, for a choice at compile time:
/// `<Line<{ line_of("slub") }> as Registered>::Policy`.
///
/// # Panics
/// Where there is no such policy, which stops a build that asks for it at compile time.
#[must_use]
pub const fn line_of(name: &str) -> usize {
    let name = behind_alias(name);
    let mut line = 0;
    while line < SLAB_POLICIES.len() {
        if is_same(SLAB_POLICIES[line].name.as_bytes(), name.as_bytes()) {
            return line;
        }
        line += 1;
    }
    panic!("no slab policy has this name")
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut index = 0;
    while index < one.len() && index < other.len() && one[index] == other[index] {
        index += 1;
    }
    index == one.len() && index == other.len()
}

macro_rules! define {
    ($($id:ident: $name:literal, $policy:ty, $page:literal, $about:literal;)+) => {
        /// All slab policies, the default first.
        pub const SLAB_POLICIES: &[RegisteredPolicy] =
            &[$(RegisteredPolicy { name: $name, page: $page, about: $about }),+];

        /// Their names and the aliases, as a list for people.
        pub const SLAB_NAMES: &str = one_of!($($name)+ "slub");

        /// Runs a visitor with the policy of this name or alias, if there is one.
        pub fn with_slab_policy<P: Arrays + Lists, V: SlabVisitor<P>>(
            name: &str,
            visitor: V,
        ) -> Option<V::Output> {
            match behind_alias(name) {
                $($name => Some(visitor.visit::<$policy>()),)+
                _ => None,
            }
        }

        $(impl Registered for Line<{ line_of($name) }> {
            type Policy = $policy;
        })+

        #[cfg(test)]
        mod tests {
            use super::super::policy::SlabPolicy;
            use quarry_sys::percpu::VirtualSlots;

            #[test]
            fn a_policy_has_the_name_of_its_line() {
                $(assert_eq!(<$policy as SlabPolicy<VirtualSlots>>::NAME, $name);)+
            }
        }
    };
}
slab_policies!(define);
