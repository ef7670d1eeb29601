//! `quarry-mm` with another default slab policy, the one that `QUARRY_BUILD_SLAB` names when this
//! crate is compiled: what the sources of `libquarry.so` are compiled with for `libquarry-NAME.so`.
#![no_std]

pub use quarry_mm::*;

/// As in `quarry-mm`, but for the default.
pub mod slab {
    use quarry_eras::slab::{Line, Registered, line_of};
    pub use quarry_mm::slab::*;

    const LINE: usize = match option_env!("QUARRY_BUILD_SLAB") {
        Some(name) => line_of(name),
        None => 0,
    };

    /// The policy that `QUARRY_BUILD_SLAB` names.
    pub type DefaultSlab = <Line<LINE> as Registered>::Policy;
}
