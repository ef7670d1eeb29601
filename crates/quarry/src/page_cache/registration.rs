//! What the program has registered with the budget: it lives in the heap until it is removed.

use crate::instance::STACK;
use crate::process;
use core::ptr::NonNull;
use quarry_cache::CachingStack;
use quarry_mm::stack::Request;
use quarry_sys::confined::is_confined;
use quarry_sys::hooks::HookId;
use quarry_sys::primitive::futex;
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

/// What stands in front of a registered value.
#[repr(C)]
struct Head {
    /// Says that this is one: follows from its address.
    seal: usize,
    kind: Option<Kind>,
    free: unsafe fn(NonNull<Head>),
}

fn seal_of(head: NonNull<u8>) -> usize {
    // Any odd number will do: no pointer is that far from itself.
    head.addr().get() ^ 0x5ead_ca11_b0a7_1057_u64 as usize
}

#[repr(C)]
struct Block<T> {
    head: Head,
    value: T,
}

/// Something of the program's that is registered until this is dropped.
///
/// Dropping waits for a call that is under way on another thread: the caller holds nothing that the
/// call needs. A function that is registered must not drop its own registration; one line says so,
/// and the process ends.
#[derive(Debug)]
#[must_use = "what is registered is removed when this is dropped"]
pub struct Registration(NonNull<Head>);

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
        unsafe fn free<T>(head: NonNull<Head>) {
            // SAFETY: the head of a `Block<T>` that `of` has put there, which nobody uses any more;
            // it came from the heap.
            unsafe {
                head.cast::<Block<T>>().drop_in_place();
                process::free(head.cast());
            }
        }
        let request = Request::of(size_of::<Block<T>>()).aligned(align_of::<Block<T>>());
        let block = process::alloc(request).ok_or(BudgetError::NoMemory)?.cast::<Block<T>>();
        // SAFETY: there is room for a block, at a multiple of its alignment, and it is ours; the
        // address of its value is inside.
        let value = unsafe {
            let seal = seal_of(block.cast());
            block.write(Block { head: Head { seal, kind: None, free: free::<T> }, value });
            &raw const (*block.as_ptr()).value
        };
        let kind = register(value);
        // SAFETY: it was just written; whoever calls the value does not know the head.
        unsafe { (*block.as_ptr()).head.kind = kind };
        let registration = Self(block.cast());
        if kind.is_some() { Ok(registration) } else { Err(BudgetError::TooMany) }
    }

    /// An address for [`from_raw`](Self::from_raw); what is registered stays so.
    #[must_use]
    pub fn into_raw(self) -> NonNull<u8> {
        let head = self.0.cast();
        core::mem::forget(self);
        head
    }

    /// Returns whether something is registered at an address, which may be any number.
    #[must_use]
    pub fn is_at(address: NonNull<u8>) -> bool {
        let is_head = address.cast::<Head>().is_aligned()
            && (is_confined() || futex::reads_zero(address.addr().get()).is_some());
        // SAFETY: the kernel has just read there, and the word lies in one page. Whatever is there
        // is a number.
        is_head && unsafe { address.cast::<usize>().read_volatile() } == seal_of(address)
    }

    /// The registration of an address.
    ///
    /// # Safety
    /// [`into_raw`](Self::into_raw) has returned it, and nobody uses it after this.
    pub unsafe fn from_raw(address: NonNull<u8>) -> Self {
        Self(address.cast())
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: the block lives until it is freed below.
        let Head { kind, free, .. } = unsafe { self.0.read() };
        let is_removed = match kind {
            Some(Kind::Shrinker(id)) => STACK.shrinkers().remove(id),
            Some(Kind::Pressure(id)) => STACK.pressure().remove(id),
            None => true,
        };
        if !is_removed {
            fatal(format_args!("a callback has dropped its own registration"));
        }
        // SAFETY: made by `of` with this function, and no longer registered.
        unsafe {
            (*self.0.as_ptr()).seal = 0;
            free(self.0);
        }
    }
}
