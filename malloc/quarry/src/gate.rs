//! The gate of the instance: a thread on a slow path is inside, and `fork` closes it.

use crate::instance::{STACK, is_ready};
use quarry_mm::stack::StackHost;
use quarry_sys::gate::{Gate, GateGuard};
use quarry_sys::percpu::PerCpu;

pub(crate) static GATE: Gate = Gate::new();

/// Enters the gate for a slow path; a fork waits until the guard is dropped. May change `errno`.
#[inline]
pub(crate) fn enter() -> GateGuard<'static> {
    // Before the instance is ready, a thread cannot ask on which CPU it runs.
    GATE.enter(|| if is_ready() { STACK.percpu().current().index() } else { 0 })
}

/// Like [`enter`], but only if the gate is open. Never waits.
pub(crate) fn try_enter() -> Option<GateGuard<'static>> {
    GATE.try_enter(STACK.percpu().current().index())
}

pub(crate) fn with_all_outside<T>(look: impl FnOnce() -> T) -> T {
    GATE.close();
    let seen = look();
    GATE.open();
    seen
}
