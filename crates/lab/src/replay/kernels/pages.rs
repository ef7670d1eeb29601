//! Single pages in large numbers: page faults of programs (document 004) and lists of pages of
//! files that are truncated (document 001).

use super::super::memory::Pages;
use super::super::path::{Path, Piece, Role, Source, Work, alloc, free_list};
use super::super::solo::{Space, Timed};
use super::{Cast, Scenario};

/// A page of a program or of the page cache.
const MOVABLE: Source = Source::Pages(Pages { order: 0, movable: true });

/// The cost of a fault beside the page allocator and clearing the page, as bytes copied. Document
/// 004 has a rate and no profile: 1,417 ns for a fault of a single task, all in all. Clearing 4 KiB
/// was 100 to 200 ns of it on such a machine; what is left, without the allocator, is taken as what
/// three copies of 4 KiB cost. LRU lists are part of it, not modelled.
const FAULT_WORK: usize = 3 * 4096;
/// Faults that one page of a page table serves.
const TABLE: u32 = 512;
/// Pages that `munmap` gathers before it frees them.
const GATHER: u32 = 510;

/// Each task maps memory, touches `faults` pages of it one after the other, and unmaps it, again
/// and again. Every fault takes the address space's lock shared, mapping and unmapping take it
/// exclusively; `space` says whose it is.
pub(crate) fn page_fault(faults: u32, space: Space) -> Scenario {
    let page = Piece::new("page", MOVABLE).cleared(4096);
    let table = Piece::new("page table", Source::pages(0)).cleared(4096);
    let path = Path {
        steps: vec![
            alloc(table, Role::Sender, TABLE),
            alloc(page, Role::Sender, 1),
            free_list(page, Role::Receiver, GATHER),
            free_list(table, Role::Receiver, GATHER * TABLE),
        ],
        carrier: None,
        payload: 0,
        work: Work { sender: FAULT_WORK, receiver: 0 },
    };
    Scenario { path, cast: Cast::Solo { round: faults, timed: Timed::Both, space } }
}

/// Pages of a file that is truncated: 4 MiB in document 001.
pub(crate) const FILE_PAGES: u32 = 1024;

/// Each task takes `files` files' worth of single pages and frees them in lists of `length`. Only
/// the freeing is measured, and the pages are not touched: there is no other work, so the share of
/// the page allocator is all of it.
pub(crate) fn list_free(length: u32, files: u32) -> Scenario {
    let page = Piece::new("page", MOVABLE);
    let path = Path {
        steps: vec![alloc(page, Role::Sender, 1), free_list(page, Role::Receiver, length)],
        carrier: None,
        payload: 0,
        work: Work::default(),
    };
    let round = files * FILE_PAGES;
    Scenario { path, cast: Cast::Solo { round, timed: Timed::Second, space: Space::None } }
}

#[cfg(test)]
mod tests {
    use super::super::tests::run_briefly;
    use super::*;

    #[test]
    fn faults_take_pages_and_tables() {
        let replayed = run_briefly(&page_fault(1024, Space::Shared), 2);
        assert_eq!(replayed.counters.zone_allocs * 1024, replayed.sent * (1024 + 2));
        // 510, 510 and 4 pages, and both tables at once.
        assert_eq!(replayed.counters.page_sections * 1024, replayed.sent * 4);
    }

    #[test]
    fn lists_have_the_length_asked_for() {
        for length in [1, 64, 512] {
            let replayed = run_briefly(&list_free(length, 2), 1);
            assert_eq!(replayed.counters.zone_allocs, 0, "taking pages is not measured");
            assert_eq!(replayed.counters.page_sections * u64::from(length), replayed.sent);
        }
    }
}
