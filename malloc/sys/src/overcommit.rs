//! The size above which the kernel refuses a single mapping.
//!
//! In its default mode, `OVERCOMMIT_GUESS`, the kernel refuses a mapping that is larger than memory
//! and swap together, however much of them is free (`__vm_enough_memory` in `mm/util.c`, Linux 5.x
//! and 6.x). So an absurdly large request fails in other allocators, and must fail in Quarry.

use crate::file::find_piece;
use crate::known::Known;
use crate::own_stack;
use crate::system_call::filled;

/// Returns the machine's bytes of memory, or `None` if `sysinfo` fails. One system call.
#[must_use]
pub fn memory() -> Option<usize> {
    let info = info()?;
    (info.totalram as usize).checked_mul(info.mem_unit as usize)
}

/// Returns the machine's bytes of memory and swap; otherwise same as [`memory`].
#[must_use]
pub fn memory_and_swap() -> Option<usize> {
    let info = info()?;
    let units = (info.totalram as usize).checked_add(info.totalswap as usize)?;
    units.checked_mul(info.mem_unit as usize)
}

fn info() -> Option<libc::sysinfo> {
    // SAFETY: where the kernel succeeds, it has filled the structure.
    unsafe { filled(|info| libc::syscall(libc::SYS_sysinfo, info)) }.ok()
}

/// Returns whether the kernel compares mappings with [`memory_and_swap`] (`vm.overcommit_memory` is
/// 0); false if the setting cannot be read. Read once, by three system calls: open, read and close,
/// as in glibc.
#[cold]
#[must_use]
pub fn is_guessing() -> bool {
    static KNOWN: Known = Known::new();
    let setting = c"/proc/sys/vm/overcommit_memory";
    let read = || find_piece(setting, b'\n', |line| Some(line == b"0")) == Some(true);
    KNOWN.is_true(|| own_stack::run(read))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_what_the_kernel_prints() {
        let text = std::fs::read_to_string("/proc/meminfo").expect("/proc is mounted");
        let kilobytes = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let number = line.and_then(|line| line.split_ascii_whitespace().next());
            number.and_then(|number| number.parse::<usize>().ok()).expect("the kernel prints it")
        };
        let sum = (kilobytes("MemTotal") + kilobytes("SwapTotal")) << 10;
        // Not equal: /proc/meminfo of a container may show only the container's share.
        assert!(memory_and_swap().expect("no refusal") >= sum);
        let mode = std::fs::read_to_string("/proc/sys/vm/overcommit_memory").expect("likewise");
        assert_eq!(is_guessing(), mode.trim() == "0");
    }
}
