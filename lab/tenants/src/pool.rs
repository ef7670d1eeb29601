//! A memory pool of DataFusion that asks a group what its query is charged for.

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use quarry::Group;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const MIB: usize = 1 << 20;

/// A reservation that would bring the group's charge above the limit fails; then operators spill,
/// or the query fails. The engine reserves little of what it allocates ahead, so the charge may
/// exceed the limit by what it has not asked for.
#[derive(Debug)]
pub struct GroupPool {
    name: &'static str,
    group: Group,
    limit: usize,
    reserved: AtomicUsize,
    /// Charged and reserved bytes at each change.
    samples: Mutex<Vec<(usize, usize)>>,
}

impl GroupPool {
    /// A pool of the query in this group.
    pub fn new(name: &'static str, group: Group, limit: usize) -> Self {
        let (reserved, samples) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(1 << 16)));
        Self { name, group, limit, reserved, samples }
    }

    /// The samples so far.
    pub fn samples(&self) -> Vec<(usize, usize)> {
        self.samples.lock().expect("no panic under this lock").clone()
    }

    fn change(&self, to: impl Fn(usize) -> usize) {
        let before = self.reserved.fetch_update(Relaxed, Relaxed, |now| Some(to(now)));
        let reserved = before.map_or(0, to);
        let mut samples = self.samples.lock().expect("no panic under this lock");
        samples.push((self.group.used(), reserved));
    }
}

impl fmt::Display for GroupPool {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "group {}", self.name)
    }
}

impl MemoryPool for GroupPool {
    fn name(&self) -> &str {
        self.name
    }

    fn grow(&self, _: &MemoryReservation, additional: usize) {
        self.change(|now| now + additional);
    }

    fn shrink(&self, _: &MemoryReservation, shrink: usize) {
        self.change(|now| now - shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let used = self.group.used();
        if used.saturating_add(additional) > self.limit {
            return Err(DataFusionError::ResourcesExhausted(format!(
                "group {}: {} asks for {additional} bytes beside {} MiB of {}",
                self.name,
                reservation.consumer().name(),
                used / MIB,
                self.limit / MIB,
            )));
        }
        self.grow(reservation, additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.reserved.load(Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit)
    }
}
