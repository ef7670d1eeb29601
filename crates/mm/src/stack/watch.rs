//! A stack without instruments.

use super::instance::{Stack, StackConfig, Watch};
use crate::frame::{Kind, Pfn};

impl<C: StackConfig> Watch<C> for () {
    const NEW: Self = ();
    const IS_ANY: bool = false;
}

impl<C: StackConfig> Stack<C> {
    /// The instruments of the stack.
    #[inline(always)]
    pub fn watch(&self) -> &C::Watch {
        &self.watch
    }

    /// The frames of the block of pages, or the sample, at `pfn`.
    pub(super) fn frames_of_block(&self, pfn: Pfn) -> u32 {
        match self.frames().kind(pfn) {
            Kind::SAMPLED => self.watch.sampled(self, pfn).map_or(0, |sampled| sampled.frames),
            _ => self.frames().link(pfn),
        }
    }
}
