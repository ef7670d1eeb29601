//! Registrations of shrinkers and callbacks with the budget, stored in the heap until removed.

use crate::error::Error;
use crate::instance::{STACK, zones};
use crate::{background, process};
use core::ptr::NonNull;
use quarry_mm::stack::StackHost;
use quarry_sys::confined::is_confined;
use quarry_sys::hooks::HookId;
use quarry_sys::primitive::futex;
use quarry_sys::report::fatal;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Shrinker(HookId),
    Pressure(HookId),
}

#[repr(C)]
struct Head {
    /// Identifies the memory as a registration: the result of [`seal_of`] for its address.
    seal: usize,
    kind: Option<Kind>,
    free: unsafe fn(NonNull<Head>),
}

fn seal_of(head: NonNull<u8>) -> usize {
    // The constant is odd and a head is aligned, so no aligned pointer is equal to a seal.
    head.addr().get() ^ 0x5ead_ca11_b0a7_1057_u64 as usize
}

#[repr(C)]
struct Block<T> {
    head: Head,
    value: T,
}

/// A registration of the program, which lasts until this is dropped.
///
/// Dropping waits while another thread runs the registered function, so the caller must not hold
/// anything that the function needs. If a registered function drops its own registration, the
/// process prints one line and aborts.
#[derive(Debug)]
#[must_use = "what is registered is removed when this is dropped"]
pub struct Registration(NonNull<Head>);

// SAFETY: any thread may use and drop a registered value (`of` demands `Send + Sync`).
unsafe impl Send for Registration {}
// SAFETY: a shared reference to a registration gives access to nothing.
unsafe impl Sync for Registration {}

impl Registration {
    pub(crate) fn of<T: Send + Sync + 'static>(
        value: T,
        (what, most): (&'static str, usize),
        register: impl FnOnce(*const T) -> Option<Kind>,
    ) -> Result<Self, Error> {
        unsafe fn free<T>(head: NonNull<Head>) {
            // SAFETY: `of` has put the head of a `Block<T>` there, which no code uses any more.
            unsafe {
                head.cast::<Block<T>>().drop_in_place();
                process::free(head.cast());
            }
        }
        let head = Head { seal: 0, kind: None, free: free::<T> };
        let block = process::boxed(Block { head, value }).ok_or(Error::NoMemory)?;
        // SAFETY: the block is ours.
        let value = unsafe {
            (*block.as_ptr()).head.seal = seal_of(block.cast());
            &raw const (*block.as_ptr()).value
        };
        let kind = register(value);
        // SAFETY: the head was just written, and code that calls the value does not know the head.
        unsafe { (*block.as_ptr()).head.kind = kind };
        let registration = Self(block.cast());
        if kind.is_none() {
            return Err(Error::TooMany { what, most });
        }
        zones().budget().keep_reserve();
        background::start_for_callbacks();
        Ok(registration)
    }

    /// An address for [`from_raw`](Self::from_raw); the value stays registered.
    #[must_use]
    pub fn into_raw(self) -> NonNull<u8> {
        let head = self.0.cast();
        core::mem::forget(self);
        head
    }

    /// Returns whether a registered value is at an address, which may be any number at all.
    #[must_use]
    pub fn is_at(address: NonNull<u8>) -> bool {
        let is_head = address.cast::<Head>().is_aligned()
            && (is_confined() || futex::reads_zero(address.addr().get()).is_some());
        // SAFETY: the kernel has just read this word, which lies in one page; in a confined process
        // the caller vouches for the address. Any contents are a number.
        is_head && unsafe { address.cast::<usize>().read_volatile() } == seal_of(address)
    }

    /// The registration at an address.
    ///
    /// # Safety
    /// [`into_raw`](Self::into_raw) has returned it, and no code uses it after this.
    pub unsafe fn from_raw(address: NonNull<u8>) -> Self {
        Self(address.cast())
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: the block lives until it is freed below.
        let Head { kind, free, .. } = unsafe { self.0.read() };
        let is_removed = match kind {
            Some(Kind::Shrinker(id)) => STACK.cached().shrinkers().remove(id),
            Some(Kind::Pressure(id)) => STACK.cached().pressure().remove(id),
            None => true,
        };
        if !is_removed {
            fatal(format_args!("a callback has dropped its own registration"));
        }
        // SAFETY: `of` stored this function for this block, which is not registered any more.
        unsafe {
            (*self.0.as_ptr()).seal = 0;
            free(self.0);
        }
    }
}
