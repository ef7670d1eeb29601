//! Every number of the tables in the documents, as data.

/// Documents 000 and 001.
pub(crate) const MMTESTS: &str = include_str!("../../../documents/mmtests_tables.csv");
/// Document 002: transactions by SLUB and SLAB.
pub(crate) const TCP_RR: &str = include_str!("../../../documents/002/tcp_rr_slub_slab.csv");
/// Document 004: page faults before and after its change of the LRU lists.
pub(crate) const PAGE_FAULT: &str = include_str!("../../../documents/004/page_fault1_lru.csv");
