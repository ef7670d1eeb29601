//! Tells the program that one of its own heaps, or a group, is at its limit.

use core::ffi::c_void;
use core::mem::transmute;
use quarry_mm::zone::Telling;
use quarry_sys::primitive::{task, timer};

/// A function of the program that is told of a request for `bytes` bytes which has reached a limit.
pub(crate) type OnPressure = unsafe extern "C" fn(argument: *mut c_void, bytes: usize);

/// Calls the function of the program, or waits for another thread that does; returns whether the
/// request should try again. Called outside the gate, without a lock.
pub(crate) fn tell(telling: &Telling, bytes: usize) -> bool {
    let me = task::current();
    loop {
        if let Some((function, argument)) = telling.begin(me) {
            // SAFETY: this crate sets only such functions.
            let function = unsafe { transmute::<usize, OnPressure>(function) };
            // SAFETY: who set the function allows calls of it with its argument on any thread.
            unsafe { function(argument as *mut c_void, bytes) };
            telling.end();
            return true;
        }
        match telling.teller() {
            0 => return false,
            // The function itself has made the request.
            teller if teller == me => return false,
            _ => timer::nap(),
        }
        if telling.teller() == 0 {
            return true;
        }
    }
}
