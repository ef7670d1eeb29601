//! Announcements that do nothing: a CPU and the model see by themselves what a simulated machine
//! has to be told.

use super::effort::Effort;
use super::waited::Waited;

/// See [`super::announce::lock_wanted`].
#[inline(always)]
pub(super) fn lock_wanted(_lock: usize) {}

/// See [`super::announce::lock_waits`].
#[inline(always)]
pub(super) fn lock_waits(_lock: usize) -> Waited {
    Waited::ByItself
}

/// See [`super::announce::lock_taken`].
#[inline(always)]
pub(super) fn lock_taken(_lock: usize) {}

/// See [`super::announce::lock_released`].
#[inline(always)]
pub(super) fn lock_released(_lock: usize) -> bool {
    false
}

/// See [`super::announce::frame_array`].
#[inline(always)]
pub(super) fn frame_array(_start: usize, _frames: usize, _bytes: usize, _grows_down: bool) {}

/// See [`super::announce::unseen`].
#[inline(always)]
pub(super) fn unseen<T>(body: impl FnOnce() -> T) -> T {
    body()
}

/// See [`super::announce::sequence_begins`].
#[inline(always)]
pub(super) fn sequence_begins(_slot: usize) {}

/// See [`super::announce::sequence_ends`].
#[inline(always)]
pub(super) fn sequence_ends() {}

/// See [`super::effort::spend`].
#[inline(always)]
pub(super) fn spend(_effort: Effort, _count: usize) {}
