//! Caches of pages that implement one trait, for the experiment `cache-hit`.
//!
//! ```text
//! page        a page, its key, and how its bytes are checked
//! random      random numbers
//! trace       the workloads, as sequences of page numbers
//! simulators  replacement policies that only count hits
//! caches      Quarry's page cache, three crates, two mechanisms of papers
//! measure     one sample
//! variants    all variants, by name
//! ```

pub mod caches;
pub mod measure;
pub mod page;
pub mod random;
pub mod simulators;
pub mod trace;
pub mod variants;
