//! Every number of the tables in the documents, as data.

/// Documents 000 and 001.
pub const MMTESTS: &str = include_str!("../../tests/golden/mmtests_tables.csv");
/// Document 002: transactions by SLUB and SLAB.
pub const TCP_RR: &str = include_str!("../../tests/golden/tcp_rr_slub_slab.csv");
/// Document 004: page faults before and after its change of the LRU lists.
pub const PAGE_FAULT: &str = include_str!("../../tests/golden/page_fault1_lru.csv");
