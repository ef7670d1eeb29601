//! Memory of processes and of the machine, in bytes, as `/proc` has it.

use std::fs;

/// Resident memory of a process; `None` where it is gone.
#[must_use]
pub fn resident(pid: u32) -> Option<u64> {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    Some(statm.split(' ').nth(1)?.parse::<u64>().ok()? * page_size())
}

/// Most that a process had resident since its exec. The kernel's record of children and
/// `getrusage` would not do: their maximum survives exec.
#[must_use]
pub fn peak(pid: u32) -> Option<u64> {
    field(&format!("/proc/{pid}/status"), "VmHWM:")
}

/// Resident memory of a process, of which shared pages are divided among those that share them.
#[must_use]
pub fn proportional(pid: u32) -> Option<u64> {
    field(&format!("/proc/{pid}/smaps_rollup"), "Pss:")
}

/// Memory of the machine that is not free.
#[must_use]
pub fn taken() -> Option<u64> {
    Some(field("/proc/meminfo", "MemTotal:")? - field("/proc/meminfo", "MemFree:")?)
}

/// Size of a page of the operating system.
#[must_use]
pub fn page_size() -> u64 {
    let size = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE);
    size.ok().flatten().map_or(4096, |size| size as u64)
}

fn field(file: &str, name: &str) -> Option<u64> {
    kib(&fs::read_to_string(file).ok()?, name)
}

/// The number of KiB on the line that begins with `name`, in bytes.
fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_in_bytes() {
        let text = "Name:\tx\nVmHWM:\t    12 kB\nVmRSS:\t 8\n";
        assert_eq!(kib(text, "VmHWM:"), Some(12 << 10));
        assert_eq!((kib(text, "VmRSS:"), kib(text, "Pss:")), (None, None));
    }

    #[test]
    fn this_process_has_memory() {
        let this = std::process::id();
        let (resident, peak) = (resident(this).unwrap(), peak(this).unwrap());
        assert!(resident >= page_size() && peak >= page_size());
        assert!(taken().unwrap() > resident);
        assert_eq!(super::resident(u32::MAX), None);
    }
}
