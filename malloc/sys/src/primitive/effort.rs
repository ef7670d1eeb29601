//! Announces the time that critical sections take besides their accesses to shared memory.
//!
//! A simulated machine counts accesses to shared memory, not instructions: without these calls a
//! critical section would take no time. In products, and under the model, the calls are empty.

use super::backend::machine;
pub use super::machine::Effort;

/// Announces that the running task has done this work `count` times.
#[inline(always)]
pub fn spend(effort: Effort, count: usize) {
    if let Some(machine) = machine() {
        machine.effort(effort, count);
    }
}
