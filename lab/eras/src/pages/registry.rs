//! The page policies, one line each. Options, dispatch and property suite read them here.

use super::order0::Order0;
use super::v5_14::V5_14;
use super::v6_7::V6_7;
use super::v6_18_wide::V6_18Wide;
use super::v2016::V2016;
use crate::registry::{Registered, named};
use quarry_mm::frame::{MigrateType, Order};
use quarry_mm::pcp::{DrainWalk, PagePolicy, PolicyContext, SizeInputs, Sizes, Tuning, V6_18};

/// Calls the macro `$callback` with all types of policies, each as `Type, "its page",
/// "what it is", [identifier: "name" = value, ..];`.
macro_rules! page_policies {
    ($callback:ident) => {
        $callback! {
            Order0, "order0", "single pages, fixed batch and high (Linux up to 5.13)", [
                order0: "order0" = Order0 { batch: 31, high: 186 },
                order0_63: "order0-63" = Order0 { batch: 63, high: 378 },
                order0_310: "order0-310" = Order0 { batch: 310, high: 1860 }
            ];
            V2016, "v2016", "orders 0 to 3, one count (document 000)", [
                v2016: "v2016" = V2016 { raises_high: true },
                v2016_186: "v2016-186" = V2016 { raises_high: false }
            ];
            V5_14, "v5.14", "orders 0 to 3 and 9, high from the low watermark (Linux 5.14)", [
                v5_14: "v5.14" = V5_14 { frees_high: false },
                v5_18: "v5.18" = V5_14 { frees_high: true }
            ];
            V6_7, "v6.7", "orders 0 to 3 and 9, auto-tuned (Linux 6.7)", [v6_7: "v6.7" = V6_7];
            V6_18, "v6.18", "orders 0 to 3 and 9, auto-tuned (Linux 6.18)", [
                v6_18: "v6.18" = V6_18
            ];
            V6_18Wide, "v6.18", "orders 0 to 9, auto-tuned (no kernel has orders 4 to 8)", [
                v6_18_wide: "v6.18-wide" = V6_18Wide
            ];
        }
    };
}
#[cfg(test)]
pub(super) use page_policies;

macro_rules! define {
    ($($type:ident, $page:literal, $about:literal,
       [$($id:ident: $name:literal = $value:expr),+];)+) => {
        /// One of the page policies, chosen by its name while a program runs. Every decision first
        /// looks up which policy was chosen. These look-ups take 23 of the 325 instructions of an
        /// allocation and a free of a page, under every policy.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Chosen {
            $(#[doc = $about] $type($type)),+
        }

        /// All page policies by name.
        pub const PAGE_POLICIES: &[Registered<Chosen>] = &[$($(Registered {
            name: $name,
            policy: Chosen::$type($value),
            page: $page,
            about: $about,
        }),+),+];

        /// The names as a list for messages.
        pub const PAGE_POLICY_NAMES: &str = one_of!($($($name)+)+);

        /// Runs `$body` with `$policy` bound to the chosen policy.
        macro_rules! with_policy {
            ($chosen:expr, $policy:ident => $body:expr) => {
                match $chosen { $(Chosen::$type($policy) => $body),+ }
            };
        }
    };
}
page_policies!(define);

impl Chosen {
    /// The policy of this name, if there is one.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        named(PAGE_POLICIES, name)
    }
}

impl Default for Chosen {
    fn default() -> Self {
        Self::V6_18(V6_18)
    }
}

impl PagePolicy for Chosen {
    fn name(&self) -> &'static str {
        with_policy!(self, policy => policy.name())
    }

    fn orders(&self) -> &'static [u8] {
        with_policy!(self, policy => policy.orders())
    }

    fn walk(&self) -> DrainWalk {
        with_policy!(self, policy => policy.walk())
    }

    #[inline]
    fn tests_every_request(&self) -> bool {
        with_policy!(self, policy => policy.tests_every_request())
    }

    #[inline]
    fn list(&self, order: Order, migratetype: MigrateType) -> Option<usize> {
        with_policy!(self, policy => policy.list(order, migratetype))
    }

    fn sizes(&self, inputs: SizeInputs) -> Sizes {
        with_policy!(self, policy => policy.sizes(inputs))
    }

    #[inline]
    fn before_alloc(&self, tuning: &mut Tuning) {
        with_policy!(self, policy => policy.before_alloc(tuning));
    }

    #[inline(never)]
    fn refill(&self, tuning: &mut Tuning, context: PolicyContext<'_>, order: Order) -> u32 {
        with_policy!(self, policy => policy.refill(tuning, context, order))
    }

    #[inline]
    fn after_free(&self, tuning: &mut Tuning, context: PolicyContext<'_>, order: Order) -> u32 {
        with_policy!(self, policy => policy.after_free(tuning, context, order))
    }

    fn drain_chunk(&self, sizes: Sizes) -> u32 {
        with_policy!(self, policy => policy.drain_chunk(sizes))
    }

    fn decay(&self, tuning: &mut Tuning, sizes: Sizes) -> u32 {
        with_policy!(self, policy => policy.decay(tuning, sizes))
    }
}
