//! The machine: CPUs, NUMA nodes, huge pages. Never allocates; works without `/proc` and `/sys`.

use crate::confined::is_confined;
use crate::file::find_piece;
use crate::known::Known;
use crate::own_stack;
use crate::primitive::{AtomicU32, AtomicU64, Ordering};
use crate::report::Line;
use crate::seccomp::may_be_filtered;
use crate::system_call::{checked, filled};
use core::ffi::CStr;
use core::fmt::Write;
use core::ptr::null_mut;

/// Bytes of the largest CPU mask: 8,192 CPUs, the largest `NR_CPUS` of x86-64 (Linux 6.x).
const MASK_BYTES: usize = 1024;

pub(crate) type Mask = [u64; MASK_BYTES / 8];

/// Number of CPUs in a mask, at least 1.
fn count(mask: &Mask) -> u32 {
    mask.iter().map(|word| word.count_ones()).sum::<u32>().max(1)
}

/// A list of numbers as the kernel writes it, such as `0-3,8-11`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct NumberList {
    count: u32,
    limit: u32,
}

impl NumberList {
    /// Parses a list; `None` where the text is not a list.
    fn parse(text: &[u8]) -> Option<Self> {
        let mut list = Self::default();
        for range in ranges(text)? {
            let (first, last) = range?;
            let count = last.checked_sub(first)?.checked_add(1)?;
            list.count = list.count.checked_add(count)?;
            list.limit = list.limit.max(last.checked_add(1)?);
        }
        Some(list)
    }

    fn read(path: &CStr) -> Option<Self> {
        find_piece(path, b'\n', Self::parse)
    }
}

/// The ranges of a list, as first and last number; `None` for a piece that is not a range.
fn ranges(text: &[u8]) -> Option<impl Iterator<Item = Option<(u32, u32)>>> {
    let text = core::str::from_utf8(text).ok()?.trim_ascii();
    Some(text.split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some((first.parse().ok()?, last.parse().ok()?))
    }))
}

/// The CPUs on which the process could run at its start; kept, because a later `sched_getaffinity`
/// reports just one thread's CPUs. `BEYOND_BYTES` is the size of the kernel's CPU mask (0 on an
/// error) plus one, in bytes; 0 before the first call.
static AT_START: [AtomicU64; MASK_BYTES / 8] = [const { AtomicU64::new(0) }; MASK_BYTES / 8];
static BEYOND_BYTES: AtomicU32 = AtomicU32::new(0);

/// The CPUs on which the process could run when this function was first called, and the size of the
/// kernel's CPU mask in bytes.
#[inline(never)]
fn affinity_at_start() -> (Mask, usize) {
    if BEYOND_BYTES.load(Ordering::Acquire) == 0 {
        let (call, mask) = (libc::SYS_sched_getaffinity, AT_START.as_ptr());
        // SAFETY: the kernel writes at most MASK_BYTES bytes, to words that are atomic.
        let bytes = checked(unsafe { libc::syscall(call, 0, MASK_BYTES, mask) });
        BEYOND_BYTES.store(bytes.unwrap_or(0) as u32 + 1, Ordering::Release);
    }
    let mask = AT_START.each_ref().map(|word| word.load(Ordering::Relaxed));
    (mask, BEYOND_BYTES.load(Ordering::Relaxed) as usize - 1)
}

/// Asks for affinity and memory nodes early, before a seccomp filter may kill for these calls.
pub fn ask() {
    let _ = affinity_at_start();
    let _ = memory_node_limit();
}

/// The CPUs on which the process could run when this function was first called, as a mask.
pub(crate) fn cpus_at_start() -> Mask {
    affinity_at_start().0
}

/// The possible CPUs of the machine: those that it can ever have. Read once.
fn possible() -> NumberList {
    static KNOWN: Known = Known::new();
    let both = KNOWN.get(|| {
        let file = c"/sys/devices/system/cpu/possible";
        let listed = if is_confined() { None } else { NumberList::read(file) };
        let NumberList { count, limit } = possible_from(listed, affinity_at_start());
        u64::from(count) << 32 | u64::from(limit)
    });
    NumberList { count: (both >> 32) as u32, limit: both as u32 }
}

