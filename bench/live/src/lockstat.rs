//! The layout of `/proc/lock_stat`, version 0.4 (Linux 6.12, `kernel/locking/lockdep_proc.c`).

use crate::snapshot::{Lock, Snapshot};
use std::fmt::Write;

const COLUMNS: [&str; 12] = [
    "con-bounces",
    "contentions",
    "waittime-min",
    "waittime-max",
    "waittime-total",
    "waittime-avg",
    "acq-bounces",
    "acquisitions",
    "holdtime-min",
    "holdtime-max",
    "holdtime-total",
    "holdtime-avg",
];
const NAME_WIDTH: usize = 40;
const COLUMN_WIDTH: usize = 14;

/// The text of `/proc/lock_stat`, contended locks first. Quarry keeps sums, so bounces, minima and
/// maxima are 0. It times only some holds: `holdtime-total` is the mean of the timed ones,
/// multiplied by the number of acquisitions. O(locks).
#[must_use]
pub fn text(snapshot: &Snapshot) -> String {
    let dashes = "-".repeat(NAME_WIDTH + 1 + COLUMNS.len() * (COLUMN_WIDTH + 1));
    let mut text = format!("lock_stat version 0.4\n{dashes}\n{:>NAME_WIDTH$} ", "class name");
    for column in COLUMNS {
        let _ = write!(text, " {column:>COLUMN_WIDTH$}");
    }
    let _ = write!(text, "\n{dashes}\n\n");
    let mut locks: Vec<&Lock> = snapshot.locks.iter().filter(|it| it.acquisitions > 0).collect();
    locks.sort_by_key(|lock| std::cmp::Reverse(lock.contentions));
    for lock in locks {
        let name = format!("{}:", lock.name);
        let _ = write!(text, "{name:>width$}", width = NAME_WIDTH + 1);
        for column in columns(lock) {
            let _ = write!(text, " {column:>COLUMN_WIDTH$}");
        }
        text.push('\n');
    }
    text
}

fn columns(lock: &Lock) -> [String; COLUMNS.len()] {
    let held = u128::from(lock.hold_ns) * u128::from(lock.acquisitions)
        / u128::from(lock.hold_samples.max(1));
    let held = u64::try_from(held).unwrap_or(u64::MAX);
    let none = || microseconds(0);
    [
        "0".to_owned(),
        lock.contentions.to_string(),
        none(),
        none(),
        microseconds(lock.wait_ns),
        microseconds(lock.wait_ns / lock.contentions.max(1)),
        "0".to_owned(),
        lock.acquisitions.to_string(),
        none(),
        none(),
        microseconds(held),
        microseconds(lock.hold_ns / lock.hold_samples.max(1)),
    ]
}

/// Nanoseconds as microseconds with two decimals, rounded.
fn microseconds(nanoseconds: u64) -> String {
    let hundredths = nanoseconds.saturating_add(5) / 10;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_kernels() {
        let lock = |name: &str, contentions| Lock {
            name: name.into(),
            locks: 1,
            acquisitions: 2000,
            contentions,
            wait_ns: 12_345,
            hold_samples: 10,
            hold_ns: 2_500,
        };
        let unused = Lock { name: "unused".into(), ..Lock::default() };
        let locks = vec![lock("pcp", 0), unused, lock("zone", 4)];
        let text = text(&Snapshot { locks, ..Snapshot::default() });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "lock_stat version 0.4");
        assert_eq!(lines[1].len(), 40 + 1 + 12 * (14 + 1));
        assert!(
            lines[2].starts_with(&format!("{:>40}     con-bounces    contentions", "class name"))
        );
        assert_eq!(lines[3], lines[1]);
        let words: Vec<&str> = lines[5].split_whitespace().collect();
        let expected = ["zone:", "0", "4", "0.00", "0.00", "12.35", "3.09", "0", "2000", "0.00"];
        assert_eq!(words[..10], expected);
        assert_eq!(words[10..], ["0.00", "500.00", "0.25"]);
        assert!(lines[6].trim_start().starts_with("pcp:"), "the contended ones come first");
        assert_eq!(lines.len(), 7);
        assert_eq!(lines[2].len(), lines[5].len());
    }
}
