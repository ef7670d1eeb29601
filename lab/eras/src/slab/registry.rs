//! All slab policies by name, one line each: for the shared objects, the lab, and the property
//! suites. `names.rs` has the same names without types.

use super::names::{SLAB_ALIASES, SLAB_POLICIES};
use quarry_mm::slab::SlabPolicy;
use quarry_sys::percpu::{Arrays, Lists, PerCpu};

/// Calls the macro `$callback` with the policies of this crate, as `identifier: "name", Type;`.
#[macro_export]
macro_rules! slab_policies_of_eras {
    ($callback:ident) => {
        $callback! {
            sheaf_6_18: "sheaf-6.18", $crate::slab::KernelSheaf;
            sheaf_7_0: "sheaf-7.0", $crate::slab::Sheaf7_0;
            slub_2_6_29: "slub-2.6.29", $crate::slab::Slub2_6_29;
            slub_3_0: "slub-3.0", $crate::slab::Slub3_0;
            slub_3_1: "slub-3.1", $crate::slab::Slub3_1;
            slub_4_9: "slub-4.9", $crate::slab::Slub4_9;
            slab: "slab", $crate::slab::LinuxSlab;
            slqb: "slqb", $crate::slab::Slqb;
            slam: "slam", $crate::slab::Slam;
        }
    };
}

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

/// An operation on a policy that is chosen by name.
pub trait SlabVisitor<P: PerCpu> {
    /// The result.
    type Output;

    /// Runs the operation.
    fn visit<S: SlabPolicy<P> + 'static>(self) -> Self::Output;
}

/// Entry number `N` of [`SLAB_POLICIES`], as a type.
pub struct Line<const N: usize>;

/// Implemented by [`Line`] for every line of the table.
pub trait Registered {
    /// The policy of the line.
    type Policy;
}

/// Returns the index in [`SLAB_POLICIES`] of the policy with this name or alias. As a constant it
/// chooses a policy at compile time: `<Line<{ line_of("slub") }> as Registered>::Policy`.
///
/// # Panics
/// If there is no such policy; at compile time, that fails the build.
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
    ($($id:ident: $name:literal, $policy:ty;)+) => {
        /// Runs a visitor with the policy of this name or alias; `None` if there is none.
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
            use super::{SlabVisitor, with_slab_policy};
            use crate::slab::SLAB_POLICIES;
            use quarry_mm::slab::SlabPolicy;
            use quarry_sys::percpu::VirtualSlots;

            struct Name;

            impl SlabVisitor<VirtualSlots> for Name {
                type Output = &'static str;

                fn visit<S: SlabPolicy<VirtualSlots> + 'static>(self) -> &'static str {
                    S::NAME
                }
            }

            #[test]
            fn a_policy_has_the_name_of_its_line() {
                $(assert_eq!(<$policy as SlabPolicy<VirtualSlots>>::NAME, $name);)+
                for known in SLAB_POLICIES {
                    assert_eq!(with_slab_policy(known.name, Name), Some(known.name));
                }
                assert_eq!([$($name),+].len(), SLAB_POLICIES.len());
            }
        }
    };
}
macro_rules! define_all {
    ($($of_eras:tt)+) => {
        define! {
            sheaf: "sheaf", quarry_mm::slab::Sheaf;
            $($of_eras)+
        }
    };
}
slab_policies_of_eras!(define_all);
