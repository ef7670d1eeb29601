//! What the program has registered with the budget: it lives in the heap until it is removed.

use crate::instance::STACK;
use crate::process;
use core::ptr::NonNull;
use quarry_core::stack::Request;
use quarry_sys::hooks::HookId;
use quarry_sys::report::fatal;

/// Why something was not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetError {
    /// There are as many as there can be.
    TooMany,
    /// There is no memory.
    NoMemory,
}

impl core::fmt::Display for BudgetError {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        out.write_str(match self {
            Self::TooMany => "as many are registered as there can be",
            Self::NoMemory => "there is no memory for it",
        })
    }
}

impl core::error::Error for BudgetError {}

/// Where something is registered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Among the shrinkers.
    Shrinker(HookId),
    /// Among those that are told of pressure.
    Pressure(HookId),
}

/// Something of the program's that is registered until this is dropped.
///
/// Dropping waits for a call that is under way on another thread: the caller holds nothing that the
/// call needs. A function that is registered must not drop its own registration; one line says so,
/// and the process ends.
#[derive(Debug)]
#[must_use = "what is registered is removed when this is dropped"]
pub struct Registration {
    kind: Kind,
    object: NonNull<u8>,
    free: unsafe fn(NonNull<u8>),
}

// SAFETY: what is registered may be used and dropped by any thread (`of`).
unsafe impl Send for Registration {}
// SAFETY: a shared registration does nothing.
unsafe impl Sync for Registration {}

impl Registration {
    /// Moves `value` into the heap, and registers it.
    pub(crate) fn of<T: Send + Sync + 'static>(
        value: T,
        register: impl FnOnce(*const T) -> Option<Kind>,
    ) -> Result<Self, BudgetError> {
        unsafe fn free<T>(object: NonNull<u8>) {
            // SAFETY: a `T` that `of` has put there, which nobody uses any more; the block came
            // from the heap.
            unsafe {
                object.cast::<T>().drop_in_place();
                process::free(object);
            }
        }
        let request = Request::of(size_of::<T>().max(1)).aligned(align_of::<T>());
        let object = process::alloc(request).ok_or(BudgetError::NoMemory)?;
        // SAFETY: the block has room for a `T`, at a multiple of its alignment, and is ours.
        unsafe { object.cast::<T>().write(value) };
        match register(object.cast::<T>().as_ptr()) {
            Some(kind) => Ok(Self { kind, object, free: free::<T> }),
            None => {
                // SAFETY: as `free` asks; nobody knows it.
                unsafe { free::<T>(object) };
                Err(BudgetError::TooMany)
            }
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let is_removed = match self.kind {
            Kind::Shrinker(id) => STACK.shrinkers().remove(id),
            Kind::Pressure(id) => STACK.pressure().remove(id),
        };
        if !is_removed {
            fatal(format_args!("a callback has dropped its own registration"));
        }
        // SAFETY: made by `of` with this function, and no longer registered.
        unsafe { (self.free)(self.object) };
    }
}
