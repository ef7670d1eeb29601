//! The LRU policies, one line each, and a policy that is chosen by its name.

use super::single::Single;
use crate::registry::{Registered, named};
use quarry_cache::lru::{
    Batched, DescriptorTable, ListKind, Lists, LruCounters, LruPolicy, PageNo, Setup, Sizes,
    Splice, Waiting,
};
use quarry_mm::frame::NodeId;
use quarry_sys::broken::Broken;
use quarry_sys::locks::Visit;
use quarry_sys::os::OsResult;
use quarry_sys::percpu::SlotIndex;

/// Calls the macro `$callback` with all policies, each as `Type: "name", "its page",
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

macro_rules! define {
    ($($type:ident: $name:literal, $page:literal, $about:literal;)+) => {
        /// One of the LRU policies, chosen by its name while a program runs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Chosen {
            $(#[doc = $about] $type),+
        }

        /// All LRU policies by name.
        pub const LRU_POLICIES: &[Registered<Chosen>] = &[$(Registered {
            name: $name,
            policy: Chosen::$type,
            page: $page,
            about: $about,
        }),+];

        /// The names as a list for messages.
        pub const LRU_POLICY_NAMES: &str = one_of!($($name)+);

        /// The lists of all nodes under the chosen policy.
        pub enum ChosenLists {
            $(#[doc = $about] $type(<$type as LruPolicy>::Lists)),+
        }

        impl ChosenLists {
            fn lists(&self) -> &dyn Lists {
                match self {
                    $(Self::$type(lists) => lists),+
                }
            }
        }

        impl LruPolicy for Chosen {
            type Lists = ChosenLists;

            fn name(&self) -> &'static str {
                match self {
                    $(Self::$type => $type.name()),+
                }
            }

            fn build(&self, setup: Setup) -> OsResult<ChosenLists> {
                Ok(match self {
                    $(Self::$type => ChosenLists::$type($type.build(setup)?)),+
                })
            }
        }
    };
}
lru_policies!(define);

impl Chosen {
    /// The policy of this name, if there is one.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        named(LRU_POLICIES, name)
    }
}

impl Default for Chosen {
    fn default() -> Self {
        Self::Splice
    }
}

impl Lists for ChosenLists {
    fn insert(&self, table: &DescriptorTable, slot: SlotIndex, pages: &[PageNo]) {
        self.lists().insert(table, slot, pages);
    }

    fn remove(&self, table: &DescriptorTable, pages: &[PageNo]) {
        self.lists().remove(table, pages);
    }

    fn isolate(
        &self,
        table: &DescriptorTable,
        from: (NodeId, ListKind),
        waiting: Waiting,
        out: &mut [PageNo],
    ) -> usize {
        self.lists().isolate(table, from, waiting, out)
    }

    fn sizes(&self, node: NodeId) -> Sizes {
        self.lists().sizes(node)
    }

    fn counters(&self) -> LruCounters {
        self.lists().counters()
    }

    fn visit_locks(&self, visit: &mut Visit<'_>) {
        self.lists().visit_locks(visit);
    }

    fn validate(&self, table: &DescriptorTable) -> Result<(), Broken> {
        self.lists().validate(table)
    }
}
