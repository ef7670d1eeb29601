//! The LRU policies, one line each. The options, the dispatch and the property suite read this
//! registry.

use super::batched::Batched;
use super::policy::{Lists, Setup};
use super::single::Single;
use super::splice::Splice;
use quarry_mm::slab::one_of;
use quarry_sys::os::OsResult;

/// Calls the macro `$callback` with all lines. A line is `Type: "name", "page in docs/policies",
/// "what it is";`.
macro_rules! lru_policies {
    ($callback:ident) => {
        $callback! {
            Single: "single", "lru-single", "one lock per node, page by page (Linux 4.15)";
            Batched: "batched", "lru-batched", "inner pages leave under batch locks (document 004)";
            Splice: "splice", "lru-splice", "batched, and lists linked outside (document 004)";
        }
    };
}

/// A name of the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisteredLru {
    /// The name.
    pub name: &'static str,
    /// The policy.
    pub policy: LruPolicy,
    /// Name of its page in `docs/policies`, without the extension.
    pub page: &'static str,
    /// A description in some words.
    pub about: &'static str,
}

macro_rules! define {
    ($($type:ident: $name:literal, $page:literal, $about:literal;)+) => {
        /// The locking of the LRU lists.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum LruPolicy {
            $(#[doc = $about] $type),+
        }

        /// All LRU policies by name.
        pub const LRU_POLICIES: &[RegisteredLru] = &[$(RegisteredLru {
            name: $name,
            policy: LruPolicy::$type,
            page: $page,
            about: $about,
        }),+];

        /// The names as a list for messages.
        pub const LRU_POLICY_NAMES: &str = one_of!($($name)+);

        /// The lists of all nodes under the policy chosen at start-up.
        pub(super) enum ChosenLists {
            $($type($type)),+
        }

        impl ChosenLists {
            /// Empty lists.
            ///
            /// # Errors
            /// The error of the OS.
            pub(super) fn build(policy: LruPolicy, setup: Setup) -> OsResult<Self> {
                Ok(match policy {
                    $(LruPolicy::$type => Self::$type($type::build(setup)?)),+
                })
            }

            /// The lists behind the interface of all policies.
            pub(super) fn lists(&self) -> &dyn Lists {
                match self {
                    $(Self::$type(lists) => lists),+
                }
            }
        }
    };
}
lru_policies!(define);

impl LruPolicy {
    /// The policy of this name, if there is one.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        LRU_POLICIES.iter().find(|known| known.name == name).map(|known| known.policy)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let known = LRU_POLICIES.iter().find(|known| known.policy == self);
        known.map_or("", |known| known.name)
    }
}
