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
//! Each file uses only files before it in this list: `entry`, `node`, `grace`, `shadow_nodes`,
//! `tree`; `iterate`, `batch`, `shrinker`, `validate`.

mod batch;
mod entry;
mod grace;
mod iterate;
mod node;
mod shadow_nodes;
mod shrinker;
mod tree;
mod validate;

pub use batch::BATCH;
pub use entry::{Entry, SHADOW_BITS, Tag};
pub use grace::{GRACE_BATCH, Grace, GraceStats, Preload};
pub use node::{NODE_ALIGN, NODE_BYTES, NODE_SLOTS};
pub use shadow_nodes::{IndexNodes, PAGES_PER_SHADOW_NODE_SHIFT};
pub use shrinker::ShadowScan;
pub use tree::{INDEX_LIMIT, Index, IndexCounts, InsertError, LockedIndex};

#[cfg(test)]
mod tests;
