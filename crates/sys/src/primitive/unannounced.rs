//! Empty functions, named as in `announce` and `effort`: a CPU and the model need no announcements.

use super::effort::Effort;
use super::waited::Waited;

#[inline(always)]
pub(super) fn lock_wanted(_lock: usize) {}

#[inline(always)]
pub(super) fn lock_waits(_lock: usize) -> Waited {
    Waited::ByItself
}

#[inline(always)]
pub(super) fn lock_taken(_lock: usize) {}

#[inline(always)]
pub(super) fn lock_released(_lock: usize) -> bool {
    false
}

#[inline(always)]
pub(super) fn frame_array(_start: usize, _frames: usize, _bytes: usize, _grows_down: bool) {}

#[inline(always)]
pub(super) fn unseen<T>(body: impl FnOnce() -> T) -> T {
    body()
}

#[inline(always)]
pub(super) fn sequence_begins(_slot: usize) {}

#[inline(always)]
pub(super) fn sequence_ends() {}

#[inline(always)]
pub(super) fn spend(_effort: Effort, _count: usize) {}
