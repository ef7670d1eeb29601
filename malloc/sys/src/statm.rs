//! The memory of this process, from `/proc/self/statm`.

use crate::confined::is_confined;
use crate::file::find_piece;
use crate::os::{Linux, Os};

/// Returns the bytes in memory that no file backs: heap, stacks, private mappings. `None` in a
/// confined process, or without `/proc`. On Linux 6.2 to 6.16 with many CPUs: inexact by some MiB.
#[must_use]
pub fn anonymous_bytes() -> Option<u64> {
    if is_confined() {
        return None;
    }
    let pages = find_piece(c"/proc/self/statm", b'\n', |line| {
        let mut fields = core::str::from_utf8(line).ok()?.split(' ').skip(1);
        let (resident, shared) = (fields.next()?, fields.next()?);
        Some(resident.parse::<u64>().ok()?.saturating_sub(shared.parse().ok()?))
    })?;
    Some(pages * Linux.page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_what_is_touched() {
        let before = anonymous_bytes().expect("/proc is mounted");
        let touched = std::hint::black_box(vec![1u8; 64 << 20]);
        let after = anonymous_bytes().expect("/proc is mounted");
        assert!(after >= before + (32 << 20), "{before} bytes, then {after}");
        drop(touched);
    }
}
