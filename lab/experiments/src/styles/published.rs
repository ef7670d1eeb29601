//! Every number of the tables in the documents, as data.

use quarry_replay::documents::DOCUMENTS;

/// The fields of each line of the documents' tables that have the columns of mmtests.
pub(crate) fn mmtests() -> impl Iterator<Item = Vec<&'static str>> {
    DOCUMENTS.iter().flat_map(|document| records(document.tables))
}

/// The figures of a document for rows of its experiment: row, kernel, value, and if the document
/// prints no value, the change in percent beside the row's first kernel.
pub(crate) fn by_row(document: &str) -> impl Iterator<Item = Vec<&'static str>> {
    let of = DOCUMENTS.iter().filter(move |it| it.number == document);
    of.flat_map(|document| records(document.rows))
}

/// The fields of each line of a table, without its head.
pub(crate) fn records(csv: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    csv.lines().skip(1).map(|line| line.split(',').collect())
}

/// Document 002: transactions by SLUB and SLAB.
pub(crate) const TCP_RR: &str = include_str!("../../../documents/002/tcp_rr_slub_slab.csv");
/// Document 004: page faults before and after its change of the LRU lists.
pub(crate) const PAGE_FAULT: &str = include_str!("../../../documents/004/page_fault1_lru.csv");
