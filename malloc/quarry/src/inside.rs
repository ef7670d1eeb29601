//! The groups that the threads of the process are inside.
//!
//! A thread's [note](thread_note) is the number of the own heap that serves it; 0: none.

use crate::instance::STACK;
use quarry_mm::heap::classes;
use quarry_mm::own_heap::{LARGEST, OwnHeapId};
use quarry_mm::stack::Instrument;
use quarry_mm::zone::GroupId;
use quarry_sys::percpu::Object;
use quarry_sys::primitive::task;
use quarry_sys::thread_note;

/// The heap that serves the running thread, which lives; `None` outside of groups.
pub(crate) fn heap() -> Option<OwnHeapId> {
    let number = if have_been_entered() { thread_note::get() } else { 0 };
    let heap = STACK.own.heap(number).filter(|_| number != 0)?;
    Some(OwnHeapId { number, generation: heap.generation() })
}

/// See [`process::alloc_at_hand`](crate::process::alloc_at_hand).
#[inline(always)]
pub(crate) fn alloc_at_hand(size: usize) -> Option<Object> {
    if size > classes::LARGEST || !STACK.instruments.has(Instrument::Groups) {
        return None;
    }
    match thread_note::get() {
        0 if STACK.instruments.are_only_groups() => STACK.fast.alloc_of(classes::of(size)),
        0 => None,
        _ if size > LARGEST || STACK.instruments.has(Instrument::Profile) => None,
        note => {
            let class = classes::of(size).index() as u8;
            Object::new(STACK.own.heap(note)?.take_at_hand(class) as *mut u8)
        }
    }
}

/// The group of the threads with this note.
pub(crate) fn group_of(note: u32) -> GroupId {
    STACK.own.heap(note).map_or(GroupId::ROOT, |heap| heap.group())
}

/// Returns whether a thread of the process has ever entered a group.
pub(crate) fn have_been_entered() -> bool {
    STACK.instruments.has(Instrument::Groups)
}

/// The group that the running thread is inside.
pub(crate) fn current() -> GroupId {
    if have_been_entered() { group_of(thread_note::get()) } else { GroupId::ROOT }
}

/// Runs `work` of Quarry's own, which may allocate, outside of all groups.
pub(crate) fn outside<T>(work: impl FnOnce() -> T) -> T {
    let note = if have_been_entered() { thread_note::get() } else { 0 };
    if note == 0 {
        return work();
    }
    thread_note::set(0);
    let done = work();
    thread_note::set(note);
    done
}

/// In the child of a fork, where other threads are lost.
pub(crate) fn adopt_in_child() {
    STACK.groups.adopt_in_child(task::current(), current());
}
