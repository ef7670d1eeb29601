//! Frames without memory, under the page lists of a policy.

use anyhow::{Result, anyhow};
use quarry_eras::pages::Chosen;
use quarry_mm::frame::{FRAME_BYTES, NodeId};
use quarry_mm::heap::options::StackOptions;
use quarry_mm::pcp::{PageAllocator, PageConfig};
use quarry_sys::os::Linux;

/// The settings of a page allocator of `frames` frames, all of one node and present from the start.
pub(crate) fn config(policy: Chosen, frames: u32) -> PageConfig<Chosen> {
    PageConfig {
        // Twice their size, because an allocator skips some.
        reserve_bytes: 2 * frames as usize * FRAME_BYTES,
        initial_frames: frames,
        grow: false,
        nodes: 1,
        node_of_slot: |_| NodeId(0),
        policy,
        ..StackOptions::default().pages
    }
}

/// Builds a page allocator with `slots` sets of lists.
pub(crate) fn allocator(config: &PageConfig<Chosen>, slots: u32) -> Result<PageAllocator<Chosen>> {
    let pages = PageAllocator::build(&Linux, config, slots);
    pages.map_err(|error| anyhow!("the page lists cannot be built: {error:?}"))
}
