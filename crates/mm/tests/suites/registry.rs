//! Every registered policy is accepted by its option and has a page.

use crate::support::known::is_known;
use quarry_mm::heap::options::{OPTIONS, OptionError, StackOptions};
use quarry_mm::slab::{SLAB_ALIASES, SLAB_POLICIES, slab_names, slab_policy};

/// Returns the values that `option` accepts, once it has accepted `name`.
fn accepted_by(option: &str, name: &str) -> &'static str {
    let mut options = <StackOptions>::default();
    assert_eq!(options.set(option, name), Ok(()), "{option}={name}");
    let refused = options.set(option, "no such policy");
    let Err(OptionError::BadValue { accepted }) = refused else { panic!("{refused:?}") };
    accepted
}

#[test]
fn slab_policies_are_known_everywhere() {
    for policy in SLAB_POLICIES {
        is_known(accepted_by("SLAB", policy.name), policy.name, policy.page, policy.about);
    }
    assert_eq!(slab_policy("slob"), None);
    for (alias, name) in SLAB_ALIASES {
        let page = slab_policy(alias).expect("an alias of a policy").page;
        is_known(accepted_by("SLAB", alias), alias, page, alias);
        assert_eq!(slab_policy(alias).map(|policy| policy.name), Some(*name));
    }
    let listed = OPTIONS.named("SLAB").expect("an option").accepted;
    let listed = listed.split([',', ' ']).filter(|name| !["", "or"].contains(name));
    assert!(slab_names().eq(listed));
}
