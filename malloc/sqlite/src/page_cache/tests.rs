//! A cache whose index has no memory for a node when a page gets another key.

use super::*;
use quarry::process::{Mode, ensure_ready};

/// Bytes that SQLite keeps beside a page.
const EXTRA: usize = 200;
/// Limit of the budget in bytes.
const LIMIT: usize = 2 << 20;

fn key_of(page: NonNull<Record>) -> u32 {
    // SAFETY: the page is held.
    unsafe { page.as_ref() }.key
}

/// Fills the budget with held pages, and gives each a key that needs an index node of its own,
/// until there is no memory for nodes. `xRekey` must not fail: SQLite finds each page under its new
/// key until SQLite unpins it, and no page under the old key.
#[test]
fn pages_that_the_index_has_no_room_for_are_found_by_their_new_keys() {
    assert_eq!(ensure_ready(), Mode::Ready);
    quarry::Quarry::set_limit(LIMIT).unwrap();
    let mut cache = PageCache::create(4096, EXTRA, true).expect("there is memory");
    let held: Vec<_> = (1..).map_while(|key| cache.fetch(key, Want::Surely)).collect();
    assert!(held.len() > 100, "{} pages", held.len());
    let new_key = |old: u32| old << 8;
    for page in held.iter().rev() {
        let old = key_of(*page);
        // SAFETY: the page is held.
        unsafe { cache.rekey(*page, new_key(old)) };
    }
    let is_displaced = |page: &NonNull<Record>| {
        // SAFETY: the page is held.
        unsafe { page.as_ref() }.is_displaced
    };
    let displaced = held.iter().filter(|page| is_displaced(page)).count();
    assert!(displaced > 0, "the index had memory for {} nodes", held.len());
    assert_eq!(cache.displaced().count(), displaced);
    for (page, old) in held.iter().zip(1..) {
        assert_eq!(key_of(*page), new_key(old));
        assert_eq!(cache.fetch(new_key(old), Want::IfThere), Some(*page), "key {old}");
        if !held.iter().any(|other| key_of(*other) == old) {
            assert_eq!(cache.fetch(old, Want::IfThere), None, "old key {old}");
        }
    }
    // Once there is memory, a displaced page moves to the index of its next key.
    quarry::Quarry::set_limit(16 * LIMIT).unwrap();
    let page = *held.iter().find(|page| is_displaced(page)).expect("one is displaced");
    let next = new_key(held.len() as u32 + 1);
    // SAFETY: the page is held.
    unsafe { cache.rekey(page, next) };
    assert!(!is_displaced(&page));
    assert_eq!(cache.fetch(next, Want::IfThere), Some(page));
    // The pages from the middle on are removed by a truncation, the others by unpinning.
    let middle = new_key(held.len() as u32 / 2);
    let (kept, gone): (Vec<_>, Vec<_>) = held.iter().partition(|page| key_of(**page) < middle);
    cache.truncate(middle);
    assert!(!gone.is_empty() && cache.displaced().all(|page| key_of(page) < middle));
    let in_place = kept.iter().filter(|page| !is_displaced(page)).count() as u64;
    for page in kept {
        // SAFETY: the page is held, and not used any more.
        unsafe { cache.unpin(page, false) };
    }
    assert_eq!((cache.displaced().count(), cache.pages()), (0, in_place), "displaced ones go");
    drop(cache);
    assert_eq!((cached_pages(), open_caches()), (0, 0));
}
