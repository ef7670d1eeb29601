//! Atomics that report each operation to a model checker or simulated machine beforehand, and the
//! code that makes it.

use super::backend::{before, fails_weakly};
use super::machine::Access;
use core::sync::atomic as real;
pub use real::Ordering;

/// Only reports an operation: with these backends everything is sequentially consistent already.
pub fn fence(_order: Ordering) {
    before(0, 0, Access::Update);
}

macro_rules! atomic {
    ($name:ident, $value:ty, $($generic:ident)?) => {
        /// An atomic of `core` that reports every operation beforehand.
        #[repr(transparent)]
        #[derive(Debug)]
        pub struct $name$(<$generic>)?(real::$name$(<$generic>)?);

        impl$(<$generic>)? $name$(<$generic>)? {
            /// A new atomic.
            pub const fn new(value: $value) -> Self {
                Self(real::$name::new(value))
            }

            #[track_caller]
            fn report(&self, access: Access) {
                before(std::ptr::from_ref(self) as usize, size_of::<Self>(), access);
            }

            /// The atomic of `core`, for a step that has been reported already.
            pub fn raw(&self) -> &real::$name$(<$generic>)? {
                &self.0
            }

            /// As core's.
            #[track_caller]
            pub fn load(&self, _order: Ordering) -> $value {
                self.report(Access::Read);
                self.0.load(Ordering::SeqCst)
            }

            /// As core's.
            #[track_caller]
            pub fn store(&self, value: $value, _order: Ordering) {
                self.report(Access::Write);
                self.0.store(value, Ordering::SeqCst);
            }

            /// As core's.
            #[track_caller]
            pub fn swap(&self, value: $value, _order: Ordering) -> $value {
                self.report(Access::Update);
                self.0.swap(value, Ordering::SeqCst)
            }

            /// As core's.
            ///
            /// # Errors
            /// The value found, where it is not `current`.
            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                _success: Ordering,
                _failure: Ordering,
            ) -> Result<$value, $value> {
                self.report(Access::Update);
                self.0.compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst)
            }

            /// As core's; may fail although the value is `current`.
            ///
            /// # Errors
            /// The value found.
            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                if fails_weakly() {
                    return Err(self.load(failure));
                }
                self.compare_exchange(current, new, success, failure)
            }

            /// As core's.
            ///
            /// # Errors
            /// The value that `update` refused.
            #[track_caller]
            pub fn fetch_update(
                &self,
                set_order: Ordering,
                fetch_order: Ordering,
                mut update: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut seen = self.load(fetch_order);
                while let Some(new) = update(seen) {
                    match self.compare_exchange_weak(seen, new, set_order, fetch_order) {
                        Ok(old) => return Ok(old),
                        Err(now) => seen = now,
                    }
                }
                Err(seen)
            }

            /// As core's.
            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            /// As core's.
            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }

            /// As core's.
            pub const fn as_ptr(&self) -> *mut $value {
                self.0.as_ptr()
            }
        }
    };
}

macro_rules! update {
    ($name:ident, $value:ty, $($method:ident)+) => {
        impl $name {
            $(
                /// As core's.
                #[track_caller]
                pub fn $method(&self, value: $value, _order: Ordering) -> $value {
                    self.report(Access::Update);
                    self.0.$method(value, Ordering::SeqCst)
                }
            )+
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new(Default::default())
            }
        }
    };
}

macro_rules! integer {
    ($($name:ident $value:ty),+) => {
        $(
            atomic!($name, $value,);
            update!(
                $name, $value,
                fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min
            );
        )+
    };
}

integer!(AtomicU8 u8, AtomicU16 u16, AtomicU32 u32, AtomicU64 u64, AtomicUsize usize);
integer!(AtomicI64 i64, AtomicIsize isize);
atomic!(AtomicBool, bool,);
update!(AtomicBool, bool, fetch_and fetch_or fetch_xor);
atomic!(AtomicPtr, *mut T, T);
