//! Checks the equations between mappings, lists and descriptors; each type checks its own.
//!
//! * an index names a page iff the page is live, and the page has that mapping and index
//! * frames of pages in indexes = `nr_file_pages`; likewise for `nr_dirty` and `nr_writeback`
//! * the tags of a page match its state
//! * frames of pages that belong to a group = frames charged to the groups
//! * descriptors in use + free descriptors = all; live pages have memory of the kind `CACHED`

use super::cache::PageCacheRef;
use super::host::Host;
use super::index::{Entry, Tag};
use super::mapping::LockedMapping;
use crate::lru::{PageNo, State};
use quarry_mm::frame::Kind;
use quarry_mm::stack::StackHost;
use quarry_sys::broken::{Broken, Check};
use quarry_sys::primitive::Ordering::Relaxed;

#[derive(Default)]
struct Census {
    pages: u64,
    frames: u64,
    dirty: u64,
    writeback: u64,
}

impl<H: Host> PageCacheRef<'_, H> {
    /// Checks the equations; no other task may use the cache. O(pages).
    ///
    /// # Errors
    /// The first equation that does not hold.
    pub fn validate(self) -> Result<(), Broken> {
        let tables = self.tables;
        let mut census = Census::default();
        for (number, mapping) in tables.mappings.all() {
            let tree = mapping.index.lock(&tables.nodes);
            self.check_mapping(number, LockedMapping { mapping, tree }, &mut census)?;
        }
        let check = Check::of("page cache");
        let events = self.events();
        check.equal(census.frames, events.pages(), "pages in indexes = added - removed")?;
        check.equal(census.dirty, events.dirty(), "dirty pages = dirtied - cleaned")?;
        check.equal(census.writeback, events.writeback(), "in writeback = begun - ended")?;
        let (mut in_use, mut live, mut of_groups) = (0, 0, 0);
        for number in 0..tables.pages.len() {
            let page = tables.pages.at(PageNo(number as u32));
            let state = page.state.load();
            in_use += usize::from(state != State::default());
            live += u64::from(state.has(State::LIVE));
            if state != State::default() && page.group.load(Relaxed) != 0 {
                of_groups += u64::from(page.order().frames());
            }
        }
        let cached: u64 = self.groups().iter().map(|(_, group)| u64::from(group.cached())).sum();
        check.equal(of_groups, cached, "frames of pages of groups = cached of groups")?;
        check.equal(live, census.pages, "live pages = pages in indexes")?;
        tables.nodes.validate()?;
        tables.lru.validate(&tables.pages)?;
        tables.free.validate(&tables.pages, in_use)
    }

    fn check_mapping(
        self,
        number: u32,
        mut locked: LockedMapping<'_>,
        census: &mut Census,
    ) -> Result<(), Broken> {
        let check = Check::of("mapping").at(number);
        locked.tree.validate(&mut |_, _| Ok(()))?;
        let counts = locked.tree.counts();
        let published = locked.mapping.pages.load(Relaxed);
        check.equal(published, counts.pages, "pages published = pages in the index")?;
        let is_live = *locked.tree.value();
        check.that(is_live || counts.nodes == 0, "a mapping that is not live is empty")?;
        let (mut from, mut pages) = (0, 0);
        while let Some((index, entry)) = locked.tree.next_entry(from) {
            if let Entry::Page(page) = entry {
                self.check_page(number, index, page)?;
                let state = self.state(page);
                let tags = [(Tag::Dirty, State::DIRTY), (Tag::Writeback, State::WRITEBACK)];
                for (tag, flag) in tags {
                    let is_tagged = locked.tree.has_tag(index, tag);
                    check.that(is_tagged == state.has(flag), "a tag says what the state says")?;
                }
                pages += 1;
                let frames = self.frames(page);
                census.frames += frames;
                census.dirty += u64::from(state.has(State::DIRTY)) * frames;
                census.writeback += u64::from(state.has(State::WRITEBACK)) * frames;
            }
            from = index + 1;
        }
        census.pages += pages;
        check.equal(counts.pages, pages, "pages counted = pages found")
    }

    fn check_page(self, number: u32, index: u64, page: PageNo) -> Result<(), Broken> {
        let (check, descriptor) = (Check::of("page").at(page.0), self.tables.pages.at(page));
        let state = descriptor.state.load();
        check.that(state.has(State::LIVE), "an index names live pages")?;
        check.equal(descriptor.mapping.load(Relaxed), number, "mapping(page) = its index's")?;
        check.equal(descriptor.index.load(Relaxed), index, "index(page) = its place")?;
        let frames = self.host.stack().pages().frames();
        check
            .that(frames.kind(descriptor.pfn()) == Kind::CACHED, "its frame is a cached page's")?;
        check.equal(frames.link(descriptor.pfn()), page.0, "its frame knows the page")?;
        check.that(!descriptor.is_held() || state.pins() > 0, "held pages are pinned")
    }
}
