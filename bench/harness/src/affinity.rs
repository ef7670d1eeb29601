//! The CPUs that a sample runs on.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::fs;

const THIS_THREAD: Pid = Pid::from_raw(0);

/// CPUs that this process may run on, in ascending order.
pub fn allowed() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(THIS_THREAD) else { return vec![0] };
    (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu) == Ok(true)).collect()
}

/// Binds the calling thread, and threads that it starts later, to one CPU.
pub fn pin(cpu: usize) -> nix::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    sched_setaffinity(THIS_THREAD, &set)
}

/// Up to `count` CPUs of `allowed`, on different cores if possible. CPUs with high numbers come
/// first, because interrupts favour CPU 0.
pub fn choose(allowed: &[usize], count: usize) -> Vec<usize> {
    spread(allowed, count, siblings)
}

fn spread(allowed: &[usize], count: usize, siblings: impl Fn(usize) -> Vec<usize>) -> Vec<usize> {
    let mut chosen: Vec<usize> = allowed.iter().rev().copied().collect();
    // First the last CPU of each core, then its other CPUs.
    chosen.sort_by_key(|&cpu| siblings(cpu).iter().any(|it| *it > cpu && allowed.contains(it)));
    chosen.truncate(count);
    chosen
}

fn siblings(cpu: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    parse_list(&fs::read_to_string(path).unwrap_or_default())
}

/// Numbers of a kernel list such as `0-3,8`.
pub fn parse_list(text: &str) -> Vec<usize> {
    let mut cpus = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            cpus.extend(first..=last);
        }
    }
    cpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_kernel_lists() {
        assert_eq!(parse_list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(parse_list("5"), [5]);
        assert_eq!(parse_list("0-3,8,10-11").len(), 7);
        for none in ["", "x-y", "5-2"] {
            assert!(parse_list(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn different_cores_first_then_their_siblings() {
        let pairs = |cpu: usize| vec![cpu & !1, cpu | 1];
        assert_eq!(spread(&[0, 1, 2, 3], 2, pairs), [3, 1]);
        assert_eq!(spread(&[0, 1, 2, 3], 4, pairs), [3, 1, 2, 0]);
        assert_eq!(spread(&[0], 2, pairs), [0]);
        assert_eq!(spread(&[0, 1], 2, |_| Vec::new()), [1, 0]);
    }

    #[test]
    fn a_pinned_thread_may_run_on_its_cpu_only() {
        let cpu = *allowed().last().unwrap();
        std::thread::spawn(move || {
            pin(cpu).unwrap();
            assert_eq!(allowed(), [cpu]);
        })
        .join()
        .unwrap();
        assert!(pin(1 << 20).is_err());
    }
}
