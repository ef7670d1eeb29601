//! The device of a file system. The bytes of a page follow from its inode and index, and each
//! request takes the time that [`Device`] states.

use crate::host;
use serde::Deserialize;

pub(crate) const PAGE_BYTES: usize = 4096;

/// The time that a device takes for a request, in nanoseconds. The CPU spins for it, as if its
/// memory were slow, so that a workload takes the same time on every machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Device {
    /// Time of each request, independent of its length.
    pub request_ns: u64,
    /// Time of each page of a request.
    pub page_ns: u64,
}

impl Device {
    /// Waits for as long as a request of this many pages takes.
    pub(crate) fn wait(self, pages: u64) {
        if pages == 0 {
            return;
        }
        host::wait(self.request_ns + pages * self.page_ns);
    }
}

/// The bytes at both ends of page `index` of inode `inode`. They encode the two numbers.
fn mark(inode: u64, index: u64) -> [u8; 16] {
    let mut mark = [0; 16];
    mark[..8].copy_from_slice(&inode.to_le_bytes());
    mark[8..].copy_from_slice(&(!index).to_le_bytes());
    mark
}

/// Writes a page's bytes: the marks at both ends, and the same filler in all pages between them.
pub(crate) fn fill(inode: u64, index: u64, page: &mut [u8]) {
    page.fill(0x51);
    let mark = mark(inode, index);
    page[..16].copy_from_slice(&mark);
    page[PAGE_BYTES - 16..].copy_from_slice(&mark);
}

/// Returns whether a page has the marks of this inode and index.
pub(crate) fn is_intact(inode: u64, index: u64, page: &[u8]) -> bool {
    let mark = mark(inode, index);
    page[..16] == mark && page[PAGE_BYTES - 16..] == mark && page[PAGE_BYTES / 2] == 0x51
}

/// Returns whether a page reads as a hole does.
pub(crate) fn is_hole(page: &[u8]) -> bool {
    page[..16] == [0; 16] && page[PAGE_BYTES - 16..] == [0; 16]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_say_where_they_lie() {
        let mut page = vec![0; PAGE_BYTES];
        assert!(is_hole(&page) && !is_intact(0, 0, &page));
        fill(7, 3, &mut page);
        assert!(is_intact(7, 3, &page) && !is_hole(&page));
        assert!(!is_intact(7, 2, &page) && !is_intact(6, 3, &page));
        page[PAGE_BYTES - 1] ^= 1;
        assert!(!is_intact(7, 3, &page));
    }
}
