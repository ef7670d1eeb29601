//! The measurements of the documents on 16 to 88 CPUs, predicted on a simulated machine.
//!
//! The program `quarry-predict` computes the predictions, and `quarry lab predict` starts it. It is
//! a program of its own because it is built with `--cfg quarry_sim`: the machine under `quarry-sys`
//! is chosen when a program is built. This library has the types that the two programs exchange.

mod cell;
mod printed;
mod skill;

pub use cell::{Cell, Scored, find, gain};
pub use printed::{Fit, Moved, Printed, Shown, Supposed};
pub use skill::{Score, Skill, skill};
