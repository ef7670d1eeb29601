//! The names of variants: a slab policy, a page policy, and further parts.

use crate::ranges::{RANGES, Ranges};
use quarry_cache::PageCachingOptions;
use quarry_cache::lru::{ADD_BATCHES, LruOptions, LruPolicy};
use quarry_cache::page_cache::TruncationPolicy;
use quarry_eras::lru::{self, LRU_POLICIES};
use quarry_eras::pages::{Chosen, PAGE_POLICIES};
use quarry_eras::slab::{Mechanisms, slab_names, slab_policy};
use quarry_mm::heap::options::StackOptions;
use quarry_mm::pcp::{FreeListPolicy, PagePolicy};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

/// The page policy of each era's slab policy. Slab policies not listed use the library's default.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Eras {
    pages: BTreeMap<String, String>,
}

static ERAS: LazyLock<Eras> =
    LazyLock::new(|| toml::from_str(include_str!("../data/eras.toml")).expect("a test reads it"));

/// The name of the library's default page policy.
fn default_pages() -> &'static str {
    Chosen::default().name()
}

/// The options of a stack and of its page cache.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CachingOptions {
    pub(crate) stack: StackOptions<Chosen>,
    pub(crate) cache: PageCachingOptions<lru::Chosen>,
}

/// A slab policy and a page policy, written `slub-4.9+v2016`, and possibly the names of further
/// parts. A slab policy written alone, such as `slub-3.0`, has the page policy of its era. A kernel
/// of document 001, such as `jan`, stands for the policies and parts that that kernel had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Policies {
    /// The variant as the user wrote it.
    written: String,
    /// Name of the slab policy in the registry.
    slab: String,
    pages: Chosen,
    parts: Parts,
}

/// Further parts that can vary. A part that is not named has its default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Parts {
    /// How lists of pages are freed.
    free_list: Option<FreeListPolicy>,
    /// Policy of the LRU lists' locks; `None`: pages of programs are on no list.
    lru: Option<lru::Chosen>,
    add_batch: Option<usize>,
    /// True if the locks of the LRU lists keep no counts.
    uncounted: bool,
    /// True if pages that die in an add batch go onto a list.
    adds_dead: bool,
    /// Policy by which truncation removes pages from a file.
    truncation: Option<TruncationPolicy>,
    /// True if freed pages go to the cold end of the per-CPU lists.
    cold: bool,
    /// How ranges of pages are taken and freed.
    ranges: Option<Ranges>,
    /// True if the CPUs' nodes have no memory: the slab policy finds all of it on other nodes.
    memoryless: bool,
}

/// The error for a variant that has an unknown word.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variant}: no {what} {name}; accepted: {}", accepted.join(", "))]
pub struct UnknownPolicy {
    /// The variant as it was written.
    pub variant: String,
    /// The kind of name that the word should be, for people.
    pub what: &'static str,
    /// The unknown word.
    pub name: String,
    /// All accepted words.
    pub accepted: Vec<String>,
}

impl UnknownPolicy {
    fn new<T: Into<String>>(
        variant: &str,
        what: &'static str,
        name: &str,
        accepted: impl Iterator<Item = T>,
    ) -> Self {
        let accepted = accepted.map(T::into).collect();
        Self { variant: variant.to_owned(), what, name: name.to_owned(), accepted }
    }
}

const FREE_LISTS: [(&str, FreeListPolicy); 2] =
    [("per_page", FreeListPolicy::PerPage), ("one_section", FreeListPolicy::OneSection)];

/// The size of the add batch in Linux 4.15. It applies if the variant names no size.
const ADD_BATCH_4_15: usize = ADD_BATCHES[0];

/// The slab and page policy of the kernels of document 001.
const KERNEL_4_14: [&str; 2] = ["slub-4.9", "order0"];

fn named<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(known, _)| *known == name).map(|(_, it)| *it)
}

