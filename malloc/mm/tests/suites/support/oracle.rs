//! The naive oracle: the live allocations, their places and their contents.

use super::pattern;
use quarry_sys::percpu::Object;
use std::collections::BTreeMap;

/// A live allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    pub(crate) object: Object,
    /// Requested bytes.
    pub(crate) size: usize,
    /// Usable bytes, all of which the caller may write.
    pub(crate) bytes: usize,
    /// The tag from which the contents follow (see `pattern`).
    pub(crate) tag: u64,
    /// A number that the suite sets: the cache of the allocation.
    pub(crate) mark: usize,
}

/// All live allocations.
#[derive(Default)]
pub(crate) struct Oracle {
    by_start: BTreeMap<usize, usize>,
    live: Vec<Live>,
    next_tag: u64,
    bytes: usize,
}

impl Oracle {
    /// Adds a new allocation: checks that it is aligned and overlaps no other, and fills it.
    pub(crate) fn insert(
        &mut self,
        object: Object,
        size: usize,
        bytes: usize,
        align: usize,
        mark: usize,
    ) {
        let start = object.as_ptr() as usize;
        assert!(start.is_multiple_of(align), "{object:p} is not aligned to {align}");
        assert!(bytes >= size, "{bytes} bytes for a request of {size}");
        if let Some((before, index)) = self.by_start.range(..start + bytes).next_back() {
            let end = before + self.live[*index].bytes;
            let other = self.live[*index];
            assert!(end <= start, "{object:p} of {bytes} bytes overlaps {other:?}");
        }
        self.next_tag += 1;
        let live = Live { object, size, bytes, tag: self.next_tag, mark };
        pattern::fill(object, bytes, live.tag);
        self.by_start.insert(start, self.live.len());
        self.live.push(live);
        self.bytes += bytes;
    }

    /// Allocation `number`, modulo the number of allocations.
    pub(crate) fn pick(&self, number: usize) -> Option<Live> {
        self.live.get(number.checked_rem(self.live.len())?).copied()
    }

    /// Checks that the first `bytes` bytes of an allocation still have its contents.
    pub(crate) fn check(&self, live: &Live, bytes: usize) {
        assert!(pattern::holds(live.object, bytes, live.tag), "contents of {live:?} have changed");
    }

    /// Removes allocation `number`, modulo the number of allocations, and checks its contents.
    pub(crate) fn remove(&mut self, number: usize) -> Option<Live> {
        let live = self.pick(number)?;
        self.check(&live, live.bytes);
        Some(self.forget(&live))
    }

    /// Removes an allocation without a check of its contents, because it has moved.
    pub(crate) fn forget(&mut self, live: &Live) -> Live {
        let start = live.object.as_ptr() as usize;
        let index = self.by_start.remove(&start).expect("live allocations are known");
        let live = self.live.swap_remove(index);
        if let Some(moved) = self.live.get(index) {
            self.by_start.insert(moved.object.as_ptr() as usize, index);
        }
        self.bytes -= live.bytes;
        live
    }

    /// Checks the contents of all allocations.
    pub(crate) fn check_all(&self) {
        self.live.iter().for_each(|live| self.check(live, live.bytes));
    }

    /// Number of live allocations.
    pub(crate) fn len(&self) -> usize {
        self.live.len()
    }

    /// Usable bytes of all live allocations.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// All live allocations.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Live> {
        self.live.iter()
    }
}