/// The list from `/sys`, if there is one and it has all CPUs on which the process may run. Else the
/// limit is the size of the kernel's mask in bits, which no CPU number reaches.
fn possible_from(listed: Option<NumberList>, (mask, bytes): (Mask, usize)) -> NumberList {
    let allowed = count(&mask);
    let highest = mask
        .iter()
        .rposition(|word| *word != 0)
        .map_or(1, |index| index as u32 * 64 + (64 - mask[index].leading_zeros()));
    match listed {
        Some(list) if list.limit >= highest && list.count >= allowed => list,
        _ if bytes > 0 => NumberList { count: allowed, limit: (bytes as u32 * 8).max(highest) },
        _ => NumberList { count: allowed, limit: MASK_BYTES as u32 * 8 },
    }
}

/// An exclusive upper bound of every CPU number and every `mm_cid` of this process (the kernel's
/// `nr_cpu_ids`, where `/sys` reports it). At least 1.
#[must_use]
pub fn cpu_number_limit() -> u32 {
    possible().limit
}

/// The bound of CPU numbers by the size of the kernel's CPU mask, which no container can forge.
#[must_use]
pub fn cpu_mask_limit() -> u32 {
    let (_, bytes) = affinity_at_start();
    let bits = if bytes > 0 { bytes * 8 } else { MASK_BYTES * 8 };
    cpu_number_limit().max(bits as u32)
}

/// Number of CPUs that the machine can ever have, at least 1.
#[must_use]
pub fn possible_cpus() -> u32 {
    possible().count
}

/// An exclusive upper bound of the numbers of NUMA nodes, at least 1.
#[must_use]
pub fn node_number_limit() -> u32 {
    NumberList::read(c"/sys/devices/system/node/possible").map_or(1, |list| list.limit.max(1))
}

/// An exclusive upper bound of the numbers of NUMA nodes from which the process may get memory, at
/// least 1. Read once, at the start: by a system call if possible, a tenth of the cost of reading a
/// file.
#[must_use]
pub fn memory_node_limit() -> u32 {
    if is_confined() {
        return 1;
    }
    NODE_LIMIT.get(|| ask_for_memory_nodes().into()) as u32
}

static NODE_LIMIT: Known = Known::new();

/// Bits of a mask of nodes that is long enough for every kernel (`MAX_NUMNODES`, Linux 6.x).
pub(crate) const MEMORY_NODES: usize = 1024;

pub(crate) type MemoryNodes = [libc::c_ulong; MEMORY_NODES / libc::c_ulong::BITS as usize];

pub(crate) const NO_NODES: MemoryNodes = [0; MEMORY_NODES / libc::c_ulong::BITS as usize];

/// The nodes from which the calling thread may get memory. `None` if the system refuses to tell.
pub(crate) fn allowed_memory_nodes() -> Option<MemoryNodes> {
    /// `include/uapi/linux/mempolicy.h`.
    const MPOL_F_MEMS_ALLOWED: libc::c_ulong = 1 << 2;
    let mut mask = NO_NODES;
    // SAFETY: the mask is writable for MEMORY_NODES bits; the pointer for the mode is null.
    let asked = unsafe {
        let (call, mode, place) = (libc::SYS_get_mempolicy, null_mut::<i32>(), mask.as_mut_ptr());
        libc::syscall(call, mode, place, MEMORY_NODES, 0usize, MPOL_F_MEMS_ALLOWED)
    };
    (asked == 0).then_some(mask)
}

fn ask_for_memory_nodes() -> u32 {
    let is_first_alone =
        |mask: MemoryNodes| mask[0] == 1 && mask[1..].iter().all(|word| *word == 0);
    // Filters of containers refuse the call.
    let allowed = if may_be_filtered() { None } else { allowed_memory_nodes() };
    if allowed.is_some_and(is_first_alone) { 1 } else { node_number_limit() }
}

