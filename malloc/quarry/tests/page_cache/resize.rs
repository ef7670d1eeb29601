//! Limits that change, the memory beside them, and values that no budget accepts.

use crate::alone::alone;
use crate::store::PAGE;
use quarry::{Backing, Budget, Error, OsError, PageCache, Quarry, ReadOnly};
use std::alloc::{GlobalAlloc, Layout};
use std::time::Duration;

const MIB: usize = 1 << 20;

/// A backing of zeroes, without memory of its own.
struct Zeroes;

impl Backing for Zeroes {
    type Access = ReadOnly;

    fn size(&self) -> u64 {
        200 * MIB as u64
    }

    fn read(&self, _: u64, bytes: &mut [u8]) -> Result<usize, OsError> {
        bytes.fill(0);
        Ok(bytes.len())
    }
}

#[test]
fn a_lower_limit_gives_memory_back_and_says_what_is_beside_it() {
    alone("resize::lower", &[]);
}

#[test]
#[ignore = "needs a limit of its own"]
fn lower() {
    let mapping = PageCache::open(Zeroes).unwrap();
    for index in 0..(200 * MIB / PAGE) as u64 {
        drop(mapping.read(index).unwrap());
    }
    let resize = Quarry::set_limit(8 * MIB).unwrap();
    let progress = resize.wait(Duration::from_secs(60));
    assert!(progress.is_done() && progress.target == 8 * MIB, "{progress:?}");
    assert!(progress.beside < 100 * MIB, "200 MiB went back: {progress:?}");
    let other = vec![1u8; 64 * MIB];
    let stats = Budget::get().unwrap().stats();
    assert!(stats.unaccounted >= 60 * MIB, "the C library has served it: {stats:?}");
    let same = Quarry::stats().unwrap().budget;
    assert!(same.unaccounted >= 60 * MIB && same.beside >= 60 * MIB, "{same:?}");
    assert!(resize.progress().beside >= progress.beside + 60 * MIB);
    assert_eq!(Quarry::resize(), Ok(resize));
    drop(other);
    let lifted = Quarry::set_limit(usize::MAX).unwrap();
    assert_eq!(lifted.progress().target, usize::MAX, "no limit");
}

#[test]
fn what_is_not_accepted_is_returned_and_changes_nothing() {
    alone("resize::refused", &[("QUARRY_LIMIT", "64M")]);
}

#[test]
#[ignore = "needs a limit of its own"]
fn refused() {
    let budget = Budget::get().unwrap();
    let marks = || {
        let stats = budget.stats();
        (stats.min, stats.low, stats.high)
    };
    let before = marks();
    for (min, scale) in [(None, 0), (None, 3001), (Some(65 * MIB), 10), (Some(usize::MAX), 10)] {
        let refused = budget.set_marks(min, scale).unwrap_err();
        let value = if scale == 10 { min.unwrap() } else { scale as usize };
        assert!(matches!(refused, Error::NotAccepted { value: it, .. } if it == value));
        assert!(refused.to_string().ends_with(&format!("and not {value}")), "{refused}");
    }
    for (background, hard) in [(10, 101), (30, 20)] {
        let refused = PageCache::set_dirty_ratios(background, hard).unwrap_err();
        assert!(matches!(refused, Error::NotAccepted { least: 0, .. }));
    }
    for bytes in [0, 1, 4095] {
        let refused =
            Error::NotAccepted { name: "the limit", value: bytes, least: 4096, most: usize::MAX };
        assert_eq!(Quarry::set_limit(bytes), Err(refused));
    }
    assert_eq!((marks(), budget.limit()), (before, Some(64 * MIB)));
    budget.set_marks(Some(MIB), 100).unwrap();
    assert!(marks() != before && marks().0 == MIB);
    budget.set_marks(Some(64 * MIB), 10).unwrap();
    let (min, low, high) = marks();
    assert!(min < low && low < high && high == 16 * MIB, "a quarter: {min}, {low}, {high}");
}

#[test]
fn reserving_much_memory_leaves_none() {
    alone("resize::reserved", &[]);
}

#[test]
#[ignore = "needs a process without other memory"]
fn reserved() {
    let layout = Layout::from_size_align(1 << 30, 16).unwrap();
    let resident = || {
        let fields = std::fs::read_to_string("/proc/self/statm").unwrap();
        let fields: Vec<usize> = fields.split_whitespace().flat_map(str::parse).collect();
        (fields[1] - fields[2]) * PAGE
    };
    let reserve = |count: usize| {
        // SAFETY: the layout is not empty; each address is freed once, with its layout.
        let reserved: Vec<_> = (0..count).map(|_| unsafe { Quarry.alloc(layout) }).collect();
        assert!(reserved.iter().all(|address| !address.is_null()));
        for address in reserved {
            // SAFETY: as above.
            unsafe { Quarry.dealloc(address, layout) };
        }
    };
    reserve(1);
    let before = resident();
    reserve(20);
    let left = resident().saturating_sub(before);
    assert!(left < 1 << 20, "{left} bytes stay of 20 GiB that nobody has touched");
}
