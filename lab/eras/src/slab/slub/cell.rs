//! The words of a slot's cell.

/// Word of a cell that holds the list of free objects.
pub(super) const LIST: usize = 0;
/// Word of a cell that names the slab, by its frame's number + 1.
pub(super) const GUARD: usize = 1;
pub(super) const POPS: usize = 2;
pub(super) const PUSHES: usize = 3;
