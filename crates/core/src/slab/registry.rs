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
            sheaf: "sheaf", $crate::slab::Sheaf, "sheaf", "arrays per CPU, sheaves, bits (6.18)";
            slam: "slam", $crate::slab::Slam, "slam", "ours: a mode per cache and CPU";
            slub: "slub", $crate::slab::Slub, "slub", "a slab per CPU, lists in objects (6.17)";
            slub_locked: "slub-locked", $crate::slab::LockedSlub, "slub", "slub before Linux 3.1";
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
    /// A description in some words.
    pub about: &'static str,
}

/// Something to be done with a policy that is known by its name.
pub trait SlabVisitor<P: PerCpu> {
    /// The result.
    type Output;

    /// Does it.
    fn visit<S: SlabPolicy<P> + 'static>(self) -> Self::Output;
}

/// Line `N` of the registry, as a type.
pub struct Line<const N: usize>;

/// Implemented by [`Line`] for every line there is.
pub trait Registered {
    /// The policy of the line.
    type Policy;
}

/// The line of a policy, for a choice at compile time: `<Line<{ line_of("slub") }> as
/// Registered>::Policy`.
///
/// # Panics
/// Where there is no such policy, which stops the build of whoever asks at compile time.
#[must_use]
pub const fn line_of(name: &str) -> usize {
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

        /// Their names, as a list for people.
        pub const SLAB_NAMES: &str = one_of!($($name)+);

        /// Runs a visitor with the policy of this name, if there is one.
        pub fn with_slab_policy<P: Arrays + Lists, V: SlabVisitor<P>>(
            name: &str,
            visitor: V,
        ) -> Option<V::Output> {
            match name {
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
