//! The groups of a stack, and the heaps that serve `malloc` in them.
//!
//! A group that ends may have left objects in use: those that a library keeps, or another thread.
//! Their heap goes to the group above as a *rest*.

use super::instance::{Stack, StackConfig};
#[cfg(feature = "heaps")]
use crate::own_heap::{OwnHeapId, Use};
use crate::zone::GroupId;
#[cfg(feature = "heaps")]
use quarry_sys::os::OsResult;

impl<C: StackConfig> Stack<C> {
    /// Removes a group; returns false if it has file mappings, heaps of the program, parts, or
    /// threads inside. What `malloc` has handed out in it stays, charged to the group above.
    /// O(heaps).
    pub fn end_group(&self, id: GroupId) -> bool {
        if !self.groups.begin_end(id) {
            return false;
        }
        #[cfg(feature = "heaps")]
        {
            self.own.leave_group(&self.groups, id);
            if let Some(heap) =
                self.groups.get(id).and_then(|group| OwnHeapId::of_word(group.heap()))
            {
                self.own_rewind_rest(heap.number);
            }
        }
        self.groups.end(id);
        true
    }
}

#[cfg(feature = "heaps")]
impl<C: StackConfig> Stack<C> {
    /// The heap that serves `malloc` in a group that exists; makes it at the first call.
    ///
    /// # Errors
    /// The OS's refusal of memory.
    pub fn heap_of_group(&self, id: GroupId) -> OsResult<OwnHeapId> {
        let group = self.groups.at(id);
        if let Some(heap) = OwnHeapId::of_word(group.heap()) {
            return Ok(heap);
        }
        let made =
            self.own.create(group.name(), (id, Use::Group), u32::MAX, &self.built().metadata)?;
        let serves = group.set_heap(made.word());
        if serves != made.word() {
            // Another thread was first.
            let _ = self.destroy_own_heap(made);
        }
        Ok(OwnHeapId::of_word(serves).unwrap_or(made))
    }

    /// Gives back what heaps of a group and its parts hold beyond objects in use. O(heaps).
    pub fn own_make_room_in(&self, group: GroupId) {
        for (id, _) in self.own.each().filter(|(_, it)| self.groups.is_part(it.group(), group)) {
            self.own_make_room(id);
        }
    }
}
