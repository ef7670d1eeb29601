//! Which cores have which cache lines: a table of pages of 64 lines, each added at its first use.
//!
//! No result depends on a line's number, and therefore none depends on where the system has put
//! memory. The table's size is bounded. Beyond [`MOST_PAGES`] it forgets the page that was added
//! first, as if that page's lines had gone back to memory.

use crate::by_address::ByAddress;
use crate::caches::{Caches, LINE, LINES, Use};
use crate::costs::Costs;
use crate::line_waits::LineWaits;
use crate::topology::Topology;
use quarry_sys::primitive::Access;
use std::collections::VecDeque;
use std::ops::Range;

/// The maximum number of pages of the table: 192 MiB, at 3 KiB each.
const MOST_PAGES: usize = 1 << 16;

#[derive(Clone, Copy, Default)]
struct Line {
    /// The cores that have the line, a bit each, unless their caches have lost it; core numbers 128
    /// apart share a bit. 0: the line is in a socket's cache or in memory.
    cores: u128,
    /// The end of the last transfer for a write, or from a core that may have written. The next
    /// transfer of the line waits until then.
    free_at_ns: u64,
    /// The last use of the line, needed if caches have a size.
    used: Use,
}

/// The cost of an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fetched {
    pub(crate) ns: u64,
    /// Lines that came from another core of the socket, from another socket, and from memory.
    pub(crate) in_socket: u64,
    pub(crate) remote: u64,
    pub(crate) from_memory: u64,
}

/// An array with one entry for each frame of memory.
struct FrameArray {
    addresses: Range<usize>,
    entry_bytes: usize,
    grows_down: bool,
}

/// The line of frame 0, if each frame has its own line. Such lines lie above those of memory.
const FRAME_LINES: usize = 1 << 58;

/// The line of address 0 in the numbering that gives each address a line of its own.
const STATIC_LINES: usize = 1 << 59;

#[derive(Default)]
pub(crate) struct Lines {
    /// The program's own memory. Here each variable has a line of its own, because the linker may
    /// place variables differently in every build, and results may not depend on the build.
    image: Range<usize>,
    frame_arrays: Vec<FrameArray>,
    numbers: ByAddress<usize>,
    pages: Vec<[Line; LINES]>,
    /// The pages in the order in which they were added: key in `numbers`, index in `pages`.
    order: VecDeque<(usize, usize)>,
    /// The page of lines that was used last: its key in `numbers` and its index in `pages`.
    last: (usize, usize),
    pub(crate) caches: Caches,
    /// True during an access for whose lines the processor does not wait.
    pub(crate) is_ahead: bool,
    pub(crate) waits: LineWaits,
}

impl Lines {
    pub(crate) fn new() -> Self {
        Self { last: (usize::MAX, 0), ..Self::default() }
    }

    /// Gives each address of the program's own memory, `image`, a line of its own from now on.
    pub(crate) fn know_image(&mut self, image: Range<usize>) {
        self.image = image;
    }

    /// Lets each entry of this array lie, from now on, in the line of the frame that it describes.
    pub(crate) fn add_frame_array(
        &mut self,
        start: usize,
        frames: usize,
        entry_bytes: usize,
        grows_down: bool,
    ) {
        let bytes = frames * entry_bytes;
        let addresses = if grows_down { start - bytes..start } else { start..start + bytes };
        self.frame_arrays.push(FrameArray { addresses, entry_bytes, grows_down });
    }

    /// The first line of `bytes` bytes at `address`, and the number of lines. O(arrays of frames).
    pub(crate) fn of(&self, address: usize, bytes: usize) -> (usize, usize) {
        let found = self.frame_arrays.iter().find(|it| it.addresses.contains(&address));
        if self.image.contains(&address) {
            return (STATIC_LINES + address, 1);
        }
        let Some(array) = found else {
            let first = address / LINE;
            return (first, (address + bytes.max(1)).div_ceil(LINE) - first);
        };
        let last = address + bytes.max(1) - 1;
        let [first, last] = [address, last].map(|at| {
            let offset = if array.grows_down {
                array.addresses.end - at - 1
            } else {
                at - array.addresses.start
            };
            offset / array.entry_bytes
        });
        (FRAME_LINES + first.min(last), first.abs_diff(last) + 1)
    }

