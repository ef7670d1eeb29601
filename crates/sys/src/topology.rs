//! What is known of the machine: CPUs, NUMA nodes, page sizes.

/// Largest CPU mask asked of the kernel: 8,192 CPUs, the largest `NR_CPUS` of x86-64 (Linux 6.x).
const MASK_BYTES: usize = 1024;

/// An exclusive upper bound on every CPU number and every `mm_cid` of this process.
///
/// The kernel answers `sched_getaffinity` with the size of its own CPU mask, so this needs neither
/// /proc nor /sys. Always a multiple of 64, at least 64.
#[must_use]
pub fn cpu_number_limit() -> u32 {
    let mut mask = [0u64; MASK_BYTES / 8];
    // SAFETY: `mask` is writable for MASK_BYTES bytes.
    let bytes =
        unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, MASK_BYTES, mask.as_mut_ptr()) };
    if bytes > 0 { (bytes as u32 * 8).next_multiple_of(64) } else { MASK_BYTES as u32 * 8 }
}

/// CPUs that the process may run on now, at least 1.
#[must_use]
pub fn allowed_cpus() -> u32 {
    let mut mask = [0u64; MASK_BYTES / 8];
    // SAFETY: `mask` is writable for MASK_BYTES bytes.
    let bytes =
        unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, MASK_BYTES, mask.as_mut_ptr()) };
    if bytes > 0 { mask.iter().map(|word| word.count_ones()).sum::<u32>().max(1) } else { 1 }
}

/// CPUs that the machine can ever have, at least 1.
#[must_use]
pub fn possible_cpus() -> u32 {
    // SAFETY: sysconf has no preconditions.
    let configured = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    if configured > 0 { configured as u32 } else { allowed_cpus() }
}
