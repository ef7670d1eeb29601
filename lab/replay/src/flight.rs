//! Messages on their way, with the memory that they hold.

use crate::memory::Buffer;
use std::collections::VecDeque;

/// Messages that were sent and not yet received, in the order of sending, and their memory.
///
/// * `tags.len()` = messages that have not been received yet
/// * each queue of `held` lists its pieces in the order of the messages that hold them
#[derive(Debug, Default)]
pub(crate) struct Flight {
    /// The tag that each message's payload begins with.
    pub(crate) tags: VecDeque<u64>,
    /// Buffers that the messages hold: a queue for each piece of the plan, by its number.
    pub(crate) held: Vec<VecDeque<Buffer>>,
    /// Messages that were received, but whose sender has not yet processed the answer.
    pub(crate) answered: u32,
    /// A freed piece of the recycled kind, kept for the next allocation.
    pub(crate) kept: Option<Buffer>,
}

impl Flight {
    pub(crate) fn new(pieces: usize) -> Self {
        let held = (0..pieces).map(|_| VecDeque::new()).collect();
        Self { held, ..Self::default() }
    }

    /// Number of messages that have not been received yet.
    pub(crate) fn messages(&self) -> u32 {
        self.tags.len() as u32
    }

    /// Moves all messages and pieces of `other` to the end of this flight.
    pub(crate) fn append(&mut self, other: &mut Self) {
        self.tags.append(&mut other.tags);
        self.answered += std::mem::take(&mut other.answered);
        for (here, there) in self.held.iter_mut().zip(&mut other.held) {
            here.append(there);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.held.iter().all(VecDeque::is_empty) && self.kept.is_none()
    }
}
