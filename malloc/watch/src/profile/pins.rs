//! Samples that stay in their slabs, among the objects that they keep memory with.
//!
//! Usual samples lie in pages of their own, so they say nothing of slabs. No code sees the free of
//! a pin: it is known to have died if its address is handed out again, or if it is free in its slab
//! when the profile ends. (A freed object that is still parked on another CPU then counts as in
//! use.)

use super::records::MOST_RECORDS;
use quarry_mm::frame::{OsArray, fresh_zero};
use quarry_sys::os::{Os, OsResult};
use quarry_sys::primitive::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Pins whose addresses have the same hash; one that finds no place is lost.
const WAYS: usize = 4;
/// In place of an address: a task is writing the pin.
const WRITING: u64 = 1;

fresh_zero! {
    /// The addresses of the pins of one hash, 0 for none: half a cache line.
    #[repr(align(32))]
    struct Set {
        addresses: [AtomicU64; WAYS],
    }
}

fresh_zero! {
    struct Record {
        size: AtomicU64,
        /// When the object was allocated, by the coarse clock.
        born_ns: AtomicU64,
        bucket: AtomicU32,
        unused: AtomicU32,
    }
}

/// A sampled object in a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pin {
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) born_ns: u64,
    pub(super) bucket: u32,
}

pub(super) struct Pins {
    sets: OsArray<Set>,
    records: OsArray<Record>,
}

impl Pins {
    pub(super) fn new(os: &'static dyn Os) -> OsResult<Self> {
        Ok(Self {
            sets: OsArray::zeroed(os, MOST_RECORDS / WAYS)?,
            records: OsArray::zeroed(os, MOST_RECORDS)?,
        })
    }

    pub(super) const BYTES: usize =
        MOST_RECORDS / WAYS * size_of::<Set>() + MOST_RECORDS * size_of::<Record>();

    fn set(&self, address: u64) -> usize {
        // Objects lie at multiples of 16 bytes.
        ((address >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % self.sets.len()
    }

    /// Notes a pin, unless there is no room. O(1), without a lock.
    pub(super) fn put(&self, pin: &Pin) -> bool {
        let set = self.set(pin.address);
        for (way, address) in self.sets.at(set).addresses.iter().enumerate() {
            if address.compare_exchange(0, WRITING, Acquire, Relaxed).is_ok() {
                let record = self.records.at(set * WAYS + way);
                record.size.store(pin.size, Relaxed);
                record.born_ns.store(pin.born_ns, Relaxed);
                record.bucket.store(pin.bucket, Relaxed);
                address.store(pin.address, Release);
                return true;
            }
        }
        false
    }

    /// Takes out the pin at an address that is handed out again, if there is one. O(1).
    #[inline]
    pub(super) fn take(&self, address: u64) -> Option<Pin> {
        let set = self.set(address);
        let addresses = &self.sets.at(set).addresses;
        let way = addresses.iter().position(|held| held.load(Relaxed) == address)?;
        self.take_from(set, way)
    }

    fn take_from(&self, set: usize, way: usize) -> Option<Pin> {
        let word = &self.sets.at(set).addresses[way];
        let address = word.load(Acquire);
        if address <= WRITING {
            return None;
        }
        let record = self.records.at(set * WAYS + way);
        let pin = Pin {
            address,
            size: record.size.load(Relaxed),
            born_ns: record.born_ns.load(Relaxed),
            bucket: record.bucket.load(Relaxed),
        };
        // Of two tasks one takes it.
        word.compare_exchange(address, 0, Release, Relaxed).is_ok().then_some(pin)
    }

    /// Takes out all pins. O(table).
    pub(super) fn take_all(&self, mut each: impl FnMut(Pin)) {
        for set in 0..self.sets.len() {
            (0..WAYS).filter_map(|way| self.take_from(set, way)).for_each(&mut each);
        }
    }
}

#[cfg(all(test, not(quarry_model)))]
mod tests {
    use super::*;
    use quarry_sys::os::Linux;

    fn pin(number: u64) -> Pin {
        Pin { address: 4096 + 16 * number, size: number, born_ns: 5, bucket: 7 }
    }

    #[test]
    fn pins_are_found_once_by_their_addresses() {
        let pins = Pins::new(&Linux).expect("memory");
        let kept: Vec<Pin> = (0..20).map(pin).filter(|pin| pins.put(pin)).collect();
        assert!(kept.len() >= 10, "{} of 20 find room among {MOST_RECORDS}", kept.len());
        for pin in &kept[..5] {
            assert_eq!(pins.take(pin.address), Some(*pin));
            assert_eq!(pins.take(pin.address), None, "it was taken");
        }
        assert_eq!(pins.take(1), None);
        let mut left = Vec::new();
        pins.take_all(|pin| left.push(pin));
        left.sort_by_key(|pin| pin.address);
        assert_eq!(left, kept[5..]);
        pins.take_all(|pin| panic!("{pin:?} was taken"));
    }

    #[test]
    fn pins_without_room_are_refused() {
        let pins = Pins::new(&Linux).expect("memory");
        let put = (0..2 * MOST_RECORDS as u64).filter(|number| pins.put(&pin(*number))).count();
        assert!((MOST_RECORDS / 2..=MOST_RECORDS).contains(&put), "{put}");
    }
}
