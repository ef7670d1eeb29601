//! A process that is killed while the background thread writes its dirty pages to a file.
//!
//! Quarry passes whole pages to the kernel, by `pwritev` of neighbours, and no task changes their
//! bytes until the call returns. The kernel copies page by page into its own cache, and checks only
//! between two pages whether the process is to die (`generic_perform_write`, `mm/filemap.c`, Linux
//! 6.6). So afterwards each page of the file is as it was before or after one of its writes. It is
//! not defined which pages are new: the background thread writes in its own order. All this does
//! not hold if the machine loses power: then a page may be torn or lost until a `sync` has
//! returned.

use crate::alone::started;
use quarry::{FileBacking, PageCache};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

const PAGE: usize = 4096;
/// Pages of the file (16 MiB); the background thread writes if 1 % of the limit is dirty.
const PAGES: u64 = 4096;
const FILE: &str = "KILLED_TEST_FILE";

/// A page as one write leaves it: its index, the number of the change, bytes computed from both,
/// and their sum.
fn version_of(index: u64, change: u64) -> Vec<u8> {
    let mut words = vec![index, change];
    let mut word = index << 32 ^ change;
    while words.len() < PAGE / 8 - 1 {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        words.push(word);
    }
    words.push(sum(&words));
    words.into_iter().flat_map(u64::to_le_bytes).collect()
}

fn sum(words: &[u64]) -> u64 {
    words.iter().fold(0, |sum: u64, word| sum.rotate_left(7) ^ word.wrapping_mul(0x9e37_79b9))
}

/// The number of the change that has written a page of the file; or why the page is not whole.
fn read_change(index: u64, bytes: &[u8]) -> Result<u64, String> {
    let words: Vec<u64> =
        bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    let (last, front) = words.split_last().unwrap();
    if *last != sum(front) {
        return Err(format!("page {index} is torn"));
    }
    if bytes != version_of(index, words[1]) {
        return Err(format!("page {index} is another one"));
    }
    Ok(words[1])
}

fn change_of(index: u64, bytes: &[u8]) -> u64 {
    read_change(index, bytes).unwrap()
}

#[test]
fn a_torn_page_is_seen() {
    let torn = [&version_of(3, 1)[..PAGE / 2], &version_of(3, 2)[PAGE / 2..]].concat();
    assert_eq!(read_change(3, &torn), Err("page 3 is torn".to_owned()));
    assert_eq!(read_change(4, &version_of(3, 1)), Err("page 4 is another one".to_owned()));
    assert_eq!(read_change(3, &version_of(3, 1)), Ok(1));
}

/// Number of pages of the file that were written.
fn changed(path: &Path) -> usize {
    let bytes = std::fs::read(path).unwrap();
    bytes.chunks_exact(PAGE).filter(|page| page[8..16] != [0; 8]).count()
}

#[test]
fn a_killed_process_leaves_whole_pages() {
    let path = std::env::temp_dir().join(format!("quarry-killed-{}", std::process::id()));
    // A new file each time, so that the pages of an earlier process do not count.
    for kill_after in [1, 200, 3_000] {
        std::fs::write(
            &path,
            (0..PAGES).flat_map(|index| version_of(index, 0)).collect::<Vec<_>>(),
        )
        .unwrap();
        let variables = [("QUARRY_LIMIT", "64M"), (FILE, path.to_str().unwrap())];
        let mut writer = started("killed::changes_pages_for_ever", &variables);
        // A page that is being written may be read half new, so this reads one word of each.
        while changed(&path) < kill_after {
            assert_eq!(writer.try_wait().unwrap(), None, "it goes on until it is killed");
        }
        writer.kill().unwrap();
        assert_eq!(writer.wait().unwrap().signal(), Some(libc::SIGKILL), "in the middle");
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len(), PAGES as usize * PAGE, "as long as it was");
        let pages = (0..PAGES).zip(bytes.chunks_exact(PAGE));
        let new = pages.filter(|(index, page)| change_of(*index, page) > 0).count();
        assert!(new >= kill_after, "{new} pages: the background has written");
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
#[ignore = "goes on until it is killed"]
fn changes_pages_for_ever() {
    let path = std::env::var(FILE).unwrap();
    PageCache::set_dirty_ratios(1, 100).unwrap();
    let mapping = PageCache::open(FileBacking::open_writable(&path).unwrap()).unwrap();
    for change in 1.. {
        for index in 0..PAGES {
            let mut page = mapping.read(index).unwrap().latch_exclusive();
            page.copy_from_slice(&version_of(index, change));
        }
    }
}