/// [`current_node`] where [`memory_node_limit`] has found several nodes, else 0. Reads no file.
#[must_use]
pub fn current_memory_node() -> u32 {
    if NODE_LIMIT.seen() <= 1 { 0 } else { current_node() }
}

/// The NUMA node of the CPU that runs the calling thread; 0 if the kernel does not report it.
#[must_use]
pub fn current_node() -> u32 {
    if is_confined() {
        return 0;
    }
    if let Some(node) = crate::glibc::running_node() {
        return node;
    }
    let (call, none) = (libc::SYS_getcpu, null_mut::<u32>());
    // SAFETY: the kernel writes the word; the third argument is unused since Linux 2.6.24.
    unsafe { filled(|node| libc::syscall(call, none, node, none)) }.unwrap_or(0)
}

/// Bytes of the last-level cache of the first CPU, if it caches data, divided by the CPUs that
/// share it (`per_cpu_data_slice_size`, Linux 6.7); 0 if the system does not report them or the
/// process is confined. Reads up to three small files for each cache, at every call.
#[must_use]
pub fn data_cache_slice() -> u32 {
    /// More caches than any CPU has.
    const MOST: u32 = 16;
    if is_confined() {
        return 0;
    }
    // The last cache is the largest; the indexes of caches have no gaps.
    let caches = (0..MOST).map_while(DataCache::read);
    caches.last().map_or(0, |cache| cache.slice())
}

struct DataCache {
    bytes: u32,
    sharing: u32,
    holds_data: bool,
}

impl DataCache {
    /// Reads a cache; `None` where it does not exist.
    fn read(index: u32) -> Option<Self> {
        fn file<R>(index: u32, name: &str, look: impl FnMut(&[u8]) -> Option<R>) -> Option<R> {
            let mut path = Line::<80>::default();
            let folder = "/sys/devices/system/cpu/cpu0/cache/index";
            write!(path, "{folder}{index}/{name}\0").ok()?;
            find_piece(CStr::from_bytes_with_nul(path.as_bytes()).ok()?, b'\n', look)
        }
        let kind = |text: &[u8]| Some(text.starts_with(b"Data") || text.starts_with(b"Unified"));
        Some(Self {
            holds_data: file(index, "type", kind)?,
            bytes: file(index, "size", kibibytes)?,
            sharing: file(index, "shared_cpu_list", NumberList::parse)?.count,
        })
    }

    fn slice(&self) -> u32 {
        if self.holds_data { self.bytes / self.sharing.max(1) } else { 0 }
    }
}

/// The bytes of a size that `/sys` writes in kibibytes, such as `32K`.
fn kibibytes(text: &[u8]) -> Option<u32> {
    let text = core::str::from_utf8(text).ok()?.trim_ascii();
    text.strip_suffix('K')?.parse::<u32>().ok()?.checked_mul(1024)
}

/// The VMAs to which the kernel gives huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePages {
    /// Every VMA.
    Always,
    /// VMAs for which the process requests huge pages by `madvise`.
    OnRequest,
    /// No VMA, or the setting cannot be read.
    Never,
}

/// The mode of transparent huge pages.
#[must_use]
pub fn huge_pages() -> HugePages {
    let file = c"/sys/kernel/mm/transparent_hugepage/enabled";
    own_stack::run(|| find_piece(file, b'\n', chosen_mode)).unwrap_or(HugePages::Never)
}

/// The mode in brackets, as in `always [madvise] never`.
fn chosen_mode(text: &[u8]) -> Option<HugePages> {
    let text = core::str::from_utf8(text).ok()?;
    let mut words = text.split_ascii_whitespace();
    match words.find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))? {
        "always" => Some(HugePages::Always),
        "madvise" => Some(HugePages::OnRequest),
        _ => Some(HugePages::Never),
    }
}

