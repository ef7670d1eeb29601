//! Checks of the equations between the layers; each layer checks its own.
//!
//! Checks that look once at every frame that was taken from the window:
//! * frames of kind `c` = slabs of cache `c`, each of its order
//! * heads of kind CACHED = descriptors of the page cache that are in use
//! * heads of kind MAPPING = live mappings = mappings that were counted as allocated - freed
//! * frames of free blocks and of free extents have no kind
//! * frames of slabs, blocks, cached pages and mappings <= `used + exempt` of the budget
//! * the marks of the budget follow from its limit
//! * frames charged for live and cached mappings = the budget's mapped frames

use super::cached_pages::CachedPages;
use super::instance::{Stack, StackConfig, Watch};
use crate::frame::{Kind, PAGEBLOCK_FRAMES, PageblockIndex, Pfn};
use crate::slab::{Cache, LOOSE, MAX_CACHES, SlabPolicy};
use quarry_sys::broken::{Broken, Check};

struct Census {
    of_cache: [u64; MAX_CACHES],
    of_blocks: u64,
    cached_pages: u64,
    mappings: usize,
    of_mappings: u64,
    /// Frames of slabs and blocks of own heaps, gone ones too, and of their mappings.
    #[cfg(feature = "heaps")]
    of_own: u64,
}

impl<C: StackConfig> Stack<C> {
    /// Checks every invariant; fails with the first equation that does not hold. No other thread
    /// may use the stack meanwhile. O(frames taken).
    #[inline(never)]
    pub fn validate(&self) -> Result<(), Broken> {
        let built = self.built();
        self.slab.validate(&self.context())?;
        self.mappings.validate()?;
        self.arena().validate()?;
        built.pages.validate()?;
        C::Cache::validate(self)?;
        let census = self.census()?;
        self.check_slabs(&census)?;
        #[cfg(feature = "heaps")]
        self.own.validate(census.of_own)?;
        #[cfg(feature = "heaps")]
        self.groups.validate(|group| self.own.charged_in(group))?;
        self.check_budget(&census)
    }

    fn census(&self) -> Result<Census, Broken> {
        let mut census = Census {
            of_cache: [0; MAX_CACHES],
            of_blocks: 0,
            cached_pages: 0,
            mappings: 0,
            of_mappings: 0,
            #[cfg(feature = "heaps")]
            of_own: 0,
        };
        let frames = self.frames();
        let pageblocks = self.pages().zones().memory().pageblocks();
        for block in (0..self.arena().span_blocks()).map(PageblockIndex) {
            if !self.arena().is_taken(block) {
                continue;
            }
            for pfn in block.frames() {
                let (kind, state) = (frames.kind(pfn), frames.state(pfn));
                let frame = Check::of("frame").at(pfn.0);
                if state.is_free() {
                    let block = (0..state.order().frames()).map(|offset| pfn.plus(offset));
                    let is_free = block.into_iter().all(|pfn| frames.kind(pfn) == Kind::NONE);
                    frame.that(is_free, "a frame of a free block has no owner")?;
                }
                let kept = pageblocks.of(pfn).extents().count_in(pfn.0 % PAGEBLOCK_FRAMES, 1) == 1;
                frame.that(!kept || kind == Kind::NONE, "a frame of a kept extent has no owner")?;
                match kind {
                    Kind::HIDDEN => self.count_hidden(pfn, &mut census),
                    Kind::PAGES | Kind::BARE => census.of_blocks += u64::from(frames.link(pfn)),
                    Kind::SAMPLED => {
                        let sampled = self.watch.sampled(self, pfn);
                        frame.that(sampled.is_some(), "the record of a sample names its frame")?;
                        census.of_blocks += sampled.map_or(0, |sampled| sampled.frames.into());
                    }
                    Kind::CACHED => census.cached_pages += 1,
                    Kind::MAPPING => {
                        census.mappings += 1;
                        let charged = self.mappings.charged(self.pages().zones(), pfn);
                        census.of_mappings += u64::from(charged);
                    }
                    #[cfg(feature = "heaps")]
                    Kind::OWN => self.count_own(pfn, &mut census),
                    kind if kind.is_cache() => census.of_cache[usize::from(kind.0)] += 1,
                    _ => {}
                }
            }
        }
        Ok(census)
    }

    /// A hidden block counts as the block or mapping that it was.
    fn count_hidden(&self, pfn: Pfn, census: &mut Census) {
        if self.watch.is_hidden_mapping(pfn) {
            census.mappings += 1;
            census.of_mappings += u64::from(self.mappings.charged(self.pages().zones(), pfn));
        } else {
            census.of_blocks += u64::from(self.frames().link(pfn));
        }
    }

    #[cfg(feature = "heaps")]
    fn count_own(&self, pfn: Pfn, census: &mut Census) {
        let (frames, is_mapping) = self.own_frames(pfn);
        if is_mapping {
            census.mappings += 1;
            census.of_mappings += u64::from(self.mappings.charged(self.pages().zones(), pfn));
        } else {
            census.of_blocks += u64::from(frames);
        }
        census.of_own += u64::from(frames);
    }

    fn check_slabs(&self, census: &Census) -> Result<(), Broken> {
        let counted = |cache: &Cache| {
            let slabs = self.slab.stats(self.context().with(cache)).total_slabs;
            slabs << cache.order().get()
        };
        let text = "frames of the cache's kind = frames of its slabs";
        for cache in self.caches.iter() {
            let number = cache.id().index();
            let check = Check::of("cache").at(number as u64);
            check.equal(census.of_cache[number], counted(cache), text)?;
        }
        let counted: u64 = self.caches.loose().map(counted).sum();
        let found = census.of_cache[LOOSE];
        Check::of("loose caches").equal(found, counted, text)?;
        Ok(())
    }

    fn check_budget(&self, census: &Census) -> Result<(), Broken> {
        let budget = self.pages().zones().budget();
        budget.validate()?;
        let kept = u64::from(self.mappings.cached_charged());
        let (check, counted) = (Check::of("stack"), self.large.mappings.stats());
        let (heads, live) = (census.mappings as u64, self.mappings.live() as u64);
        check.equal(heads, live, "heads of mappings = live mappings")?;
        let counted = counted.allocated - counted.freed;
        check.equal(heads, counted, "live mappings = mappings allocated - freed")?;
        let charged = census.of_mappings + kept;
        check.equal(charged, budget.mapped(), "frames of live and kept mappings = mapped")?;
        let (in_use, cached) = C::Cache::pages_in_use(self);
        check.equal(census.cached_pages, in_use, "heads of cached pages = descriptors in use")?;
        let of_pages = census.of_blocks + cached;
        let owned = census.of_cache.iter().sum::<u64>() + of_pages + charged;
        check.that(
            owned <= (budget.used() + budget.exempted()).into(),
            "frames of slabs, blocks, cached pages and mappings <= used + exempt",
        )
    }
}
