//! Events of one thread, and their encoding.
//!
//! An event is a byte with its kind, the time since the previous event of the chunk, and the data
//! of the kind. Programs use addresses near those that they used shortly before, so an address is
//! written as its difference from the previous address of the chunk, in units of 16 bytes if both
//! addresses are multiples of 16.

use crate::varint::{self, fold, unfold};

/// A call that returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `malloc`, `aligned_alloc` and related calls.
    Alloc {
        /// The address it returned.
        address: u64,
        /// The bytes requested.
        size: u64,
        /// log2 of the requested alignment; 0 if there was none.
        align_shift: u8,
        /// True if the memory had to be zero (`calloc`).
        zeroed: bool,
    },
    /// `free`.
    Free {
        /// The address that was passed.
        address: u64,
    },
    /// `realloc` of a block. `realloc` of null is an [`Alloc`](Self::Alloc), `realloc` to size 0 a
    /// [`Free`](Self::Free).
    Resize {
        /// The address that was passed.
        old: u64,
        /// The address it returned.
        address: u64,
        /// The bytes requested.
        size: u64,
        /// Duration of the call in nanoseconds. `old` is free from the start of the call on, and
        /// `address` is in use from its end on.
        took_ns: u64,
    },
}

/// A call, with its time and CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds of the monotonic clock, read after an `Alloc` and before a `Free` or `Resize`.
    /// So in the order of time a block is freed only after it was allocated, and blocks in use
    /// never overlap. A `Resize` counts as a free at its start and as an allocation at its end.
    pub at_ns: u64,
    /// The CPU, as the kernel numbers them.
    pub cpu: u32,
    /// The call.
    pub call: Call,
}

/// Bytes of the longest event: a change of CPU, then a resize.
pub const LONGEST_EVENT: usize = 2 + varint::LONGEST + 5 * varint::LONGEST;

const CPU: u8 = 0;
const ALLOC: u8 = 1;
const ZEROED: u8 = 2;
const ALIGNED: u8 = 3;
const FREE: u8 = 4;
const RESIZE: u8 = 5;

/// log2 of the alignment of nearly all addresses.
const ALIGN_SHIFT: u32 = 4;

/// The time, CPU and address of a chunk's last event; encoder and decoder keep them alike.
#[derive(Clone, Copy, Debug)]
struct Place {
    at_ns: u64,
    cpu: u32,
    address: u64,
}

/// The address, rotated so that the difference of two multiples of 16 counts units of 16 bytes.
fn rotated(address: u64) -> u64 {
    address.rotate_right(ALIGN_SHIFT)
}

/// Turns the events of a chunk into bytes. It neither allocates nor fails.
#[derive(Clone, Copy, Debug)]
pub struct Encoder(Place);

struct Bytes<'a> {
    out: &'a mut [u8; LONGEST_EVENT],
    used: usize,
}

impl Bytes<'_> {
    fn byte(&mut self, byte: u8) {
        self.out[self.used] = byte;
        self.used += 1;
    }

    fn number(&mut self, number: u64) {
        self.used += varint::write(&mut self.out[self.used..], number);
    }
}

impl Encoder {
    /// An encoder for a chunk that starts at `at_ns` on CPU 0.
    #[must_use]
    pub const fn new(at_ns: u64) -> Self {
        Self(Place { at_ns, cpu: 0, address: 0 })
    }

    /// Writes an event to the start of `out`; returns its number of bytes. Times within a chunk
    /// never fall: a time before that of the previous event is written as that time. O(1).
    pub fn encode(&mut self, event: &Event, out: &mut [u8; LONGEST_EVENT]) -> usize {
        let mut bytes = Bytes { out, used: 0 };
        if event.cpu != self.0.cpu {
            self.0.cpu = event.cpu;
            bytes.byte(CPU);
            bytes.number(event.cpu.into());
        }
        let since = event.at_ns.saturating_sub(self.0.at_ns);
        self.0.at_ns += since;
        match event.call {
            Call::Alloc { address, size, align_shift, zeroed } => {
                bytes.byte(match (zeroed, align_shift) {
                    (true, _) => ZEROED,
                    (false, 0) => ALLOC,
                    (false, _) => ALIGNED,
                });
                bytes.number(since);
                bytes.number(size);
                if !zeroed && align_shift > 0 {
                    bytes.byte(align_shift);
                }
                self.address(address, &mut bytes);
            }
            Call::Free { address } => {
                bytes.byte(FREE);
                bytes.number(since);
                self.address(address, &mut bytes);
            }
            Call::Resize { old, address, size, took_ns } => {
                bytes.byte(RESIZE);
                bytes.number(since);
                bytes.number(size);
                bytes.number(took_ns);
                self.address(old, &mut bytes);
                self.address(address, &mut bytes);
            }
        }
        bytes.used
    }

    fn address(&mut self, address: u64, bytes: &mut Bytes<'_>) {
        let difference = rotated(address).wrapping_sub(rotated(self.0.address));
        bytes.number(fold(difference as i64));
        self.0.address = address;
    }
}

