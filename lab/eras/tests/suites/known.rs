//! Checks that a policy with a name is documented.

use std::path::Path;

/// Asserts that `name` is among the `accepted` names, and that its page names the policy.
pub(crate) fn is_known(accepted: &str, name: &str, page: &str, about: &str) {
    assert!(accepted.split([',', ' ']).any(|known| known == name), "{name} in {accepted}");
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/policies");
    let path = pages.join(format!("{page}.md"));
    let text = std::fs::read_to_string(&path).expect("every policy has a page");
    assert!(text.contains(&format!("`{name}`")), "{name} on {}", path.display());
    let index = std::fs::read_to_string(pages.join("README.md")).expect("the index of policies");
    let (name, page) = (format!("| `{name}`"), format!("]({page}.md)"));
    let is_listed = index.lines().any(|row| row.starts_with(&name) && row.contains(&page));
    assert!(is_listed, "lab/docs/policies/README.md has no row {name} with a link to {page}");
    assert!(!about.is_empty());
}
