//! Quarry's zones and pcp lists without the rest of the stack, set up as a variant.

use crate::frames;
use anyhow::{Context, Result, anyhow};
use quarry_eras::pages::{Chosen, PAGE_POLICIES};
use quarry_mm::frame::{FRAME_BYTES, MigrateType, NodeId, Order, Pfn};
use quarry_mm::pcp::{AllocFlags, Machine, PageAllocator, PageConfig, PageRequest};
use quarry_sys::percpu::SlotIndex;
use serde::{Deserialize, Serialize};

const GROUP_FRAMES: u32 = (128 << 20) / FRAME_BYTES as u32;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Variant {
    pub(crate) name: String,
    pub(crate) lists: String,
    /// True if requests name their migratetype; otherwise all are movable.
    pub(crate) types: bool,
    /// True if requests that cannot wait may use the reserve of high orders.
    pub(crate) reserve: bool,
    /// True if every 128 MiB of the memory are a node of their own. Movable blocks then come from
    /// the last nodes with room; all other blocks (also rings and packets) from the first ones.
    pub(crate) contained: bool,
}

impl Variant {
    /// The variant of this name: `one-type`, `no-reserve`, `contained`, or a page policy. The first
    /// three use the page policy `default`.
    pub(crate) fn named(name: &str, default: &str) -> Option<(Self, String)> {
        let of = |lists: &str| Self {
            name: name.to_owned(),
            lists: lists.to_owned(),
            types: true,
            reserve: true,
            contained: false,
        };
        let changed = of(default);
        let (variant, about) = match name {
            "one-type" => (Self { types: false, ..changed }, "every request is movable"),
            "no-reserve" => {
                let about = "requests that cannot wait have no reserve of high orders";
                (Self { reserve: false, ..changed }, about)
            }
            "contained" => {
                let about = "slabs come from a group of 128 MiB of their own while it has room";
                (Self { contained: true, ..changed }, about)
            }
            _ => {
                let known = PAGE_POLICIES.iter().find(|known| known.name == name)?;
                return Some((of(name), format!("page lists: {}", known.about)));
            }
        };
        Some((variant, about.to_owned()))
    }
}

/// Names of variants that are not page policies.
pub(crate) const CHANGES: [&str; 3] = ["one-type", "no-reserve", "contained"];

#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    slot: SlotIndex,
    pfn: Pfn,
    order: Order,
}

impl Block {
    pub(super) fn frames(self) -> u32 {
        self.order.frames()
    }
}

pub(super) struct Memory {
    pages: PageAllocator<Chosen>,
    variant: Variant,
    nodes: u32,
    frames: u32,
}

impl Memory {
    /// Builds a memory of `frames` frames. If the variant is `contained`, each 128 MiB are a node.
    ///
    /// # Errors
    /// No such page policy, a call that the system refuses, or fewer than two nodes if `contained`.
    pub(super) fn build(variant: &Variant, frames: u32) -> Result<Self> {
        let known = Chosen::named(&variant.lists);
        let policy =
            known.with_context(|| format!("no page policy is called {}", variant.lists))?;
        let nodes = if variant.contained { frames / GROUP_FRAMES } else { 1 };
        anyhow::ensure!(
            nodes >= 1 && frames.is_multiple_of(nodes) && (!variant.contained || nodes >= 2),
            "{frames} frames are not two or more groups of {GROUP_FRAMES}"
        );
        let mut config =
            PageConfig { initial_frames: frames / nodes, ..frames::config(policy, frames) };
        config.declare(Machine { cpus: nodes, frames, nodes: nodes as u8 });
        let pages = frames::allocator(&config, nodes)?;
        Ok(Self { pages, variant: variant.clone(), nodes, frames })
    }

    /// Takes a block; `None` if the watermarks that apply to the request allow none.
    pub(super) fn take(&self, order: u8, of: MigrateType, waits: bool) -> Option<Block> {
        let is_slab = of != MigrateType::Movable;
        // Movable blocks come from the last node that has room, all others from the first one.
        let node = if is_slab { 0 } else { self.nodes - 1 };
        let flags = AllocFlags {
            min_reserve: !waits,
            non_block: !waits,
            high_atomic: !waits && order > 0 && self.variant.reserve,
        };
        let migratetype = if self.variant.types { of } else { MigrateType::Movable };
        let (slot, order) = (SlotIndex(node), Order::new(order));
        let request = PageRequest { order, migratetype, flags, node: NodeId(node as u8) };
        let page = self.pages.alloc(slot, request)?;
        Some(Block { slot, pfn: page.pfn, order })
    }

    pub(super) fn put(&self, block: Block) {
        self.pages.free(block.slot, block.pfn, block.order);
    }

    /// Free frames, including those on pcp lists.
    pub(super) fn free(&self) -> u32 {
        let zones = self.pages.zones();
        zones.all().map(|zone| zone.free() + zones.frames_in_pcp(zone.node())).sum()
    }

    /// The share of free frames in free blocks of `order` and above.
    pub(super) fn available(&self, order: u8) -> f64 {
        let free = self.free();
        if free == 0 {
            return 0.0;
        }
        let in_blocks = |zone: &quarry_mm::zone::Zone| {
            let stats = zone.stats();
            let of_order = |(order, row): (usize, &[u32; 4])| row.iter().sum::<u32>() << order;
            let blocks: u32 =
                stats.nr_free.iter().enumerate().skip(order.into()).map(of_order).sum();
            // Extents consist of whole pageblocks.
            blocks + stats.in_extents
        };
        let usable: u32 = self.pages.zones().all().map(in_blocks).sum();
        f64::from(usable) / f64::from(free)
    }

    /// Checks that all frames are free and that the equations of the memory hold.
    pub(super) fn check_at_end(&self) -> Result<()> {
        self.pages.drain_all();
        self.pages.validate().map_err(|broken| anyhow!("{broken}"))?;
        let free = self.free();
        anyhow::ensure!(free == self.frames, "{free} of {} frames came back", self.frames);
        Ok(())
    }
}