    fn line(&mut self, line: usize) -> &mut Line {
        let number = self.page(line / LINES);
        &mut self.pages[number][line % LINES]
    }

    fn page(&mut self, page: usize) -> usize {
        if self.last.0 == page {
            return self.last.1;
        }
        let number = match self.numbers.get(&page) {
            Some(number) => *number,
            None => self.add(page),
        };
        self.last = (page, number);
        number
    }

    fn add(&mut self, page: usize) -> usize {
        let number = if self.pages.len() < MOST_PAGES {
            self.pages.push([Line::default(); LINES]);
            self.pages.len() - 1
        } else {
            let (oldest, number) = self.order.pop_front().expect("a full table has pages");
            self.numbers.remove(&oldest);
            self.pages[number] = [Line::default(); LINES];
            number
        };
        self.numbers.insert(page, number);
        self.order.push_back((page, number));
        number
    }

    /// Returns whether the core of `cpu` has the line, so that the access needs no transfer.
    pub(crate) fn finds(&mut self, on: &Topology, cpu: u32, line: usize, access: Access) -> bool {
        if on.is_outside(cpu) {
            return true;
        }
        let core = on.core_of(cpu);
        let (cores, _) = self.holders(line);
        let finds = has(cores, core, access != Access::Read);
        if finds {
            self.line(line).used = self.caches.uses(core);
        }
        finds
    }

    /// Counts and times a use of `count` lines from `first` on by `cpu` at `now_ns`. O(count).
    pub(crate) fn fetch(
        &mut self,
        (on, costs): (&Topology, &Costs),
        (cpu, now_ns): (u32, u64),
        (first, count): (usize, usize),
        access: Access,
    ) -> Fetched {
        let mut all = Fetched::default();
        if on.is_outside(cpu) {
            return all;
        }
        for line in first..first + count {
            let came = all.in_socket + all.remote;
            let ns = self.fetch_one((on, costs), (cpu, now_ns + all.ns), line, access, &mut all);
            let misses = all.in_socket + all.remote + all.from_memory;
            let ns = if misses > 1 || self.is_ahead { ns.min(costs.next_line_ns) } else { ns };
            if all.in_socket + all.remote > came {
                self.waits.add(line, ns);
            }
            all.ns += ns;
        }
        all.ns += if access == Access::Update { costs.locked_ns } else { 0 };
        all
    }

    fn fetch_one(
        &mut self,
        (on, costs): (&Topology, &Costs),
        (cpu, now_ns): (u32, u64),
        line: usize,
        access: Access,
        all: &mut Fetched,
    ) -> u64 {
        let (core, writes) = (on.core_of(cpu), access != Access::Read);
        let (cores, socket) = self.holders(line);
        self.line(line).used = self.caches.uses(core);
        if has(cores, core, writes) {
            return costs.hit_ns;
        }
        let from_memory = cores == 0 && socket.is_none();
        self.caches.take_in(core, 1, from_memory);
        let ns = if from_memory {
            all.from_memory += 1;
            if self.caches.is_ahead(core, line) { costs.next_line_ns } else { costs.memory_ns }
        } else if is_elsewhere(on, cpu, writes, (cores, socket)) {
            all.remote += 1;
            costs.remote_ns
        } else {
            all.in_socket += 1;
            costs.socket_ns
        };
        let now = self.line(line);
        let end_ns = now_ns.max(now.free_at_ns) + ns;
        // A line that only one core has may be modified, so the transfer is as for a write.
        if writes || cores.is_power_of_two() {
            now.free_at_ns = end_ns;
        }
        now.cores = if writes { 0 } else { cores } | 1 << (core % 128);
        end_ns - now_ns
    }

    /// The cores that have a line (a bit each), and the socket of the last use if its cache has it.
    fn holders(&mut self, line: usize) -> (u128, Option<u32>) {
        let &mut Line { mut cores, used, .. } = self.line(line);
        let socket = self.caches.lose(used, &mut cores);
        self.line(line).cores = cores;
        (cores, socket)
    }
}

