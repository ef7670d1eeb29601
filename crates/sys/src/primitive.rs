//! The one seam through which all shared state reaches its atomics.
//!
//! Under `--cfg quarry_model` the same names are thin wrappers that give shuttle a scheduling point
//! in front of every operation, so that a model checker decides every interleaving; elsewhere they
//! are core's own and cost nothing. The wrappers have the size, the alignment and the zero value of
//! core's atomics, so that arrays of them may lie in freshly mapped memory under the model too.
//!
//! The model is sequentially consistent: it finds wrong interleavings, not wrong memory orders.

#[cfg(not(quarry_model))]
pub use core::sync::atomic::{
    AtomicBool, AtomicI64, AtomicIsize, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    AtomicUsize, Ordering, fence,
};

#[cfg(quarry_model)]
pub use model::{
    AtomicBool, AtomicI64, AtomicIsize, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    AtomicUsize, Ordering, fence, point,
};

/// Tells the CPU (or the model checker) that this thread waits for another.
#[inline]
pub fn relax() {
    #[cfg(not(quarry_model))]
    core::hint::spin_loop();
    #[cfg(quarry_model)]
    model::relax();
}

#[cfg(quarry_model)]
mod model {
    use core::sync::atomic as real;
    pub use real::Ordering;

    /// A place where the model checker may let another thread run. Nothing outside a model test.
    pub fn point() {
        if shuttle::current::try_get_current_task().is_some() {
            // Shuttle's only scheduling point that is not a plea to be scheduled last.
            shuttle::sync::atomic::AtomicBool::new(false).load(Ordering::SeqCst);
        }
    }

    pub(super) fn relax() {
        if shuttle::current::try_get_current_task().is_some() {
            shuttle::thread::yield_now();
        } else {
            std::thread::yield_now();
        }
    }

    /// Orders nothing: the model is sequentially consistent already.
    pub fn fence(_order: Ordering) {
        point();
    }

    macro_rules! atomic {
        ($name:ident, $value:ty, $($generic:ident)?) => {
            /// The atomic of core with a scheduling point in front of every operation.
            #[repr(transparent)]
            #[derive(Debug)]
            pub struct $name$(<$generic>)?(real::$name$(<$generic>)?);

            impl$(<$generic>)? $name$(<$generic>)? {
                /// A new atomic.
                pub const fn new(value: $value) -> Self {
                    Self(real::$name::new(value))
                }

                /// The atomic itself, for one step that has had its scheduling point already.
                pub fn raw(&self) -> &real::$name$(<$generic>)? {
                    &self.0
                }

                /// As core's.
                pub fn load(&self, _order: Ordering) -> $value {
                    point();
                    self.0.load(Ordering::SeqCst)
                }

                /// As core's.
                pub fn store(&self, value: $value, _order: Ordering) {
                    point();
                    self.0.store(value, Ordering::SeqCst);
                }

                /// As core's.
                pub fn swap(&self, value: $value, _order: Ordering) -> $value {
                    point();
                    self.0.swap(value, Ordering::SeqCst)
                }

                /// As core's.
                ///
                /// # Errors
                /// The value found, where it is not `current`.
                pub fn compare_exchange(
                    &self,
                    current: $value,
                    new: $value,
                    _success: Ordering,
                    _failure: Ordering,
                ) -> Result<$value, $value> {
                    point();
                    self.0.compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst)
                }

                /// As core's; may fail although the value is `current`.
                ///
                /// # Errors
                /// The value found.
                pub fn compare_exchange_weak(
                    &self,
                    current: $value,
                    new: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    let unlucky = shuttle::current::try_get_current_task().is_some()
                        && shuttle::rand::RngCore::next_u32(&mut shuttle::rand::thread_rng())
                            .is_multiple_of(8);
                    if unlucky {
                        return Err(self.load(failure));
                    }
                    self.compare_exchange(current, new, success, failure)
                }

                /// As core's.
                ///
                /// # Errors
                /// The value for which `update` had no answer.
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
                    pub fn $method(&self, value: $value, _order: Ordering) -> $value {
                        point();
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
}
