//! The naive oracle: what is live, where, and what it must contain.

use super::pattern;
use quarry_sys::percpu::Object;
use std::collections::BTreeMap;

/// A live allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    pub(crate) object: Object,
    /// Bytes that were asked for.
    pub(crate) size: usize,
    /// Bytes that it occupies; all of them are the caller's.
    pub(crate) bytes: usize,
    /// What its contents belong to.
    pub(crate) tag: u64,
    /// A mark of the suite: the cache it came from.
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
    /// Takes a new allocation up: checks that it is aligned and overlaps nothing, and fills it.
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

    /// The allocation with this number, modulo their count.
    pub(crate) fn pick(&self, number: usize) -> Option<Live> {
        self.live.get(number.checked_rem(self.live.len())?).copied()
    }

    /// Checks that the contents of an allocation are its own, as far as the first `bytes` bytes.
    pub(crate) fn check(&self, live: &Live, bytes: usize) {
        assert!(pattern::holds(live.object, bytes, live.tag), "contents of {live:?} have changed");
    }

    /// Forgets the allocation with this number, modulo their count, after a look at its contents.
    pub(crate) fn remove(&mut self, number: usize) -> Option<Live> {
        let live = self.pick(number)?;
        self.check(&live, live.bytes);
        Some(self.forget(&live))
    }

    /// Forgets an allocation without looking at it: it has moved.
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

    /// Checks the contents of everything.
    pub(crate) fn check_all(&self) {
        self.live.iter().for_each(|live| self.check(live, live.bytes));
    }

    /// Number of live allocations.
    pub(crate) fn len(&self) -> usize {
        self.live.len()
    }

    /// Bytes that they occupy.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Live> {
        self.live.iter()
    }
}