/// Returns whether `core` can use, without a transfer, a line that these `cores` have.
fn has(cores: u128, core: u32, writes: bool) -> bool {
    let me = 1 << (core % 128);
    cores == me || !writes && cores & me != 0
}

/// Returns whether an access goes to another socket. A read does if no cache of this socket has the
/// line; a write does if a cache of another socket has it, because that copy must be invalidated.
fn is_elsewhere(
    on: &Topology,
    cpu: u32,
    writes: bool,
    (cores, used_in): (u128, Option<u32>),
) -> bool {
    let (of_socket, socket) = (on.cores.min(128), on.socket_of(cpu));
    let here = (u128::MAX >> (128 - of_socket)).rotate_left(socket * on.cores % 128);
    if writes {
        cores & !here != 0 || used_in.is_some_and(|it| it != socket)
    } else {
        cores & here == 0 && used_in != Some(socket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::CacheSizes;

    fn costs() -> Costs {
        Costs {
            hit_ns: 1,
            socket_ns: 50,
            remote_ns: 100,
            memory_ns: 80,
            next_line_ns: 5,
            ..Costs::none()
        }
    }

    #[test]
    fn a_line_costs_by_who_has_it() {
        let (on, costs, mut lines) = (Topology::new(2, 2), costs(), Lines::new());
        let mut at = |cpu, now, access| lines.fetch((&on, &costs), (cpu, now), (7, 1), access).ns;
        assert_eq!(at(0, 0, Access::Read), 80, "memory has it");
        assert_eq!(at(0, 100, Access::Write), 1, "its own");
        assert_eq!(at(1, 200, Access::Read), 50);
        assert_eq!(at(2, 300, Access::Read), 100);
        assert_eq!(at(3, 400, Access::Read), 50, "its neighbour has it by now");
        assert_eq!(at(0, 500, Access::Write), 100, "all others must hear of it");
        assert_eq!(at(1, 500, Access::Write), 150, "after the transfer that is under way");
        assert_eq!(at(2, 500, Access::Write), 250);
    }

    #[test]
    fn streams_push_out_what_was_not_used_for_long() {
        let (on, costs, mut lines) = (Topology::new(2, 2), costs(), Lines::new());
        // A core's cache holds 16 lines, a socket's 32.
        lines.caches = Caches::new(&on, CacheSizes { core_kib: 1, socket_kib: 2 });
        let at = |now, line, lines: &mut Lines| {
            lines.fetch((&on, &costs), (0, now), (line, 1), Access::Write).ns
        };
        let first = [7, 8, 700, 7].map(|line| at(0, line, &mut lines));
        assert_eq!(first, [80, 5, 80, 1], "8 is beside 7");
        assert_eq!([63, 64].map(|line| at(0, line, &mut lines)), [80, 80], "in two pages");
        lines.caches.take_in(2, 50, true);
        assert_eq!(at(200, 7, &mut lines), 1, "the other socket's cache");
        lines.caches.take_in(0, 17, false);
        assert!(!lines.finds(&on, 0, 700, Access::Read));
        assert_eq!(at(300, 7, &mut lines), 50, "the socket has it");
        lines.fetch((&on, &costs), (1, 1_000), (7, 1), Access::Read);
        lines.caches.take_in(1, 17, false);
        assert_eq!(at(2_000, 7, &mut lines), 50, "the last use counts for both cores");
        lines.caches.take_in(1, 33, true);
        assert_eq!(at(3_000, 7, &mut lines), 80, "a neighbour's data goes through the socket, too");
    }

    #[test]
    fn the_cpu_outside_takes_no_line_from_anybody() {
        let (on, costs, mut lines) = (Topology::new(1, 2), costs(), Lines::new());
        let mut at = |cpu, access| lines.fetch((&on, &costs), (cpu, 0), (7, 1), access).ns;
        at(0, Access::Write);
        assert_eq!(at(2, Access::Write), 0);
        assert_eq!(at(0, Access::Write), 1);
    }

    #[test]
    fn a_locked_instruction_takes_longer_than_a_store() {
        let costs = Costs { locked_ns: 7, ..costs() };
        let (on, mut lines) = (Topology::new(1, 1), Lines::new());
        let mut at = |access| lines.fetch((&on, &costs), (0, 0), (7, 1), access).ns;
        assert_eq!([Access::Update, Access::Update, Access::Write].map(&mut at), [87, 8, 1]);
    }

    #[test]
    fn several_lines_come_together() {
        let (on, costs, mut lines) = (Topology::new(1, 2), costs(), Lines::new());
        let fetched = lines.fetch((&on, &costs), (0, 0), (60, 10), Access::Write);
        assert_eq!((fetched.ns, fetched.from_memory), (80 + 9 * 5, 10));
    }

    #[test]
    fn what_describes_a_frame_lies_in_its_line() {
        let mut lines = Lines::new();
        assert_eq!(lines.of(0x1000_003f, 2), (0x1000_0000 / LINE, 2), "memory as it lies");
        lines.add_frame_array(0x1000_0000, 8, 2, false);
        lines.add_frame_array(0x1000_0000, 8, 4, true);
        let frame_0 = lines.of(0x1000_0000, 2);
        assert_eq!(frame_0.1, 1);
        assert_eq!(lines.of(0x1000_0000 - 4, 4), frame_0, "the same frame in both");
        assert_eq!(lines.of(0x1000_0001, 1), frame_0, "each byte of an entry");
        assert_eq!(lines.of(0x1000_0002, 2).0, frame_0.0 + 1);
        assert_eq!(lines.of(0x1000_0000 - 12, 8), (frame_0.0 + 1, 2), "frames 1 and 2 at once");
        assert_eq!(lines.of(0x1000_0010, 2).0, 0x1000_0010 / LINE, "after the array");
    }

    #[test]
    fn a_full_cache_forgets_the_oldest_line() {
        let (on, costs, mut lines) = (Topology::new(2, 1), costs(), Lines::new());
        // A core's cache holds 16 lines, a socket's 32.
        lines.caches = Caches::new(&on, CacheSizes { core_kib: 1, socket_kib: 2 });
        let mut now_ns = 0;
        // No two lines are neighbours, because a neighbour would be fetched ahead.
        let mut at = |cpu, line: usize, access| {
            now_ns += 1_000;
            lines.fetch((&on, &costs), (cpu, now_ns), (2 * line, 1), access).ns
        };
        (0..17).for_each(|line| assert_eq!(at(0, line, Access::Write), 80));
        assert_eq!(at(0, 16, Access::Read), 1);
        assert_eq!(at(0, 0, Access::Read), 50, "the core has lost it, its socket has it");
        assert_eq!(at(1, 1, Access::Read), 100, "for another socket it is remote");
        (100..133).for_each(|line| assert_eq!(at(0, line, Access::Read), 80));
        assert_eq!(at(0, 0, Access::Read), 80, "the socket has lost it");
        assert_eq!(at(1, 1, Access::Read), 1, "the other one has it");
    }

    #[test]
    fn variables_of_the_program_share_no_line() {
        let mut lines = Lines::new();
        assert_eq!(lines.of(0x1000, 8), lines.of(0x1008, 8), "memory as it lies");
        lines.know_image(0x1000..0x2000);
        assert_ne!(lines.of(0x1000, 8).0, lines.of(0x1008, 8).0);
        assert_eq!(lines.of(0x1000, 8).1, 1);
        assert_eq!(lines.of(0x2000, 8).0, 0x2000 / LINE, "after the program");
    }

    #[test]
    fn a_full_table_forgets_the_oldest_page() {
        let (on, costs, mut lines) = (Topology::new(1, 1), costs(), Lines::new());
        for page in 0..=MOST_PAGES {
            lines.fetch((&on, &costs), (0, 0), (page * LINES, 1), Access::Read);
        }
        assert!(!lines.finds(&on, 0, 0, Access::Read));
        assert!(lines.finds(&on, 0, LINES * 2, Access::Read));
        assert!(lines.pages.len() <= MOST_PAGES);
    }
}
