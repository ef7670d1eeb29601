//! The shortage of memory in three levels, and the callbacks for it (`vmpressure`, Linux 3.10).
//!
//! The level follows from the part that a reclaim frees of each 512 pages and objects that it looks
//! at: at most 40 % means medium, at most 5 % critical. The level is critical, too, once one pass
//! looks at an eighth of everything. The callbacks run only when the level changes.

use super::shrinkers::Shrunk;
use quarry_mm::stack::Pressure;
use quarry_sys::hooks::{HookId, Hooks};
use quarry_sys::primitive::{AtomicU8, Ordering::Relaxed};

/// Maximum number of callbacks of a stack.
pub const MOST_CALLBACKS: usize = 16;
/// Fewest pages and objects of a window (`vmpressure_win`, Linux 3.10: 16 `SWAP_CLUSTER_MAX`).
const WINDOW: u64 = 512;
/// A window is medium, or critical, if at least this percentage of it is not freed (Linux 3.10).
const MEDIUM: u64 = 60;
const CRITICAL: u64 = 95;
/// At this priority and below, the level is critical in any case (Linux 3.10).
const CRITICAL_PRIORITY: u32 = 3;

#[derive(Clone, Copy)]
struct Callback {
    context: *const (),
    call: unsafe fn(*const (), Pressure),
}

// SAFETY: the caller that registers it promises that any thread may call it.
unsafe impl Send for Callback {}

/// The level of a stack, and its callbacks. All zero bytes at first.
pub struct PressureEvents {
    level: AtomicU8,
    /// The least level, because the system is short of memory.
    outside: AtomicU8,
    callbacks: Hooks<Callback, MOST_CALLBACKS>,
}

impl PressureEvents {
    pub(super) const fn new() -> Self {
        Self { level: AtomicU8::new(0), outside: AtomicU8::new(0), callbacks: Hooks::new() }
    }

    /// Registers a callback; `None` if there are too many.
    ///
    /// # Safety
    /// Any thread may call `call` with `context`, until [`remove`](Self::remove) returns true.
    pub unsafe fn add(
        &self,
        context: *const (),
        call: unsafe fn(*const (), Pressure),
    ) -> Option<HookId> {
        self.callbacks.add(Callback { context, call })
    }

    /// Removes a callback; waits for a running call. False if the calling thread is in that call.
    pub fn remove(&self, id: HookId) -> bool {
        self.callbacks.remove(id).is_ok()
    }

    /// The level of the last balance.
    #[must_use]
    pub fn level(&self) -> Pressure {
        level_from(self.level.load(Relaxed))
    }

    pub(super) fn outside(&self) -> Pressure {
        level_from(self.outside.load(Relaxed))
    }

    /// Tells no level below this from now on.
    pub(super) fn note_outside(&self, level: Pressure) {
        self.outside.store(level as u8, Relaxed);
        if level > self.level() {
            self.tell(level);
        }
    }

    pub(super) fn tell(&self, level: Pressure) {
        let level = level.max(self.outside());
        if self.level.swap(level as u8, Relaxed) != level as u8 {
            // SAFETY: the callback is registered, so it may be called.
            self.callbacks.for_each(|one| unsafe { (one.call)(one.context, level) });
        }
    }

    pub(super) fn adopt_in_child(&self) {
        self.callbacks.adopt_in_child();
    }
}

fn level_from(number: u8) -> Pressure {
    match number {
        0 => Pressure::None,
        1 => Pressure::Low,
        2 => Pressure::Medium,
        _ => Pressure::Critical,
    }
}

/// The level of a reclaim at a priority, after the work of this window.
pub(super) fn level_of(window: &mut Shrunk, priority: u32, last: Pressure) -> Pressure {
    let Shrunk { scanned, freed } = *window;
    if priority <= CRITICAL_PRIORITY {
        return Pressure::Critical;
    }
    if scanned < WINDOW {
        return last.max(Pressure::Low);
    }
    *window = Shrunk::default();
    match (scanned - freed.min(scanned)) * 100 / scanned {
        CRITICAL.. => Pressure::Critical,
        MEDIUM.. => Pressure::Medium,
        _ => Pressure::Low,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_sys::primitive::AtomicU32;

    #[test]
    fn levels_follow_from_what_a_scan_frees() {
        let level = |scanned, freed, priority| {
            level_of(&mut Shrunk { scanned, freed }, priority, Pressure::None)
        };
        assert_eq!(level(511, 0, 12), Pressure::Low, "too few to say");
        assert_eq!(level(512, 512, 12), Pressure::Low);
        assert_eq!(level(1000, 400, 12), Pressure::Medium);
        assert_eq!(level(1000, 401, 12), Pressure::Low);
        assert_eq!(level(1000, 50, 12), Pressure::Critical);
        assert_eq!(level(0, 0, 3), Pressure::Critical);
        assert_eq!(level(600, 700, 4), Pressure::Low, "more was freed than was looked at");
    }

    #[test]
    fn callbacks_hear_each_change_once() {
        unsafe fn count(context: *const (), level: Pressure) {
            // SAFETY: the context is the counter below.
            let heard = unsafe { &*context.cast::<AtomicU32>() };
            heard.fetch_add(1 << (8 * level as u32), Relaxed);
        }
        let (events, heard) = (PressureEvents::new(), AtomicU32::new(0));
        // SAFETY: the counter lives to the end.
        let id = unsafe { events.add((&raw const heard).cast(), count) }.expect("a free place");
        for level in [Pressure::None, Pressure::Low, Pressure::Low, Pressure::Critical] {
            events.tell(level);
        }
        events.tell(Pressure::Low);
        events.tell(Pressure::None);
        assert_eq!(heard.load(Relaxed), 0x0100_0201);
        events.note_outside(Pressure::Medium);
        events.tell(Pressure::Low);
        assert_eq!((heard.load(Relaxed), events.level()), (0x0101_0201, Pressure::Medium));
        events.note_outside(Pressure::None);
        events.tell(Pressure::None);
        assert_eq!(heard.load(Relaxed), 0x0101_0202);
        assert!(events.remove(id));
        events.tell(Pressure::Medium);
        assert_eq!((heard.load(Relaxed), events.level()), (0x0101_0202, Pressure::Medium));
    }
}
