//! Several threads register, use and remove values. No thread uses a value after its removal, one
//! thread at a time uses a value, and no thread that removes a value sleeps for ever.

use quarry_sys::hooks::{Hooks, InUse};
use quarry_sys::primitive::{AtomicU32, Ordering::SeqCst};
use shuttle::sync::Arc;
use shuttle::thread;

/// The number of threads that use a value now, whether the value was removed, and its uses so far.
#[derive(Default)]
struct Shared {
    users: AtomicU32,
    is_gone: AtomicU32,
    visits: AtomicU32,
}

/// A registered value is the number of its [`Shared`].
type Table = Hooks<usize, 2>;

fn scan(table: &Table, values: &[Shared]) {
    table.for_each(|value| {
        let shared = &values[*value];
        assert_eq!(shared.users.fetch_add(1, SeqCst), 0, "one at a time");
        assert_eq!(shared.is_gone.load(SeqCst), 0, "used after its removal");
        shared.visits.fetch_add(1, SeqCst);
        thread::yield_now();
        assert_eq!(shared.is_gone.load(SeqCst), 0, "removed while it was used");
        shared.users.fetch_sub(1, SeqCst);
    });
}

fn register_scan_and_unregister() {
    let table = Arc::new(Table::new());
    let values: Arc<[Shared; 3]> = Arc::default();
    let first = table.add(0).expect("two places");
    let scanners: Vec<_> = (0..2)
        .map(|_| {
            let (table, values) = (table.clone(), values.clone());
            thread::spawn(move || (0..2).for_each(|_| scan(&table, &*values)))
        })
        .collect();
    let owner = {
        let (table, values) = (table.clone(), values.clone());
        thread::spawn(move || {
            let second = table.add(1).expect("two places");
            assert_eq!(table.remove(second), Ok(()));
            values[1].is_gone.store(1, SeqCst);
            // The place of the removed value takes another value.
            let third = table.add(2).expect("two places");
            assert_eq!(table.remove(third), Ok(()));
            values[2].is_gone.store(1, SeqCst);
        })
    };
    assert_eq!(table.remove(first), Ok(()));
    values[0].is_gone.store(1, SeqCst);
    owner.join().unwrap();
    scanners.into_iter().for_each(|scanner| scanner.join().unwrap());
    assert!(!table.is_any());
    scan(&table, &*values);
}

fn a_user_that_removes_its_own_value_is_told() {
    let table = Arc::new(Table::new());
    let id = table.add(0).expect("two places");
    let scanner = {
        let table = table.clone();
        thread::spawn(move || {
            table.for_each(|_| assert_eq!(table.remove(id), Err(InUse)));
        })
    };
    assert_eq!(table.remove(id), Ok(()));
    scanner.join().unwrap();
}

#[test]
fn hooks_come_and_go_while_they_are_used() {
    crate::explore(2000, register_scan_and_unregister);
    crate::explore(500, a_user_that_removes_its_own_value_is_told);
}
