//! The records of a statistics page.

use crate::head::Head;
use crate::{PAGE_BYTES, RECORD_BYTES};

/// The bytes of each record in a page.
pub fn records(page: &[u8]) -> impl Iterator<Item = &[u8]> {
    page[..page.len().min(PAGE_BYTES)].chunks_exact(RECORD_BYTES)
}

/// The number of the record of the process that began at `began_ns` (`CLOCK_MONOTONIC`): the
/// record's owner has this `pid` (`getpid()` in the process), and claimed the record since then.
///
/// Of several such records, the first one claimed is this process's. An earlier process with this
/// pid claimed its record before this process began. Another process with this pid, in another pid
/// namespace, shares the page only as a descendant of this one, and so claimed its record later.
#[must_use]
pub fn record_of(page: &[u8], pid: u32, began_ns: u64) -> Option<usize> {
    let claim = |record: &[u8]| {
        let head = Head::parse(record).ok()?;
        let is_its = head.owner().pid == pid && pid != 0 && head.claimed_ns >= began_ns;
        is_its.then_some(head.claimed_ns)
    };
    let claims = records(page).enumerate().filter_map(|(at, record)| Some((claim(record)?, at)));
    claims.min().map(|(_, at)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MAGIC, Owner, RECORD_WORDS, RECORDS, VERSION};
    extern crate std;
    use std::vec;

    #[test]
    fn a_process_has_the_first_record_claimed_since_it_began() {
        let mut page = vec![0; PAGE_BYTES];
        let mut claim = |at: usize, pid, claimed_ns: u64| {
            let words = [
                MAGIC,
                u64::from(VERSION) | (RECORD_WORDS as u64) << 32,
                Owner { generation: 1, pid }.to_word(),
                0,
                claimed_ns,
            ];
            for (word, bytes) in words.iter().zip(page[at * RECORD_BYTES..].chunks_exact_mut(8)) {
                bytes.copy_from_slice(&word.to_ne_bytes());
            }
        };
        claim(0, 1, 100);
        claim(1, 9, 150);
        claim(2, 1, 300);
        claim(3, 9, 400);
        assert_eq!(records(&page).count(), RECORDS);
        assert_eq!(record_of(&page, 1, 90), Some(0));
        assert_eq!(record_of(&page, 1, 200), Some(2), "a descendant in another namespace");
        assert_eq!(record_of(&page, 9, 200), Some(3), "the number was used before");
        assert_eq!(record_of(&page, 9, 500), None);
        assert_eq!(record_of(&page, 0, 0), None, "a free record has no owner");
        assert_eq!(record_of(&page[..100], 1, 0), None);
    }
}
