//! The choices of a stack with a page cache, and their spelling in `QUARRY_*`.

use crate::heap::options::{OPTIONS, OptionError, OptionHelp, StackOptions};
use crate::lru::{ADD_BATCHES, LRU_POLICY_NAMES, LruOptions, LruPolicy};
use crate::page_cache::PageCacheOptions;
use crate::pcp::V6_18;

/// How the cache of a stack is set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCachingOptions {
    /// Lists of cached pages.
    pub lru: LruOptions,
    /// The page cache.
    pub pages: PageCacheOptions,
}

/// How a stack and its cache are set up.
#[derive(Clone, Copy, Debug, Default)]
pub struct CachingOptions<P = V6_18> {
    /// The stack.
    pub stack: StackOptions<P>,
    /// Its cache.
    pub cache: PageCachingOptions,
}

/// The options that only a page cache has.
const CACHE_OPTIONS: &[OptionHelp] = &[
    OptionHelp {
        name: "LRU",
        accepted: LRU_POLICY_NAMES,
        meaning: "policy of the lists of cached pages",
    },
    OptionHelp {
        name: "LRU_BATCH",
        accepted: "14, 31 or 56",
        meaning: "cached pages that a CPU collects before it adds them to the lists",
    },
];

impl CachingOptions {
    /// All options: those of every stack, and those of the cache.
    pub fn all() -> impl Iterator<Item = &'static OptionHelp> {
        OPTIONS.iter().chain(CACHE_OPTIONS)
    }
}

impl<P> CachingOptions<P> {
    /// [`StackOptions::set`] for the options of both.
    ///
    /// # Errors
    /// As there.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        match CACHE_OPTIONS.iter().find(|option| option.name == name) {
            Some(option) => self.cache.set(option, value),
            None => self.stack.set(name, value),
        }
    }
}

impl PageCachingOptions {
    fn set(&mut self, option: &OptionHelp, value: &str) -> Result<(), OptionError> {
        let bad = OptionError::BadValue { accepted: option.accepted };
        if option.name == "LRU" {
            self.lru.policy = LruPolicy::named(value).ok_or(bad)?;
        } else {
            let known = value.parse().ok().filter(|size| ADD_BATCHES.contains(size));
            self.lru.add_batch = known.ok_or(bad)?;
        }
        Ok(())
    }
}
