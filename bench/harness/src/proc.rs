//! Memory of processes and of the machine, in bytes, from `/proc`.

use procfs::process::Process;
use procfs::{Current, Meminfo};

/// Resident memory of a process; `None` after its end.
#[must_use]
pub fn resident(pid: u32) -> Option<u64> {
    Some(process(pid)?.statm().ok()?.resident * procfs::page_size())
}

/// Peak of a process's resident memory since its exec (`VmHWM`). The peak that `getrusage` returns,
/// for a process or its children, includes the time before the exec.
#[must_use]
pub fn peak(pid: u32) -> Option<u64> {
    Some(process(pid)?.status().ok()?.vmhwm? * 1024)
}

/// Resident memory of a process, with each shared page divided among the processes that share it.
#[must_use]
pub fn proportional(pid: u32) -> Option<u64> {
    of_all_mappings(pid, "Pss")
}

/// Anonymous memory in huge pages. A call takes some ms per GiB of small pages, because the kernel
/// walks the page tables.
#[must_use]
pub fn huge(pid: u32) -> Option<u64> {
    of_all_mappings(pid, "AnonHugePages")
}

fn of_all_mappings(pid: u32, field: &str) -> Option<u64> {
    let all = process(pid)?.smaps_rollup().ok()?.memory_map_rollup;
    all.0.first()?.extension.map.get(field).copied()
}

/// Memory of the machine that is in use.
#[must_use]
pub fn taken() -> Option<u64> {
    Meminfo::current().ok().map(|it| it.mem_total - it.mem_free)
}

fn process(pid: u32) -> Option<Process> {
    Process::new(pid as i32).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory() {
        let this = std::process::id();
        let (resident, peak) = (resident(this).unwrap(), peak(this).unwrap());
        let page = procfs::page_size();
        assert!(resident >= page && resident < 1 << 40 && peak >= page && peak < 1 << 40);
        assert!(proportional(this).is_some_and(|it| it >= page && it < 1 << 40));
        assert!(huge(this).is_some_and(|it| it < 1 << 40 && it.is_multiple_of(page)));
        assert!(taken().unwrap() > resident);
        assert_eq!(super::resident(u32::MAX), None);
    }
}
