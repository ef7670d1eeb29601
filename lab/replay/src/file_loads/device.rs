//! The device of a file system: its bytes follow from where they lie, and each request takes a
//! stated time.

use crate::host;
use serde::Deserialize;

/// Bytes of a page.
pub(crate) const PAGE_BYTES: usize = 4096;

/// The time of a device for a request, in nanoseconds. The CPU waits, as with a memory that is
/// slow, so that a load takes the same time wherever it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Device {
    /// For a request, however long.
    pub request_ns: u64,
    /// For each page of it.
    pub page_ns: u64,
}

impl Device {
    /// Waits for as long as a request of so many pages takes.
    pub(crate) fn wait(self, pages: u64) {
        if pages == 0 {
            return;
        }
        host::wait(self.request_ns + pages * self.page_ns);
    }
}

/// The bytes at either end of page `index` of inode `inode`: they say where it lies.
fn mark(inode: u64, index: u64) -> [u8; 16] {
    let mut mark = [0; 16];
    mark[..8].copy_from_slice(&inode.to_le_bytes());
    mark[8..].copy_from_slice(&(!index).to_le_bytes());
    mark
}

/// Writes a page's bytes: all of it for a file that is written, but only its ends say where it is.
pub(crate) fn fill(inode: u64, index: u64, page: &mut [u8]) {
    page.fill(0x51);
    let mark = mark(inode, index);
    page[..16].copy_from_slice(&mark);
    page[PAGE_BYTES - 16..].copy_from_slice(&mark);
}

/// Returns whether a page is the one that was written there.
pub(crate) fn is_intact(inode: u64, index: u64, page: &[u8]) -> bool {
    let mark = mark(inode, index);
    page[..16] == mark && page[PAGE_BYTES - 16..] == mark && page[PAGE_BYTES / 2] == 0x51
}

/// Returns whether a page reads as a hole.
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
