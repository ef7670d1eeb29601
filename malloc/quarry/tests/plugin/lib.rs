//! A shared object whose global allocator is Quarry. However often a program opens and closes it,
//! it stays loaded, with its heap, once it was opened.

use std::collections::BTreeMap;
use std::sync::Mutex;

#[global_allocator]
static A: quarry::Quarry = quarry::Quarry;

static CALLS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Fills a table, drops it, and returns how often it has done so.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_work(entries: usize) -> usize {
    let table: BTreeMap<usize, Vec<u8>> =
        (0..entries).map(|number| (number, vec![number as u8; number % 3000 + 1])).collect();
    let is_whole = table.iter().all(|(number, bytes)| bytes.last() == Some(&(*number as u8)));
    let is_served = std::env::var_os("TEST_SERVED").is_none_or(|served| served != "0");
    assert!(is_whole && quarry::Quarry::owns(table[&0].as_ptr()) == is_served);
    drop(table);
    let mut calls = CALLS.lock().expect("nobody panics under it");
    let this = calls.len() + 1;
    calls.push(format!("call {this}"));
    this
}
