//! What the documents measured on 16 to 88 CPUs, predicted on a simulated machine.
//!
//! The program `quarry-predict` is built with `--cfg quarry_sim`, because what stands behind the
//! seam of `quarry-sys` is chosen when a program is built; `quarry lab predict` starts it. This
//! crate is what the two say to each other.

mod cell;
mod printed;

pub use cell::{Cell, find, gain};
pub use printed::{Moved, Printed, Shown, Supposed};
