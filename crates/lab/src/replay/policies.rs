//! The names of variants: a slab policy with a page policy.

use anyhow::{Result, bail};
use quarry_core::heap::options::{OptionError, StackOptions};
use quarry_core::pcp::PAGE_POLICIES;
use quarry_core::slab::{slab_names, slab_policy};
use quarry_harness::nearest;
use quarry_harness::usage::Usage;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

/// The page policy of each era's slab policy; those that are not named have the library's default.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Eras {
    pages: BTreeMap<String, String>,
}

static ERAS: LazyLock<Eras> = LazyLock::new(|| {
    toml::from_str(include_str!("../../data/eras.toml")).expect("a test reads it")
});

/// The page policy that the library starts with.
fn default_pages() -> &'static str {
    let default = StackOptions::default().pages.pcp;
    let known = PAGE_POLICIES.iter().find(|known| known.policy == default);
    known.expect("the default has a name").name
}

/// A slab policy with a page policy, written `slub-4.9+v2016`; perhaps with a way to free lists of
/// pages, as in `slub-4.9+order0+per_page`. Alone, as in `slub-3.0`, a slab policy has the page
/// policy of its era.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Policies {
    /// As it was asked for.
    written: String,
    /// As the registry has it.
    slab: String,
    /// As `QUARRY_PCP` spells it.
    pcp: String,
    /// As `QUARRY_FREE_LIST` spells it.
    free_list: Option<String>,
}

impl fmt::Display for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl From<Policies> for String {
    fn from(policies: Policies) -> Self {
        policies.written
    }
}

impl TryFrom<String> for Policies {
    type Error = anyhow::Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl FromStr for Policies {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (slab, pcp, free_list) = match text.split('+').collect::<Vec<_>>()[..] {
            [slab] => (slab, None, None),
            [slab, pcp] => (slab, Some(pcp), None),
            [slab, pcp, free_list] => (slab, Some(pcp), Some(free_list)),
            _ => bail!(Usage(format!(
                "{text}: accepted: SLAB, such as slub-3.0, or SLAB+PCP, or SLAB+PCP+FREE_LIST"
            ))),
        };
        let Some(known) = slab_policy(slab) else {
            let accepted: Vec<&str> = slab_names().collect();
            let unknown = nearest::unknown("slab policy", slab, &accepted);
            bail!(Usage(format!("{text}: {unknown}")));
        };
        let of_era = || ERAS.pages.get(known.name).map_or_else(default_pages, String::as_str);
        let policies = Self {
            written: text.to_owned(),
            slab: known.name.to_owned(),
            pcp: pcp.unwrap_or_else(of_era).to_owned(),
            free_list: free_list.map(str::to_owned),
        };
        policies.apply(&mut StackOptions::default())?;
        Ok(policies)
    }
}

impl Policies {
    /// The slab policy, by its name in the registry.
    pub(super) fn slab(&self) -> &str {
        &self.slab
    }

    /// All parts, those that were not asked for included, without aliases.
    pub(crate) fn in_full(&self) -> String {
        let free_list = self.free_list.iter().map(String::as_str);
        let parts = [self.slab.as_str(), &self.pcp].into_iter().chain(free_list);
        parts.collect::<Vec<_>>().join("+")
    }

    /// Chooses the page policies, each of which is to cost what it does and no more.
    pub(super) fn apply(&self, options: &mut StackOptions) -> Result<()> {
        options.pages.for_comparison = true;
        let free_list = self.free_list.iter().map(|value| ("FREE_LIST", value));
        for (name, value) in [("PCP", &self.pcp)].into_iter().chain(free_list) {
            match options.set(name, value) {
                Ok(()) => {}
                Err(OptionError::BadValue { accepted }) => {
                    bail!(Usage(format!("{self}: no page policy {value}; accepted: {accepted}")))
                }
                Err(OptionError::UnknownName) => bail!("{self}: no option {name}"),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(text: &str) -> String {
        text.parse::<Policies>().unwrap().in_full()
    }

    #[test]
    fn names_lead_back_to_their_policies() {
        for name in ["sheaf+v6.18", "slub", "slub+order0-310", "slub+order0+per_page"] {
            assert_eq!(name.parse::<Policies>().unwrap().to_string(), name);
        }
        let error = |text: &str| text.parse::<Policies>().unwrap_err().to_string();
        assert!(error("sheaf+v5").starts_with("sheaf+v5: no page policy v5; accepted: order0, "));
        let many = error("slub+order0+per_page+more");
        assert!(many.contains("accepted: SLAB, such as slub-3.0, or SLAB+PCP"), "{many}");
        let unknown = error("slob+v6.18");
        assert!(unknown.starts_with("slob+v6.18: no slab policy slob; did you mean "), "{unknown}");
        assert_eq!(
            error("sheaf+v6.18+twice"),
            "sheaf+v6.18+twice: no page policy twice; accepted: per_page or one_section"
        );
    }

    #[test]
    fn a_slab_policy_alone_has_the_pages_of_its_era() {
        assert_eq!(full("slub"), "slub-4.9+order0");
        assert_eq!(full("slub+v2016"), "slub-4.9+v2016");
        assert_eq!(full("sheaf"), format!("sheaf+{}", default_pages()));
        let mut options = StackOptions::default();
        for name in slab_names() {
            name.parse::<Policies>().unwrap().apply(&mut options).unwrap();
            assert!(
                options.pages.for_comparison,
                "{name}: no policy has a shorter way than others"
            );
        }
        for (slab, pages) in &ERAS.pages {
            options.set("PCP", pages).unwrap_or_else(|_| panic!("{slab}: no page policy {pages}"));
        }
    }
}