fn name_of<T: PartialEq>(table: &[(&'static str, T)], wanted: Option<T>) -> Option<&'static str> {
    let wanted = wanted?;
    table.iter().find(|(_, it)| *it == wanted).map(|(name, _)| *name)
}

impl Parts {
    /// The parts of a kernel of document 001, which has the name of its truncation policy.
    fn of_rung(rung: TruncationPolicy) -> Self {
        let frees_one_by_one =
            matches!(rung, TruncationPolicy::Vanilla | TruncationPolicy::BatchedIndex);
        let free_list = FREE_LISTS[usize::from(!frees_one_by_one)].1;
        Self { truncation: Some(rung), free_list: Some(free_list), ..Self::default() }
    }

    /// Adds a part by its name; returns false if no part has it.
    fn add(&mut self, name: &str) -> bool {
        let add_batch = ADD_BATCHES.iter().find(|pages| name == format!("add{pages}"));
        if let Some(way) = named(&FREE_LISTS, name) {
            self.free_list = Some(way);
        } else if let Some(policy) = lru::Chosen::named(name) {
            self.lru = Some(policy);
        } else if let Some(pages) = add_batch {
            self.add_batch = Some(*pages);
        } else if let Some(rung) = named(&TruncationPolicy::ALL, name) {
            self.truncation = Some(rung);
        } else if let Some(ranges) = named(&RANGES, name) {
            self.ranges = Some(ranges);
        } else {
            match name {
                "uncounted" => self.uncounted = true,
                "adds_dead" => self.adds_dead = true,
                "cold" => self.cold = true,
                "memoryless" => self.memoryless = true,
                _ => return false,
            }
        }
        true
    }

    /// All accepted names, for people.
    fn accepted() -> impl Iterator<Item = String> {
        let names = FREE_LISTS.iter().map(|it| it.0.to_owned());
        let names = names.chain(LRU_POLICIES.iter().map(|it| it.name.to_owned()));
        let names = names.chain(ADD_BATCHES.iter().map(|pages| format!("add{pages}")));
        let names = names.chain(TruncationPolicy::ALL.iter().map(|it| it.0.to_owned()));
        let names = names.chain(RANGES.iter().map(|it| it.0.to_owned()));
        names.chain(["cold", "memoryless", "uncounted", "adds_dead"].map(str::to_owned))
    }

    fn names(&self) -> Vec<String> {
        let fixed = [
            name_of(&FREE_LISTS, self.free_list),
            self.lru.map(|policy| policy.name()),
            name_of(&TruncationPolicy::ALL, self.truncation),
            name_of(&RANGES, self.ranges),
            self.cold.then_some("cold"),
            self.memoryless.then_some("memoryless"),
            self.uncounted.then_some("uncounted"),
            self.adds_dead.then_some("adds_dead"),
        ];
        let mut names: Vec<String> = fixed.into_iter().flatten().map(str::to_owned).collect();
        names.extend(self.add_batch.map(|pages| format!("add{pages}")));
        names
    }
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
    type Error = UnknownPolicy;

    fn try_from(text: String) -> Result<Self, UnknownPolicy> {
        text.parse()
    }
}

impl FromStr for Policies {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        let mut words = text.split('+');
        let first = words.next().unwrap_or_default();
        let rung = named(&TruncationPolicy::ALL, first);
        let slab = if rung.is_some() { KERNEL_4_14[0] } else { first };
        let Some(known) = slab_policy(slab) else {
            return Err(UnknownPolicy::new(text, "slab policy", slab, slab_names()));
        };
        let of_era = || ERAS.pages.get(known.name).map_or_else(default_pages, String::as_str);
        let pages = match rung {
            Some(_) => KERNEL_4_14[1],
            None => words.next().unwrap_or_else(of_era),
        };
        let mut parts = rung.map_or_else(Parts::default, Parts::of_rung);
        for word in words {
            if !parts.add(word) {
                return Err(UnknownPolicy::new(text, "part", word, Parts::accepted()));
            }
        }
        let pages = Chosen::named(pages).ok_or_else(|| {
            let accepted = PAGE_POLICIES.iter().map(|known| known.name);
            UnknownPolicy::new(text, "page policy", pages, accepted)
        })?;
        Ok(Self { written: text.to_owned(), slab: known.name.to_owned(), pages, parts })
    }
}

impl Policies {
    /// The slab policy, by its name in the registry.
    pub(crate) fn slab(&self) -> &str {
        &self.slab
    }

    /// Both policies, and the parts that are not left at their defaults, without aliases.
    pub fn in_full(&self) -> String {
        let policies = [&self.slab, self.pages.name()].map(str::to_owned);
        policies.into_iter().chain(self.parts.names()).collect::<Vec<_>>().join("+")
    }

    /// The LRU lists of the pages of programs, if there are any.
    pub(crate) fn lru(&self) -> Option<LruOptions<lru::Chosen>> {
        let Parts { lru, add_batch, uncounted, adds_dead, .. } = self.parts;
        let (add_batch, counts) = (add_batch.unwrap_or(ADD_BATCH_4_15), !uncounted);
        lru.map(|policy| LruOptions { policy, add_batch, counts, frees_dead: !adds_dead })
    }

    /// How ranges of pages are taken and freed.
    pub(crate) fn ranges(&self) -> Ranges {
        self.parts.ranges.unwrap_or_default()
    }

    /// Sets, in `options`, the page policies and LRU options that the variant names.
    pub(crate) fn apply(&self, options: &mut CachingOptions) {
        let CachingOptions { stack: options, cache } = options;
        options.pages.policy = self.pages;
        let Parts { free_list, truncation, lru, add_batch, uncounted, adds_dead, .. } = self.parts;
        let Parts { cold, memoryless, .. } = self.parts;
        options.slab = Mechanisms { local_memory: !memoryless, ..Mechanisms::ALL }.into();
        options.pages.free_list = free_list.unwrap_or(options.pages.free_list);
        // Kernels of document 001 (2017) have one lock for LRU lists, and add batches of 14 pages.
        cache.lru.policy = lru.unwrap_or(match truncation {
            Some(_) => lru::Chosen::Single,
            None => cache.lru.policy,
        });
        cache.lru.add_batch = add_batch.unwrap_or(match truncation {
            Some(_) => ADD_BATCH_4_15,
            None => cache.lru.add_batch,
        });
        cache.lru.counts = !uncounted;
        cache.lru.frees_dead = !adds_dead;
        cache.pages.truncation = truncation.unwrap_or(cache.pages.truncation);
        cache.pages.cold_hint |= cold;
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
        for name in ["sheaf+v6.18", "slub", "slub+order0-310+single+add56", "mel+cold"] {
            assert_eq!(name.parse::<Policies>().unwrap().to_string(), name);
        }
        assert_eq!(full("sheaf-7.0+v6.18+memoryless"), "sheaf-7.0+v6.18+memoryless");
        let error = |text: &str| text.parse::<Policies>().unwrap_err().to_string();
        assert!(error("sheaf+v5").starts_with("sheaf+v5: no page policy v5; accepted: order0, "));
        let many = error("slub+order0+per_page+more");
        assert!(many.contains("no part more; accepted: per_page, one_section, single, "), "{many}");
        let unknown = error("slob+v6.18");
        assert!(unknown.starts_with("slob+v6.18: no slab policy slob; accepted: "), "{unknown}");
    }

    #[test]
    fn a_slab_policy_alone_has_the_pages_of_its_era() {
        assert_eq!(full("slub"), "slub-4.9+order0");
        assert_eq!(full("slub+v2016"), "slub-4.9+v2016");
        assert_eq!(full("sheaf"), format!("sheaf+{}", default_pages()));
        let mut options = CachingOptions::default();
        assert_eq!(full("slub+order0+single+per_page"), "slub-4.9+order0+per_page+single");
        for name in slab_names() {
            name.parse::<Policies>().unwrap().apply(&mut options);
        }
        for (slab, pages) in &ERAS.pages {
            assert!(Chosen::named(pages).is_some(), "{slab}: no page policy {pages}");
        }
    }

    #[test]
    fn a_rung_alone_is_the_kernel_of_its_time() {
        assert_eq!(full("jan"), "slub-4.9+order0+per_page+jan");
        assert_eq!(full("mel+cold+single"), "slub-4.9+order0+one_section+single+mel+cold");
        let mut options = CachingOptions::default();
        for (name, rung) in TruncationPolicy::ALL {
            name.parse::<Policies>().unwrap().apply(&mut options);
            assert_eq!(
                (options.cache.pages.truncation, options.cache.pages.cold_hint),
                (rung, false)
            );
        }
        "jan+cold".parse::<Policies>().unwrap().apply(&mut options);
        assert!(options.cache.pages.cold_hint);
        assert_eq!(options.stack.pages.free_list, FreeListPolicy::PerPage);
    }

    #[test]
    fn lru_lists_are_there_where_they_are_named() {
        let lru = |text: &str| text.parse::<Policies>().unwrap().lru();
        assert_eq!(lru("slub+order0"), None);
        let single = LruOptions {
            policy: lru::Chosen::Single,
            add_batch: 14,
            counts: true,
            frees_dead: true,
        };
        assert_eq!(lru("slub+order0+single"), Some(single));
        let other = LruOptions { add_batch: 56, counts: false, ..single };
        assert_eq!(lru("slub+order0+single+uncounted+add56"), Some(other));
        let late = LruOptions { frees_dead: false, ..single };
        assert_eq!(lru("slub+order0+single+adds_dead"), Some(late));
    }
}
