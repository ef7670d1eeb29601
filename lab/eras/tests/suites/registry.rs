//! The registries have all policies, and each of them has a page.

use crate::known::is_known;
use quarry_cache::lru::LruPolicy;
use quarry_eras::lru::{self, LRU_POLICIES, LRU_POLICY_NAMES};
use quarry_eras::pages::{Chosen, PAGE_POLICIES, PAGE_POLICY_NAMES};
use quarry_eras::slab::{
    SLAB_ALIASES, SLAB_POLICIES, SlabVisitor, line_of, slab_names, slab_policy, with_slab_policy,
};
use quarry_mm::slab::SlabPolicy;
use quarry_sys::percpu::VirtualSlots;

#[test]
fn every_name_has_a_policy() {
    struct Name;
    impl SlabVisitor<VirtualSlots> for Name {
        type Output = &'static str;

        fn visit<S: SlabPolicy<VirtualSlots> + 'static>(self) -> &'static str {
            S::NAME
        }
    }
    for (line, policy) in SLAB_POLICIES.iter().enumerate() {
        assert_eq!(with_slab_policy(policy.name, Name), Some(policy.name));
        assert_eq!(line_of(policy.name), line);
    }
    assert_eq!(with_slab_policy("slob", Name), None);
    for (alias, name) in SLAB_ALIASES {
        assert_eq!(with_slab_policy(alias, Name), Some(*name));
        assert_eq!(line_of(alias), line_of(name));
    }
}

#[test]
fn slab_policies_are_known_everywhere() {
    let page = include_str!("../../../../docs/options.md");
    let row = page.lines().find(|line| line.starts_with("| `QUARRY_SLAB` |"));
    let listed = &row.expect("it describes the option").replace('`', "");
    let of_commands = include_str!("../../../../bench/cli/src/policies.rs");
    for policy in SLAB_POLICIES {
        is_known(listed, policy.name, policy.page, policy.about);
        let name = policy.name;
        assert!(of_commands.contains(&format!("{name:?}")), "{name} in bench/cli/src/policies.rs");
    }
    assert_eq!(slab_policy("slob"), None);
    for (alias, name) in SLAB_ALIASES {
        let known = slab_policy(alias).expect("an alias of a policy");
        is_known(listed, alias, known.page, alias);
        assert_eq!(known.name, *name);
    }
    assert!(slab_names().count() == SLAB_POLICIES.len() + SLAB_ALIASES.len());
}

#[test]
fn page_policies_are_known_everywhere() {
    for policy in PAGE_POLICIES {
        is_known(PAGE_POLICY_NAMES, policy.name, policy.page, policy.about);
        assert_eq!(Chosen::named(policy.name), Some(policy.policy));
    }
    assert_eq!(Chosen::named("v5"), None);
}

#[test]
fn lru_policies_are_known_everywhere() {
    for policy in LRU_POLICIES {
        is_known(LRU_POLICY_NAMES, policy.name, policy.page, policy.about);
        assert_eq!(lru::Chosen::named(policy.name), Some(policy.policy));
        assert_eq!(policy.policy.name(), policy.name);
    }
    assert_eq!(lru::Chosen::named("clock"), None);
}
