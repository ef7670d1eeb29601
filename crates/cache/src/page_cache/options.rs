//! The choices of a page cache.

/// The steps by which pages leave a mapping, as document 001 compares them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TruncationPolicy {
    /// Linux 4.14: the index is entered once per page, and each page is freed separately.
    Vanilla,
    /// Jan Kara's series (4.15): the index is entered once for 14 pages.
    Jan,
    /// As `Jan`, but one critical section frees a list of pages (commit 9cca35d42eb6, Linux 4.15).
    OneIrq,
    /// As `OneIrq`, but the add batches are drained once per release, shadow entries are cleared in
    /// batches, and there is no cold hint (the rest of Mel Gorman's series, Linux 4.15).
    #[default]
    Mel,
}

impl TruncationPolicy {
    /// All policies from oldest to newest, by the names that options and tables print.
    pub const ALL: [(&'static str, Self); 4] = [
        ("vanilla", Self::Vanilla),
        ("jan", Self::Jan),
        ("oneirq", Self::OneIrq),
        ("mel", Self::Mel),
    ];
}

/// Options of a page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCacheOptions {
    /// The steps by which pages leave a mapping.
    pub truncation: TruncationPolicy,
    /// Freed pages go to the cold end of the per-CPU lists (Linux up to 4.14).
    pub cold_hint: bool,
}
