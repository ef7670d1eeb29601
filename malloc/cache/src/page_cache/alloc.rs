//! Memory for pages, charged to their groups, and for index nodes. A request may reclaim once.

use super::cache::PageCacheRef;
use super::counters::Event;
use super::host::Host;
use super::index::Preload;
use super::mapping::Mapping;
use super::outcome::{Effort, Full};
use crate::lru::PageNo;
use quarry_mm::frame::{Kind, MigrateType, Order};
use quarry_mm::pcp::PageRequest;
use quarry_mm::stack::{Claimant, StackHost};
use quarry_mm::zone::GroupId;
use quarry_sys::primitive::Ordering::Relaxed;

/// Pages with this number or a higher one turn fresh pageblocks into huge pages. Lower numbers are
/// used first, so a cache of less than 2 MiB has no huge page that is mostly empty.
const HUGE_FROM_PAGES: u32 = 512;

impl<H: Host> PageCacheRef<'_, H> {
    /// Takes nodes for an index, and reclaims at most once for them. The caller holds no lock.
    pub(super) fn fill_preload(
        self,
        preload: &mut Preload<'_, H>,
        count: usize,
        may_reclaim: &mut bool,
    ) -> bool {
        preload.fill(count)
            || core::mem::take(may_reclaim) && self.make_room(0, &mut || preload.fill(count))
    }

    /// Reclaims `frames` frames, or an index node if `frames` is 0, for a request that found none.
    /// Then calls `attempt`, which repeats the request, while no other task can take the freed
    /// memory. Returns whether `attempt` succeeded. The caller holds no lock of the page cache.
    fn make_room(self, frames: u32, attempt: &mut dyn FnMut() -> bool) -> bool {
        let frames = match (frames, self.host.basis().nodes()) {
            (0, Some(nodes)) => self.host.stack().slab_frames(nodes),
            _ => frames,
        };
        self.host.stack().reclaim_for(Claimant::Cache, frames, attempt)
    }

    /// Allocates a page, whose state is still 0. Reads the mapping's group and order only once: the
    /// caller has no lock, so during the call the mapping's number may pass to another mapping.
    pub(super) fn alloc_page(self, mapping: &Mapping, effort: Effort) -> Result<PageNo, Full> {
        let (group, order) = (GroupId(mapping.group()), mapping.order());
        self.charge_group(group, order.frames(), effort)?;
        let page = self
            .alloc_charged(mapping, order, effort)
            .inspect_err(|_| self.groups().uncharge_page(group, order.frames()))?;
        self.tables.pages.at(page).group.store(group.0, Relaxed);
        Ok(page)
    }

    /// Charges a page to its group; at the limit, reclaims from the group once and tries again.
    fn charge_group(self, group: GroupId, frames: u32, effort: Effort) -> Result<(), Full> {
        let groups = self.groups();
        let Err(mut limited) = groups.charge_page(group, frames) else { return Ok(()) };
        if effort == Effort::Every {
            self.direct_reclaim_group(limited);
            match groups.charge_page(group, frames) {
                Ok(()) => return Ok(()),
                Err(still) => limited = still,
            }
        }
        groups.at(limited).note_refusal();
        Err(Full)
    }

    fn alloc_charged(
        self,
        mapping: &Mapping,
        order: Order,
        effort: Effort,
    ) -> Result<PageNo, Full> {
        let mut page = self.try_alloc_page(mapping, order);
        if page.is_none() && effort == Effort::Every {
            self.make_room(order.frames(), &mut || {
                page = self.try_alloc_page(mapping, order);
                page.is_some()
            });
        }
        page.ok_or(Full)
    }

    fn try_alloc_page(self, mapping: &Mapping, order: Order) -> Option<PageNo> {
        let (tables, pages, slot) = (self.tables, self.host.stack().pages(), self.slot());
        let number = tables.free.take(slot, &tables.pages, self.host.stack().metadata())?;
        let request = PageRequest {
            order,
            migratetype: MigrateType::Movable,
            flags: Default::default(),
            node: pages.zones().node_of(slot),
        };
        let block = match mapping.allows_overread() {
            true => tables.tail_blocks.alloc_for_overread(self.host, slot, request),
            false => pages.alloc(slot, request),
        };
        let Some(block) = block else {
            tables.free.put(slot, &[number]);
            return None;
        };
        if number.0 >= HUGE_FROM_PAGES {
            pages.zones().fill_whole(block.pfn);
        }
        pages.frames().set_link(block.pfn, number.0);
        pages.frames().set_kind(block.pfn, 1, Kind::CACHED);
        let descriptor = tables.pages.at(number);
        descriptor.pfn.store(block.pfn.0, Relaxed);
        descriptor.order.store(order.get(), Relaxed);
        let home = pages.memory().pageblocks().of(block.pfn).tag().node();
        descriptor.node.store(home.map_or(0, |node| node.0), Relaxed);
        descriptor.private_cache.store(mapping.private(), Relaxed);
        tables.counters.add(slot, Event::Taken, order.frames().into());
        Some(number)
    }
}
