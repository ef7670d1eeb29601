//! The behaviour of Rust when memory is short, under QUARRY_LIMIT=64M. With the argument `abort`
//! the program makes a request whose failure it does not check.

use std::collections::{HashMap, TryReserveError};

const MIB: usize = 1 << 20;

fn fallible(bytes: usize) -> Result<Vec<u8>, TryReserveError> {
    let mut bytes_of = Vec::new();
    bytes_of.try_reserve_exact(bytes)?;
    bytes_of.resize(bytes, 1);
    Ok(bytes_of)
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("abort") {
        let all: Vec<u64> = vec![1; 128 * MIB];
        println!("{} words", all.len());
    }
    for _ in 0..3 {
        assert!(fallible(100 * MIB).is_err(), "more than the limit");
        let mut pieces = Vec::with_capacity(1000);
        while let Ok(piece) = fallible(MIB) {
            pieces.push(piece);
        }
        assert!(pieces.len() > 32 && pieces.len() <= 64, "{} pieces of 1 MiB", pieces.len());
        assert!(pieces.iter().flatten().all(|byte| *byte == 1));
        // The remaining pieces are still usable, and the next request gets freed memory.
        pieces.truncate(pieces.len() / 2);
        let mut map = HashMap::new();
        map.try_reserve(100_000).expect("half of the limit is free");
        map.extend((0..100_000u64).map(|key| (key, key * 2)));
        assert_eq!(map[&777], 1554);
    }
    println!("done");
}
