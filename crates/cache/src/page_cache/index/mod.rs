//! The index of a file mapping: a radix tree from pages' numbers (each the *index* of its page) to
//! cached pages and to shadow entries of evicted pages. Walks read it without a lock.
//!
//! A tree has one lock, which also guards the mapping's own data. [`IndexNodes`] has the state that
//! all trees of a page cache share.
//!
//! ```text
//! let mut preload = Preload::new(host, &nodes.grace);
//! loop {
//!     match index.lock(&nodes).insert(at, Entry::Page(page), &mut preload) {
//!         Err(InsertError::Nodes(count)) if preload.fill(count) => continue,   // the lock is free
//!         ..
//!     }
//! }
//! ```
//!
//! Each file uses only files before it in this list: `entry`, `node`, `grace`, `preload`;
//! `shadow_nodes`, `nodes`, `tree`; `iterate`, `batch`, `shrinker`, `validate`.

mod batch;
mod entry;
mod grace;
mod iterate;
mod node;
mod nodes;
mod preload;
mod shadow_nodes;
mod shrinker;
mod tree;
mod validate;

pub use batch::BATCH;
pub use entry::{Entry, SHADOW_BITS, Tag};
pub use grace::{GRACE_BATCH, Grace, GraceStats};
pub use node::{NODE_ALIGN, NODE_BYTES, NODE_SLOTS};
pub use nodes::IndexNodes;
pub use preload::Preload;
pub use shadow_nodes::PAGES_PER_SHADOW_NODE_SHIFT;
pub use shrinker::ShadowScan;
pub use tree::{INDEX_LIMIT, Index, IndexCounts, InsertError, LockedIndex, MOST_NODES_PER_INSERT};

#[cfg(test)]
mod tests;
