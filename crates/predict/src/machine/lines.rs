//! Cache lines: who holds each, and what it costs to fetch one.

use super::settings::Settings;
use quarry_sys::primitive::Access;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Bytes of a cache line.
const LINE: usize = 64;

/// CPUs that hold a line, a bit each.
type Holders = [u64; 5];

struct Line {
    holders: Holders,
    /// The last that has written it, while it holds it.
    owner: u32,
    /// When the last transfer ends.
    busy_until: u64,
}

/// Hashes the number of a line by one multiplication.
#[derive(Default)]
struct ByNumber(u64);

impl Hasher for ByNumber {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("lines have numbers");
    }

    fn write_usize(&mut self, number: usize) {
        // Fibonacci hashing, with the high bits, which are the good ones, folded down.
        let product = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}

/// All lines that were used.
#[derive(Default)]
pub(crate) struct Lines {
    lines: HashMap<usize, Line, BuildHasherDefault<ByNumber>>,
    /// Lines that were fetched from another CPU.
    pub(crate) transfers: u64,
}

impl Lines {
    /// `cpu` uses so many bytes from an address on, from time `now` on; returns when it has.
    pub(crate) fn access(
        &mut self,
        (address, bytes): (usize, usize),
        access: Access,
        cpu: usize,
        mut now: u64,
        settings: &Settings,
    ) -> u64 {
        for number in address / LINE..(address + bytes).div_ceil(LINE) {
            now = self.one(number, access, cpu, now, settings);
        }
        now
    }

    fn one(&mut self, line: usize, access: Access, cpu: usize, now: u64, on: &Settings) -> u64 {
        let (word, bit) = (cpu / 64, 1 << (cpu % 64));
        let fresh = || Line { holders: [0; 5], owner: cpu as u32, busy_until: 0 };
        let line = self.lines.entry(line).or_insert_with(fresh);
        let holds = line.holders[word] & bit != 0;
        let writes = access != Access::Read;
        let alone = {
            let mut others = line.holders;
            others[word] &= !bit;
            others == [0; 5]
        };
        let own_ns = if access == Access::Update { on.locked_ns } else { on.hit_ns };
        if alone || (holds && !writes) {
            line.holders[word] |= bit;
            line.owner = cpu as u32;
            return now + own_ns;
        }
        let from = match writes {
            true => farthest(&line.holders, cpu, on),
            false => on.transfer(cpu, line.owner as usize),
        };
        self.transfers += 1;
        let end = now.max(line.busy_until) + from + own_ns;
        line.busy_until = end;
        if writes {
            line.holders = [0; 5];
            line.owner = cpu as u32;
        }
        line.holders[word] |= bit;
        end
    }
}

/// The time until the farthest holder has given a line up.
fn farthest(holders: &Holders, cpu: usize, settings: &Settings) -> u64 {
    let mut longest = 0;
    for (word, bits) in holders.iter().enumerate() {
        let mut bits = *bits;
        while bits != 0 {
            let holder = word * 64 + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            if holder != cpu {
                longest = longest.max(settings.transfer(cpu, holder));
            }
        }
    }
    longest
}
