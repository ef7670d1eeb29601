//! Finds the bytes that make the process of each page cache as large as Quarry's.
//!
//! Page caches count their bytes differently: SQLite counts pages and leaves out other memory that
//! it keeps for them; Quarry counts every page that it takes from the system. So each cache runs up
//! to `TRIALS` times on trial. After a run its bytes change by the difference of the two peaks.

use super::load::{LoadProgram, QUARRY};
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::Path;

const TRIALS: u32 = 3;
/// Peaks that differ by at most this part of Quarry's count as equal.
const EQUAL: f64 = 0.01;
/// The page cache whose size the budget does not change.
pub(super) const UNBOUNDED: &str = "default";

/// Finds how many bytes to give each of `caches`, so that the peak of its process is the same as
/// Quarry's with `budget`. The trials fill the caches by short look-ups with `options`.
pub(super) fn budgets(
    program: &LoadProgram,
    caches: &[&str],
    folder: &Path,
    budget: u64,
    options: &[String],
) -> Result<BTreeMap<String, u64>> {
    let peak = |cache: &str, bytes| -> Result<u64> {
        let measurement = program.lookups(cache, folder, bytes, options)?;
        Ok(measurement.counters.get("peak_rss").copied().unwrap_or(0))
    };
    let aim = peak(QUARRY, budget)?;
    let mut all = BTreeMap::new();
    for &cache in caches {
        let mut bytes = budget;
        for _ in 0..TRIALS {
            if [QUARRY, UNBOUNDED].contains(&cache) {
                break;
            }
            let found = peak(cache, bytes)?;
            if found.abs_diff(aim) as f64 <= EQUAL * aim as f64 {
                break;
            }
            bytes = corrected(bytes, found, aim);
        }
        all.insert(cache.to_owned(), bytes);
    }
    Ok(all)
}

/// Bytes that move the peak from `found` to `aim` if other memory stays equal; `bytes / 4` or more.
fn corrected(bytes: u64, found: u64, aim: u64) -> u64 {
    let least = bytes / 4;
    if found > aim { bytes.saturating_sub(found - aim).max(least) } else { bytes + (aim - found) }
}

#[cfg(test)]
mod tests {
    use super::corrected;

    #[test]
    fn what_is_beyond_the_aim_is_taken_away() {
        assert_eq!(corrected(100, 130, 120), 90);
        assert_eq!(corrected(100, 110, 120), 110);
        assert_eq!(corrected(100, 500, 120), 25, "something is always left");
    }
}
