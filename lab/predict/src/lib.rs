//! The measurements of the documents on 16 to 88 CPUs, predicted on a simulated machine.
//!
//! The program `quarry-predict` is built with `--cfg quarry_sim`, because a program chooses the
//! machine behind the seam of `quarry-sys` when it is built; `quarry lab predict` starts it. This
//! crate is what the two say to each other.

mod cell;
mod printed;
mod skill;

pub use cell::{Cell, Scored, find, gain};
pub use printed::{Fit, Moved, Printed, Shown, Supposed};
pub use skill::{Score, Skill, skill};
