//! Groups of the process, and the threads inside them.
//!
//! The first thread that enters a group closes the fast path of `malloc` for good (an
//! [instrument](quarry_mm::stack::Instrument)): from then on each request looks which group its
//! thread is inside. A thread's [note](thread_note) is the number of the own heap that serves it;
//! 0: none. Processes in which no thread enters a group pay nothing, and `free` never does: it
//! refuses frames of own heaps already.

use crate::at_limit::tell;
use crate::balancer::{Balancer, Cache};
use crate::error::Error;
use crate::instance::STACK;
use crate::process::{alloc_own, giving_back, on_instance};
use core::ffi::c_void;
use quarry_mm::frame::FRAME_BYTES;
use quarry_mm::heap::classes;
use quarry_mm::own_heap::OwnHeapId;
use quarry_mm::stack::{Instrument, MIN_ALIGN, Request, StackHost};
use quarry_mm::zone::GroupId;
use quarry_sys::clear::clear;
use quarry_sys::own_stack;
use quarry_sys::percpu::Object;
use quarry_sys::thread_note;

/// The heap with this number, which lives.
fn heap_of(number: u32) -> OwnHeapId {
    let generation = STACK.own.heap(number).map_or(0, |heap| heap.generation());
    OwnHeapId { number, generation }
}

fn group_of(note: u32) -> GroupId {
    STACK.own.heap(note).map_or(GroupId::ROOT, |heap| heap.group())
}

fn have_been_entered() -> bool {
    STACK.instruments.has(Instrument::Groups)
}

/// The group that the running thread is inside.
pub(crate) fn current() -> GroupId {
    if have_been_entered() { group_of(thread_note::get()) } else { GroupId::ROOT }
}

/// Puts the running thread into a group, or the root; returns the group that it was inside before.
///
/// # Errors
/// [`Error::NoSuchGroup`], or [`Error::NoMemory`].
pub(crate) fn enter(id: GroupId) -> Result<GroupId, Error> {
    let before = current();
    if id == before {
        return Ok(before);
    }
    if !STACK.groups.enter(id) {
        return Err(Error::NoSuchGroup { number: id.0.into() });
    }
    let is_inside = note_of(id).is_some_and(thread_note::set);
    STACK.groups.exit(if is_inside { before } else { id });
    if is_inside { Ok(before) } else { Err(Error::NoMemory) }
}

/// The note of threads inside a group.
fn note_of(id: GroupId) -> Option<u32> {
    if id == GroupId::ROOT {
        return Some(0);
    }
    if !thread_note::prepare(thread_ended) {
        return None;
    }
    let heap = match STACK.groups.at(id).heap() {
        0 => giving_back(|| own_stack::run(|| STACK.heap_of_group(id))).ok()?.number,
        known => known as u32,
    };
    if !have_been_entered() {
        STACK.switch_instrument(Instrument::Groups, true);
    }
    Some(heap)
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

/// A thread has ended inside a group, or a destructor before this one has put it into one.
unsafe extern "C" fn thread_ended(note: *mut c_void) {
    STACK.groups.exit(group_of(note.addr() as u32));
    // The value of the key is null already.
    thread_note::set(0);
}

/// In the child of a fork, where other threads are lost.
pub(crate) fn adopt_in_child(me: usize) {
    if have_been_entered() {
        STACK.groups.adopt_in_child(me, current());
    }
    STACK.own.each().for_each(|(_, heap)| heap.telling.adopt(me));
}

/// Serves a request that the fast path has refused, after a thread of the process has entered a
/// group. `None`: the thread is inside none, and its CPU has no object at hand. Keeps `errno`.
#[inline(never)]
pub(crate) fn serve(request: Request) -> Option<Option<Object>> {
    let Request { size, align, zeroed } = request;
    let (note, is_plain) = (thread_note::get(), align <= MIN_ALIGN);
    let at_hand = match note {
        _ if !is_plain => None,
        0 if size <= classes::LARGEST && STACK.instruments.is_only(Instrument::Groups) => {
            STACK.fast.alloc_closed(size)
        }
        0 => None,
        heap => STACK.own_take(heap_of(heap), size),
    };
    if let Some(object) = at_hand {
        if zeroed {
            // SAFETY: the object has at least `size` bytes, and only we know it.
            unsafe { clear(object, size) };
        }
        return Some(Some(object));
    }
    (note != 0).then(|| alloc_own(heap_of(note), request, "malloc"))
}

/// Makes room in a group that a request for `size` bytes has met the max limit of; returns whether
/// the request may have room now. `tells`: also by calling the function of the program.
pub(crate) fn make_room(id: GroupId, size: usize, tells: bool) -> bool {
    if tells {
        return STACK.groups.get(id).is_some_and(|group| tell(&group.telling, size));
    }
    let used = || STACK.groups.get(id).map_or(0, |group| group.used());
    let before = used();
    on_instance(size, || {
        STACK.own_make_room_in(id);
        let mut missing = size.div_ceil(FRAME_BYTES);
        while missing > 0 {
            let freed = Cache::reclaim_group(id);
            missing = if freed == 0 { 0 } else { missing.saturating_sub(freed) };
        }
    });
    used() < before
}
