//! Tells the program that one of its own heaps is at its limit.

use crate::instance::STACK;
use core::ffi::c_void;
use core::mem::transmute;
use quarry_mm::own_heap::OwnHeapId;
use quarry_sys::primitive::{task, timer};

/// A function of the program that is told of a request for `bytes` bytes which has reached the
/// limit of a heap.
pub(crate) type OnPressure = unsafe extern "C" fn(argument: *mut c_void, bytes: usize);

/// Tells the program that a heap is at its limit, or waits for another thread that does; returns
/// whether the request should try again. Called outside the gate, without a lock.
pub(crate) fn tell(id: OwnHeapId, bytes: usize) -> bool {
    let Some(heap) = STACK.own.heap(id.number) else { return false };
    let me = task::current();
    loop {
        if let Some((function, argument)) = heap.begin_telling(me) {
            // SAFETY: `set_pressure` of this crate stores only such functions.
            let function = unsafe { transmute::<usize, OnPressure>(function) };
            // SAFETY: who set the function allows calls of it with its argument on any thread.
            unsafe { function(argument as *mut c_void, bytes) };
            heap.end_telling();
            return true;
        }
        match heap.teller() {
            0 => return false,
            // The function itself has made the request.
            teller if teller == me => return false,
            _ => timer::nap(),
        }
        if heap.teller() == 0 {
            return true;
        }
    }
}
