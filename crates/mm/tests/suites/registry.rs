//! Every registered policy is accepted by its option and has a page.

use quarry_cache::lru::{LRU_POLICIES, LRU_POLICY_NAMES, LruPolicy};
use quarry_mm::heap::options::{OptionError, StackOptions};
use quarry_mm::pcp::{Chosen, PAGE_POLICIES, PAGE_POLICY_NAMES};
use quarry_mm::slab::{
    SLAB_ALIASES, SLAB_NAMES, SLAB_POLICIES, SlabPolicy, SlabVisitor, line_of, slab_names,
    slab_policy, with_slab_policy,
};
use quarry_sys::percpu::VirtualSlots;
use std::path::Path;

/// Returns what `option` says it accepts, after it has accepted `name`.
fn accepted_by(option: &str, name: &str) -> &'static str {
    let mut options = <StackOptions>::default();
    assert_eq!(options.set(option, name), Ok(()), "{option}={name}");
    let refused = options.set(option, "no such policy");
    let Err(OptionError::BadValue { accepted }) = refused else { panic!("{refused:?}") };
    accepted
}

/// Asserts that a policy is among those that are `accepted`, and described by a page that names it.
fn is_known(accepted: &str, name: &str, page: &str, about: &str) {
    assert!(accepted.split([',', ' ']).any(|known| known == name), "{name} in {accepted}");
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policies");
    let path = pages.join(format!("{page}.md"));
    let text = std::fs::read_to_string(&path).expect("every policy has a page");
    assert!(text.contains(&format!("`{name}`")), "{name} on {}", path.display());
    let index = std::fs::read_to_string(pages.join("README.md")).expect("the index of policies");
    let (name, page) = (format!("| `{name}`"), format!("]({page}.md)"));
    let is_listed = index.lines().any(|row| row.starts_with(&name) && row.contains(&page));
    assert!(is_listed, "docs/policies/README.md has no row {name} with a link to {page}");
    assert!(!about.is_empty());
}

#[test]
fn slab_policies_are_known_everywhere() {
    struct Name;
    impl SlabVisitor<VirtualSlots> for Name {
        type Output = &'static str;

        fn visit<S: SlabPolicy<VirtualSlots> + 'static>(self) -> &'static str {
            S::NAME
        }
    }
    for (line, policy) in SLAB_POLICIES.iter().enumerate() {
        is_known(accepted_by("SLAB", policy.name), policy.name, policy.page, policy.about);
        assert_eq!(with_slab_policy(policy.name, Name), Some(policy.name));
        assert_eq!(line_of(policy.name), line);
    }
    assert_eq!(with_slab_policy("slob", Name), None);
    assert_eq!(slab_policy("slob"), None);
    for (alias, name) in SLAB_ALIASES {
        let page = slab_policy(alias).expect("an alias of a policy").page;
        is_known(accepted_by("SLAB", alias), alias, page, alias);
        assert_eq!(slab_policy(alias).map(|policy| policy.name), Some(*name));
        assert_eq!(with_slab_policy(alias, Name), Some(*name));
        assert_eq!(line_of(alias), line_of(name));
    }
    assert!(
        slab_names().eq(SLAB_NAMES.split([',', ' ']).filter(|name| !["", "or"].contains(name)))
    );
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
        assert_eq!(LruPolicy::named(policy.name), Some(policy.policy));
        assert_eq!(policy.policy.name(), policy.name);
    }
    assert_eq!(LruPolicy::named("clock"), None);
}
