//! Messages on their way, with the memory that they hold.

use crate::memory::Buffer;
use std::collections::VecDeque;

/// Messages in the order in which they were sent.
///
/// * `tags.len()` = messages that have not been received yet
/// * each queue of `held` has its pieces in the order of the messages that hold them
#[derive(Debug, Default)]
pub(crate) struct Flight {
    /// The tag that each message's payload begins with.
    pub(crate) tags: VecDeque<u64>,
    /// Pieces that the messages hold, by their numbers in the plan.
    pub(crate) held: Vec<VecDeque<Buffer>>,
    /// Messages that were received, and whose sender has not looked at the answer.
    pub(crate) answered: u32,
    /// One piece of the recycled kind.
    pub(crate) kept: Option<Buffer>,
}

impl Flight {
    /// Nothing on its way, of a plan with `pieces` kinds of pieces.
    pub(crate) fn new(pieces: usize) -> Self {
        let held = (0..pieces).map(|_| VecDeque::new()).collect();
        Self { held, ..Self::default() }
    }

    /// Number of messages that have not been received yet.
    pub(crate) fn messages(&self) -> u32 {
        self.tags.len() as u32
    }

    /// Takes over everything on its way in `other`, after what is here.
    pub(crate) fn append(&mut self, other: &mut Self) {
        self.tags.append(&mut other.tags);
        self.answered += std::mem::take(&mut other.answered);
        for (here, there) in self.held.iter_mut().zip(&mut other.held) {
            here.append(there);
        }
    }

    /// Returns whether no memory is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.iter().all(VecDeque::is_empty) && self.kept.is_none()
    }
}