/// Maximum number of VMAs of a process (`vm.max_map_count`), read once; if it cannot be read, the
/// kernel's default (`DEFAULT_MAX_MAP_COUNT`, Linux 6.8).
#[must_use]
pub fn max_map_count() -> usize {
    const DEFAULT: u64 = 65_530;
    static KNOWN: Known = Known::new();
    let number = |text: &[u8]| core::str::from_utf8(text).ok()?.trim_ascii().parse().ok();
    let read = || own_stack::run(|| find_piece(c"/proc/sys/vm/max_map_count", b'\n', number));
    let look = || if is_confined() { None } else { read() }.unwrap_or(DEFAULT).max(1);
    KNOWN.get(look) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Option<NumberList> {
        NumberList::parse(text.as_bytes())
    }

    fn mask_of(cpus: &[usize]) -> Mask {
        let mut mask = [0; MASK_BYTES / 8];
        cpus.iter().for_each(|cpu| mask[cpu / 64] |= 1 << (cpu % 64));
        mask
    }

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(list("0"), Some(NumberList { count: 1, limit: 1 }));
        assert_eq!(list("0-3,8-11\n"), Some(NumberList { count: 8, limit: 12 }));
        assert_eq!(list("2,5"), Some(NumberList { count: 2, limit: 6 }));
        for wrong in ["", "x", "3-1", "1-", "0-4294967295"] {
            assert_eq!(list(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_slice_of_a_cache_is_its_share_of_one_cpu() {
        assert_eq!(kibibytes(b"32768K\n"), Some(32 << 20));
        assert_eq!([&b"32M"[..], b"K", b"", b"4194304K"].map(kibibytes), [None; 4]);
        let last = DataCache { bytes: 32 << 20, sharing: 8, holds_data: true };
        assert_eq!(last.slice(), 4 << 20);
        assert_eq!(DataCache { holds_data: false, ..last }.slice(), 0);
        assert!(data_cache_slice() <= 1 << 30, "less than any cache of a CPU");
    }

    #[test]
    fn a_list_has_a_range_for_each_piece() {
        let all = |text: &'static [u8]| -> Vec<_> { ranges(text).unwrap().collect() };
        assert_eq!(all(b"0-3,8,10-11\n"), [Some((0, 3)), Some((8, 8)), Some((10, 11))]);
        assert_eq!(all(b"x,2"), [None, Some((2, 2))]);
        assert_eq!(all(b""), [None], "a node without CPUs");
    }

    #[test]
    fn holes_in_cpu_numbers_count_to_the_limit() {
        let listed = list("0-1,64-65");
        let found = possible_from(listed, (mask_of(&[64, 65]), 16));
        assert_eq!(found, NumberList { count: 4, limit: 66 });
    }

    #[test]
    fn a_list_that_leaves_out_a_cpu_we_may_run_on_is_not_believed() {
        let found = possible_from(list("0-1"), (mask_of(&[0, 7]), 8));
        assert_eq!(found, NumberList { count: 2, limit: 64 });
        let found = possible_from(None, (mask_of(&[0]), 0));
        assert_eq!(found, NumberList { count: 1, limit: 8192 });
    }

    #[test]
    fn the_mode_in_brackets_is_chosen() {
        assert_eq!(chosen_mode(b"[always] madvise never"), Some(HugePages::Always));
        assert_eq!(chosen_mode(b"always [madvise] never"), Some(HugePages::OnRequest));
        assert_eq!(chosen_mode(b"always madvise [never]"), Some(HugePages::Never));
        assert_eq!(chosen_mode(b""), None);
    }

    #[test]
    fn this_machine_answers() {
        assert!(
            count(&affinity_at_start().0) <= possible_cpus()
                && possible_cpus() <= cpu_number_limit()
        );
        assert!(cpu_number_limit() <= cpu_mask_limit());
        assert!(current_node() < node_number_limit());
        assert!((1..=node_number_limit()).contains(&memory_node_limit()));
    }
}
