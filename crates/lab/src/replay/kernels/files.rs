//! fsmark with empty files (document 000).

use super::super::memory::Pages;
use super::super::path::{Path, Piece, Role, Source, Work, alloc, free};
use super::super::solo::{Space, Timed};
use super::{Cast, Scenario};

/// The cost of creating a file beside the allocator, as bytes copied. The document gives no figure
/// to derive it from; a journaling filesystem spends more than this, so the allocator's share is
/// over- and not understated.
const FILE_WORK: usize = 8192;
/// Directory entries that a block holds.
const ENTRIES: u32 = 100;

/// Each task creates `files` empty files: an inode (about 1 KiB), a dentry (192 bytes), and now and
/// then a block of a directory, which lies in the page cache. Nothing is freed until the round is
/// over; then reclaim takes everything back, which is not measured.
pub(crate) fn fsmark(files: u32) -> Scenario {
    let inode = Source::Cache { name: "inode_cache", bytes: 1024 };
    let inode = Piece::new("inode", inode).cleared(1024);
    let dentry = Piece::new("dentry", Source::Cache { name: "dentry", bytes: 192 }).cleared(192);
    let block = Source::Pages(Pages { order: 0, movable: true });
    let block = Piece::new("block", block).cleared(4096);
    let path = Path {
        steps: vec![
            alloc(dentry, Role::Sender, 1),
            alloc(inode, Role::Sender, 1),
            alloc(block, Role::Sender, ENTRIES),
            free(dentry, Role::Receiver, 1),
            free(inode, Role::Receiver, 1),
            free(block, Role::Receiver, ENTRIES),
        ],
        carrier: Some(inode),
        payload: 16,
        work: Work { sender: FILE_WORK, receiver: 0 },
    };
    let cast = Cast::Solo { round: files, timed: Timed::First, space: Space::None };
    Scenario { path, cast }
}

#[cfg(test)]
mod tests {
    use super::super::tests::run_briefly;
    use super::*;

    #[test]
    fn creation_frees_nothing() {
        let replayed = run_briefly(&fsmark(200), 2);
        assert_eq!(replayed.sent % 400, 0);
        assert_eq!(replayed.counters.zone_frees, 0);
        assert_eq!(replayed.counters.zone_allocs * 100, replayed.sent * 201);
    }
}
