//! Caches of a finite size: which lines those of a core and those of a socket still have.
//!
//! A cache counts the lines that it takes in, those of data that streams through it included, and a
//! line remembers the counts at its last use: once a cache has taken in as many others as it holds,
//! it has lost the line, as where the one that was used longest ago goes first. So no cache knows
//! its lines, and data that no task asks for again costs nothing here. Sets would depend on
//! addresses, and no result may. A socket's cache includes those of its cores, as Intel's from
//! Nehalem to Broadwell. Of a line that several cores have read, the last use counts for all: once
//! that core has lost it, they have.

use crate::costs::CacheSizes;
use crate::topology::Topology;

/// Bytes of a cache line, on x86-64 and most of aarch64.
pub(crate) const LINE: usize = 64;
/// Lines of a page, of memory and of the table of lines.
pub(crate) const LINES: usize = 64;

/// The last use of a line: the core, and what its cache and its socket's had taken in.
#[derive(Clone, Copy, Default)]
pub(crate) struct Use {
    core: u32,
    by_core: u64,
    by_socket: u64,
}

/// The caches of a machine; by default they have no bound.
#[derive(Default)]
pub(crate) struct Caches {
    /// Lines that the cache of each core has taken in, and that of each socket; none without a
    /// bound. A line that was never used is as one that was used before they held any.
    cores: Vec<u64>,
    sockets: Vec<u64>,
    /// Lines that the cache of a core holds, and that of a socket.
    most: [u64; 2],
    cores_of_socket: u32,
    /// The line that each core has got from memory last: the next one is on its way already.
    last: Vec<usize>,
}

impl Caches {
    pub(crate) fn new(on: &Topology, sizes: CacheSizes) -> Self {
        let most = [sizes.core_kib, sizes.socket_kib].map(|kib| ((kib << 10) / LINE) as u64);
        let cores = on.all_cores() as usize;
        Self {
            cores: vec![most[0] + 1; cores],
            sockets: vec![most[1] + 1; on.sockets as usize],
            most,
            cores_of_socket: on.cores,
            last: vec![0; cores],
        }
    }

    /// Takes all bits from `cores`, one for each core that has a line, if it is lost since its last
    /// use. Returns the socket whose cache has it, whether a core does or not.
    pub(crate) fn lose(&self, used: Use, cores: &mut u128) -> Option<u32> {
        let in_core = *self.cores.get(used.core as usize)? - used.by_core;
        let socket = used.core / self.cores_of_socket;
        let in_socket = self.sockets[socket as usize] - used.by_socket;
        if in_core > self.most[0] || in_socket > self.most[1] {
            *cores = 0;
        }
        (in_socket <= self.most[1]).then_some(socket)
    }

    /// A use of a line by a core, now.
    pub(crate) fn uses(&self, core: u32) -> Use {
        let Some(by_core) = self.cores.get(core as usize) else { return Use::default() };
        let socket = core / self.cores_of_socket;
        Use { core, by_core: *by_core, by_socket: self.sockets[socket as usize] }
    }

    /// The cache of a core takes in lines, and that of its socket as well if they come from memory.
    pub(crate) fn take_in(&mut self, core: u32, lines: u64, from_memory: bool) {
        if let Some(taken) = self.cores.get_mut(core as usize) {
            *taken += lines;
            self.sockets[(core / self.cores_of_socket) as usize] += u64::from(from_memory) * lines;
        }
    }

    /// A core gets a line from memory. Returns whether it was fetched ahead: it lies in the same
    /// page as the last one, and beside it.
    pub(crate) fn is_ahead(&mut self, core: u32, line: usize) -> bool {
        let Some(last) = self.last.get_mut(core as usize) else { return false };
        let last = std::mem::replace(last, line);
        last / LINES == line / LINES && last.abs_diff(line) == 1
    }
}
