//! Frames: their numbers, their descriptors, and the window that they lie in.
//!
//! Order of the files, each using only those before it: `order`, `pfn`, `migratetype`, `prices`;
//! `bits`, `array`, `growing`, `list`, `metadata`, `window`; `block_bits`, `arena`, `chunks`,
//! `pageblock`, `table`; `memory`.

mod arena;
mod array;
mod bits;
mod block_bits;
#[cfg(feature = "groups")]
mod chunks;
mod growing;
mod list;
mod memory;
mod metadata;
mod migratetype;
mod order;
mod pageblock;
mod pfn;
mod prices;
mod table;
#[cfg(test)]
mod tests;
mod window;

pub use arena::{Arena, Side, Wanted};
pub use array::fresh_zero;
pub use array::{FreshZero, OsArray};
pub use bits::{Fit, FrameBits, PAGEBLOCK_WORDS};
#[cfg(feature = "groups")]
pub(crate) use chunks::Chunks;
pub use growing::{DOWN, GrowingArray};
pub use list::{Back, End, FrontList, Link, Links, List, Member, members};
pub use memory::{Memory, Taken};
pub use metadata::{METADATA_KINDS, Metadata, MetadataKind};
pub use migratetype::{MAX_NODES, MIGRATE_TYPES, MigrateType, NodeId, PCP_TYPES};
pub use order::{
    FRAME_BYTES, FRAME_SHIFT, MAX_ORDER, Order, PAGEBLOCK_BYTES, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER,
    page_bytes,
};
pub use pageblock::{Faults, Pageblock, PageblockLinks, PageblockTag, Pageblocks};
pub use pfn::{PageblockIndex, Pfn};
pub use prices::Prices;
pub use table::{FrameState, FrameTable, Kind, KindSet};
pub use window::Window;
