//! CPU caches of a finite size: they tell whether a core's or a socket's cache still has a line.
//!
//! A cache has no list of its lines. It counts the lines that it takes in, including those of data
//! that streams through it, and each line remembers the count at its last use. A cache has lost a
//! line once it has taken in as many others as it holds, as under LRU. So data that no task uses
//! again need not be recorded. Associative sets are not simulated: they depend on addresses, and no
//! result may depend on addresses. A socket's cache includes the caches of its cores, as in Intel's
//! processors from Nehalem to Broadwell. If several cores have read a line, the last use counts for
//! all of them: once the core of the last use has lost the line, the others have lost it too.

use crate::costs::CacheSizes;
use crate::topology::Topology;

/// Bytes of a cache line, on x86-64 and most of aarch64.
pub(crate) const LINE: usize = 64;
/// Lines of a page of memory, and entries of a page in the table of lines.
pub(crate) const LINES: usize = 64;

/// The last use of a line: the core, and what its cache and its socket's cache had counted then.
#[derive(Clone, Copy, Default)]
pub(crate) struct Use {
    core: u32,
    by_core: u64,
    by_socket: u64,
}

/// The CPU caches of a machine. By default they have no bound and never lose a line.
#[derive(Default)]
pub(crate) struct Caches {
    /// Lines that each core's and each socket's cache has taken in; empty if caches have no bound.
    /// The counts begin so high that a line that was never used is in no cache.
    cores: Vec<u64>,
    sockets: Vec<u64>,
    /// Lines that a core's cache holds, and lines that a socket's cache holds.
    most: [u64; 2],
    cores_of_socket: u32,
    /// The last line that each core got from memory: the hardware fetches its neighbours ahead.
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

    /// Clears `cores`, which has a bit for each core with the line, if these cores have lost the
    /// line since its last use. Returns the socket whose cache still has it, even if no core does.
    pub(crate) fn lose(&self, used: Use, cores: &mut u128) -> Option<u32> {
        let in_core = *self.cores.get(used.core as usize)? - used.by_core;
        let socket = used.core / self.cores_of_socket;
        let in_socket = self.sockets[socket as usize] - used.by_socket;
        if in_core > self.most[0] || in_socket > self.most[1] {
            *cores = 0;
        }
        (in_socket <= self.most[1]).then_some(socket)
    }

    /// The record of a use of a line by `core` now.
    pub(crate) fn uses(&self, core: u32) -> Use {
        let Some(by_core) = self.cores.get(core as usize) else { return Use::default() };
        let socket = core / self.cores_of_socket;
        Use { core, by_core: *by_core, by_socket: self.sockets[socket as usize] }
    }

    /// Counts lines that a core's cache takes in, and its socket's cache if they come from memory.
    pub(crate) fn take_in(&mut self, core: u32, lines: u64, from_memory: bool) {
        if let Some(taken) = self.cores.get_mut(core as usize) {
            *taken += lines;
            self.sockets[(core / self.cores_of_socket) as usize] += u64::from(from_memory) * lines;
        }
    }

    /// Notes that a core gets a line from memory. Returns whether the line was fetched ahead: if it
    /// is next to the last line that this core got from memory, in the same page.
    pub(crate) fn is_ahead(&mut self, core: u32, line: usize) -> bool {
        let Some(last) = self.last.get_mut(core as usize) else { return false };
        let last = std::mem::replace(last, line);
        last / LINES == line / LINES && last.abs_diff(line) == 1
    }
}