/// Turns the bytes of a chunk into its events.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    place: Place,
    bytes: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// A decoder of `bytes`, the events of a chunk that starts at `at_ns`.
    #[must_use]
    pub const fn new(at_ns: u64, bytes: &'a [u8]) -> Self {
        Self { place: Place { at_ns, cpu: 0, address: 0 }, bytes }
    }

    /// The next event; `Ok(None)` at the end.
    ///
    /// # Errors
    /// If the bytes are no event; the text names the fault.
    pub fn next_event(&mut self) -> Result<Option<Event>, &'static str> {
        loop {
            let Some((kind, rest)) = self.bytes.split_first() else { return Ok(None) };
            self.bytes = rest;
            if *kind != CPU {
                return self.call(*kind).map(Some);
            }
            self.place.cpu = u32::try_from(self.number()?).map_err(|_| "there is no such CPU")?;
        }
    }

    fn call(&mut self, kind: u8) -> Result<Event, &'static str> {
        if !(ALLOC..=RESIZE).contains(&kind) {
            return Err("there is no such kind of event");
        }
        let since = self.number()?;
        self.place.at_ns = self.place.at_ns.checked_add(since).ok_or("a time is too late")?;
        let call = match kind {
            FREE => Call::Free { address: self.address()? },
            RESIZE => {
                let (size, took_ns) = (self.number()?, self.number()?);
                Call::Resize { size, took_ns, old: self.address()?, address: self.address()? }
            }
            _ => {
                let size = self.number()?;
                let align_shift = if kind == ALIGNED { self.number()? } else { 0 };
                let align_shift = u8::try_from(align_shift).ok().filter(|it| *it < 64);
                let align_shift = align_shift.ok_or("there is no such alignment")?;
                let zeroed = kind == ZEROED;
                Call::Alloc { size, align_shift, zeroed, address: self.address()? }
            }
        };
        Ok(Event { at_ns: self.place.at_ns, cpu: self.place.cpu, call })
    }

    fn number(&mut self) -> Result<u64, &'static str> {
        varint::read(&mut self.bytes).ok_or("a number is cut off")
    }

    fn address(&mut self) -> Result<u64, &'static str> {
        let difference = unfold(self.number()?) as u64;
        let number = rotated(self.place.address).wrapping_add(difference);
        self.place.address = number.rotate_left(ALIGN_SHIFT);
        Ok(self.place.address)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn calls() -> impl Strategy<Value = Call> {
        prop_oneof![
            (any::<u64>(), any::<u64>(), 0u8..64, any::<bool>()).prop_map(
                |(address, size, align_shift, zeroed)| {
                    let align_shift = if zeroed { 0 } else { align_shift };
                    Call::Alloc { address, size, align_shift, zeroed }
                }
            ),
            any::<u64>().prop_map(|address| Call::Free { address }),
            any::<(u64, u64, u64, u64)>().prop_map(|(old, address, size, took_ns)| {
                Call::Resize { old, address, size, took_ns }
            }),
        ]
    }

    proptest! {
        #[test]
        fn events_survive(
            all in proptest::collection::vec((0u64..1 << 40, 0u32..3, calls()), 0..50),
        ) {
            let (mut encoder, mut bytes, mut at_ns) = (Encoder::new(77), Vec::new(), 77);
            let mut written = Vec::new();
            for (since, cpu, call) in all {
                at_ns += since;
                let event = Event { at_ns, cpu, call };
                let mut out = [0; LONGEST_EVENT];
                let used = encoder.encode(&event, &mut out);
                bytes.extend_from_slice(&out[..used]);
                written.push(event);
            }
            let mut decoder = Decoder::new(77, &bytes);
            let mut read = Vec::new();
            while let Some(event) = decoder.next_event().unwrap() {
                read.push(event);
            }
            prop_assert_eq!(&read, &written);
            // Wherever the bytes are cut off, the events before the cut are right.
            for end in 0..bytes.len() {
                let mut decoder = Decoder::new(77, &bytes[..end]);
                let prefix = std::iter::from_fn(|| decoder.next_event().ok().flatten());
                prop_assert!(written.starts_with(&prefix.collect::<Vec<_>>()));
            }
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes: Vec<u8>) {
            let mut decoder = Decoder::new(0, &bytes);
            while let Ok(Some(_)) = decoder.next_event() {}
        }
    }

    #[test]
    fn usual_calls_take_a_few_bytes() {
        let mut encoder = Encoder::new(0);
        let mut out = [0; LONGEST_EVENT];
        let mut bytes = |at_ns, call| encoder.encode(&Event { at_ns, cpu: 0, call }, &mut out);
        let alloc = |address| Call::Alloc { address, size: 40, align_shift: 0, zeroed: false };
        bytes(0, alloc(0x5555_5555_0010));
        assert_eq!(bytes(90, alloc(0x5555_5555_0040)), 4);
        assert_eq!(bytes(150, Call::Free { address: 0x5555_5555_0010 }), 3);
    }
}
