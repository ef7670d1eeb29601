//! Pages without memory, on a fake system. The tests of other eras' policies include this file too,
//! so it uses only items of its parent module.

use super::*;

pub(super) fn fake_os() -> &'static FakeOs {
    Box::leak(Box::new(FakeOs::new(4096)))
}

/// A table of `pages` free descriptors, whose nodes alternate.
pub(super) fn table(pages: u32, nodes: u8) -> DescriptorTable {
    assert!(usize::from(nodes) <= MAX_NODES);
    let table = DescriptorTable::reserve(fake_os(), pages as usize).expect("the fake OS serves");
    table.grow(pages as usize).expect("the fake OS serves");
    for page in 0..pages {
        table.at(PageNo(page)).node.store((page % u32::from(nodes)) as u8, Relaxed);
    }
    table
}

/// Sets a descriptor up for a page that is in an index and has one pin, the caller's.
pub(super) fn begin(table: &DescriptorTable, page: PageNo) {
    let state = &table.at(page).state;
    assert_eq!(state.load(), State(0), "a descriptor names one page at a time");
    state.begin(State(State::LIVE | State::UPTODATE | 1));
}

/// Frees a page that the caller owns.
pub(super) fn free(table: &DescriptorTable, page: PageNo) {
    let state = table.at(page).state.load();
    assert!(!state.has(State::LRU) && !state.has(State::LIVE) && state.pins() == 0);
    table.at(page).state.begin(State(0));
}
