//! Groups of the process, and the threads inside them.
//!
//! The first thread that enters a group closes the fast path of `malloc` for good (an
//! [instrument](quarry_mm::stack::Instrument)): from then on each request looks which group its
//! thread is inside. Processes in which no thread enters a group pay nothing, and `free` never
//! does: it refuses frames of own heaps already.

use crate::error::Error;
use crate::inside::{current, group_of, have_been_entered};
use crate::instance::STACK;
use crate::process::giving_back;
use core::ffi::c_void;
use quarry_mm::stack::{Instrument, StackHost};
use quarry_mm::zone::GroupId;
use quarry_sys::own_stack;
use quarry_sys::thread_note;

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

/// A thread has ended inside a group, or a destructor before this one has put it into one.
unsafe extern "C" fn thread_ended(note: *mut c_void) {
    STACK.groups.exit(group_of(note.addr() as u32));
    // The value of the key is null already.
    thread_note::set(0);
}
