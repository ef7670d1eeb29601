//! The resident memory of the process.

use std::fs;

#[derive(Clone, Copy)]
pub(crate) struct Resident {
    pub(crate) now: u64,
    pub(crate) peak: u64,
}

pub(crate) fn resident() -> Resident {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) << 10
    };
    Resident { now: field("VmRSS:"), peak: field("VmHWM:") }
}
