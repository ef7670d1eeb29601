//! A Rust program that contains Quarry publishes its statistics too.

use quarry_record::{PAGE_BYTES, RECORD_BYTES, Snapshot, record_of};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

#[global_allocator]
static QUARRY: quarry::Quarry = quarry::Quarry;

#[test]
fn a_rust_program_has_a_page() {
    let is_page = |path: &Path| {
        fs::read_link(path).is_ok_and(|to| to == Path::new("/memfd:quarry-record (deleted)"))
    };
    let mut copy = vec![0; PAGE_BYTES];
    loop {
        // A mapping, because smaller requests of a process with one thread take no slow path.
        drop(Vec::<u8>::with_capacity(4 << 20));
        let entries = fs::read_dir("/proc/self/fd").expect("/proc is mounted").flatten();
        let pages: Vec<_> = entries.map(|entry| entry.path()).filter(|it| is_page(it)).collect();
        let [page] = &pages[..] else { panic!("one page: {pages:?}") };
        let file = File::open(page).expect("it is ours");
        file.read_exact_at(&mut copy, 0).expect("it has its full size");
        let Some(record) = record_of(&copy, std::process::id(), 0) else { continue };
        let Ok(snapshot) = Snapshot::parse(&copy[record * RECORD_BYTES..]) else { continue };
        // The request for the first mapping may publish first, before that mapping is counted.
        let Some(1..) = snapshot.event("block_allocs") else { continue };
        assert_eq!(snapshot.about().slab.as_str(), "sheaf");
        return;
    }
}
