//! Ages of lines: what the data that streams through a socket's cache leaves of it.
//!
//! `caches` knows each line that a cache has. Pages that are cleared are 64 lines each, which no
//! task asks for again, and too many to know. Here a socket counts the lines that its cache takes
//! in, streamed ones included, and a line remembers the count at its last use: once the cache has
//! taken in as many others as it holds, the line is in memory alone, as where the one that was
//! used longest ago goes first. The cache includes those of the socket's cores.

use crate::topology::Topology;

/// Lines of a page, of memory and of the table of lines.
pub(crate) const LINES: usize = 64;

/// When a line was used last: the socket, and how many lines its cache had taken in.
#[derive(Clone, Copy, Default)]
pub(crate) struct Use {
    socket: u16,
    taken: u64,
}

/// The counts of all sockets; none where caches have no bound.
#[derive(Default)]
pub(crate) struct Ages {
    taken: Vec<u64>,
    /// Lines that a cache holds.
    most: u64,
    /// The line that each core has got from memory last: the next one is on its way already.
    last: Vec<usize>,
}

impl Ages {
    pub(crate) fn new(on: &Topology, most: u64) -> Self {
        let (taken, last) = (vec![0; on.sockets as usize], vec![0; on.all_cores() as usize]);
        Self { taken, most, last }
    }

    fn taken(&self, socket: u16) -> u64 {
        self.taken.get(socket as usize).copied().unwrap_or(0)
    }

    /// Returns whether a line that was used last at this moment is still there.
    pub(crate) fn hold(&self, used: Use) -> bool {
        self.taken(used.socket).saturating_sub(used.taken) <= self.most
    }

    pub(crate) fn now(&self, socket: u32) -> Use {
        Use { socket: socket as u16, taken: self.taken(socket as u16) }
    }

    /// The cache of a socket takes in lines that no task uses again.
    pub(crate) fn stream(&mut self, socket: u32, lines: u64) {
        if let Some(taken) = self.taken.get_mut(socket as usize) {
            *taken += lines;
        }
    }

    /// A core gets a line from memory. Returns whether it was fetched ahead: it lies in the same
    /// page as the last one, and beside it.
    pub(crate) fn take_in(&mut self, socket: u32, core: u32, line: usize) -> bool {
        let Some(taken) = self.taken.get_mut(socket as usize) else { return false };
        *taken += 1;
        let last = std::mem::replace(&mut self.last[core as usize], line);
        last / LINES == line / LINES && last.abs_diff(line) == 1
    }
}
