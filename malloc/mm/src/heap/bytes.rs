//! Numbers of bytes as people write them. Read without allocating, by the library and the command.
//!
//! | written | means |
//! |---|---|
//! | `4096`, `4096B`, `1e9` | bytes |
//! | `64K`, `1.5G`, `1 T`, `512m` | 1024, 1024^2 ... bytes, as in systemd: up to `E`, in any case |
//! | `64Ki`, `1.5GiB` | the same |
//! | `107374182400m` | thousandths of bytes, as in Kubernetes: more MiB than a heap can have |
//!
//! `64KB` is not accepted: some mean 64,000 by it, and others 65,536.

use crate::frame::FRAME_BYTES;
use quarry_sys::cgroup::memory_limit;
use quarry_sys::confined::is_confined;
use quarry_sys::overcommit;

/// The number `whole + part / scale`, where `scale` is a power of ten.
struct Number {
    whole: usize,
    part: usize,
    scale: usize,
}

/// MiB of all frames that have a number.
const MOST_MIB: usize = FRAME_BYTES << 32 >> 20;

/// Decimal places that count; the value of the others is less than a byte of a GiB.
const MOST_SCALE: usize = 1_000_000_000;

impl Number {
    /// The number at the start of a text, and the unit after it.
    #[inline(never)]
    fn split(text: &[u8]) -> Option<(Self, &[u8])> {
        // A scale of 0: before the point.
        let mut number = Self { whole: 0, part: 0, scale: 0 };
        let mut rest = text.trim_ascii();
        if !rest.first()?.is_ascii_digit() {
            return None;
        }
        while let [letter, others @ ..] = rest {
            match (letter, number.scale) {
                (b'.', 0) => number.scale = 1,
                (b'0'..=b'9', 0) => {
                    let whole = number.whole.checked_mul(10)?;
                    number.whole = whole.checked_add(usize::from(letter - b'0'))?;
                }
                (b'0'..=b'9', MOST_SCALE) => {}
                (b'0'..=b'9', _) => {
                    number.part = number.part * 10 + usize::from(letter - b'0');
                    number.scale *= 10;
                }
                _ => break,
            }
            rest = others;
        }
        Some((number, rest.trim_ascii_start()))
    }

    /// The product with `base^exponent`, rounded down.
    #[inline(never)]
    fn times(&self, base: usize, exponent: u8) -> Option<usize> {
        let (mut factor, scale) = (1usize, self.scale.max(1));
        for _ in 0..exponent {
            factor = factor.checked_mul(base)?;
        }
        let of_part = factor / scale * self.part + factor % scale * self.part / scale;
        self.whole.checked_mul(factor)?.checked_add(of_part)
    }
}

/// The power of 1,000 or 1,024 that a letter means.
fn power(letter: u8) -> Option<u8> {
    Some(match letter.to_ascii_uppercase() {
        b'B' => 0,
        b'K' => 1,
        b'M' => 2,
        b'G' => 3,
        b'T' => 4,
        b'P' => 5,
        b'E' => 6,
        _ => return None,
    })
}

/// Reads a number of bytes (see the table above).
#[must_use]
#[inline(never)]
pub fn parse_bytes(text: &str) -> Option<usize> {
    let (number, unit) = Number::split(text.as_bytes())?;
    match *unit {
        [] | [b'B'] => number.times(1, 0),
        [b'm'] if number.whole > MOST_MIB => Some(number.whole / 1000),
        [b'e' | b'E', digit @ b'0'..=b'9'] => number.times(10, digit - b'0'),
        [b'e' | b'E', b'1', digit @ b'0'..=b'9'] => number.times(10, 10 + digit - b'0'),
        [b'b' | b'B', ..] => None,
        [letter] | [letter, b'i' | b'I'] | [letter, b'i' | b'I', b'b' | b'B'] => {
            number.times(1024, power(letter)?)
        }
        _ => None,
    }
}

/// A limit of memory in frames. `u32::MAX`: none.
fn frames(bytes: usize) -> u32 {
    u32::try_from(bytes / FRAME_BYTES).unwrap_or(u32::MAX)
}

/// Bytes that the process may have: all of the machine or, if less, of its control group. `None`
/// if the system does not say, or the process is confined.
#[inline(never)]
fn memory() -> Option<usize> {
    if is_confined() {
        return None;
    }
    let group = memory_limit().ok().flatten().map_or(u64::MAX, |group| group.limit);
    overcommit::memory().map(|machine| machine.min(group as usize))
}

/// Reads a limit of the heap in frames: bytes from one frame on, per cent of the memory that the
/// process may have, or no limit.
#[inline(never)]
pub(super) fn parse_limit(text: &str) -> Option<u32> {
    if matches!(text, "0" | "infinity" | "max") {
        return Some(u32::MAX);
    }
    let bytes = match Number::split(text.as_bytes()) {
        Some((number, b"%")) if number.whole <= 100 => {
            number.times(memory()?, 1).map(|it| it / 100)
        }
        _ => parse_bytes(text),
    };
    bytes.filter(|bytes| *bytes >= FRAME_BYTES).map(frames)
}

/// The limit in frames that stands in for one that `parse_limit` refuses: the text's number with
/// the decimal reading of the letter after it, which is the smaller one, or otherwise all memory
/// that the process may have. No sensible limit is larger.
#[must_use]
pub fn least_limit(text: &str) -> u32 {
    // Docker passes on the quotes of an environment file.
    let read = match Number::split(text.strip_prefix('"').unwrap_or(text).as_bytes()) {
        Some((number, [letter, ..])) => power(*letter).and_then(|it| number.times(1000, it)),
        _ => None,
    };
    let bytes = read.filter(|bytes| *bytes >= FRAME_BYTES).or_else(memory);
    bytes.map_or(u32::MAX, frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn systemd_and_kubernetes_are_understood() {
        for (text, bytes) in [
            ("0", 0),
            ("128974848", 128_974_848),
            ("4096B", 4096),
            ("64K", 64 << 10),
            ("64k", 64 << 10),
            ("512m", 512 * MIB),
            ("123Mi", 123 * MIB),
            ("1.5G", 1536 * MIB),
            ("1.5Gi", 1536 * MIB),
            ("1.5 GiB", 1536 * MIB),
            ("0.1Gi", 107_374_182),
            ("0.3333333333333Ki", 341),
            ("1 T\n", 1 << 40),
            ("2Pi", 2 << 50),
            ("1E", 1 << 60),
            ("1e", 1 << 60),
            ("15Ei", 15 << 60),
            ("1e9", 1_000_000_000),
            ("1.29E8", 129_000_000),
            ("107374182400m", 107_374_182),
            ("16777217m", 16_777),
            ("16777216m", 16 << 40),
        ] {
            assert_eq!(parse_bytes(text), Some(bytes), "{text}");
        }
    }

    #[test]
    fn others_are_refused() {
        let refused = "|-1|+|.|G|1..5G|1.5.1G|1Gb|1GB|1KB|12Q|1Bi|1Gi B|1G 2M|1_000|1,5G|16E|1e20|\
                       1e-3|1e9G|0x10|5%|é|1é|1Gé|99999999999999999999";
        for text in refused.split('|') {
            assert_eq!(parse_bytes(text), None, "{text}");
        }
    }

    #[test]
    fn a_limit_may_be_a_share_of_memory() {
        let memory = memory().expect("the kernel says");
        let share = |text| parse_limit(text).map(|frames| frames as usize * FRAME_BYTES);
        for (text, share_of_all) in [("100%", 1.0), ("50%", 0.5), ("12.5%", 0.125), ("7 %", 0.07)] {
            let off = share(text).expect("accepted") as f64 - memory as f64 * share_of_all;
            assert!(off.abs() <= 2.0 * FRAME_BYTES as f64, "{text} is off by {off}");
        }
        for text in ["0%", "101%", "%", "-5%", "5%%", "4095", "", "none"] {
            assert_eq!(parse_limit(text), None, "{text}");
        }
        for text in ["0", "infinity", "max", "15E"] {
            assert_eq!(parse_limit(text), Some(u32::MAX), "{text}");
        }
    }

    #[test]
    fn an_unreadable_limit_is_the_smallest_that_it_may_mean() {
        let all = frames(memory().expect("the kernel says"));
        for (text, bytes) in [
            ("1Gb", 1_000_000_000),
            ("1 GB", 1_000_000_000),
            ("2.5 gigabytes", 2_500_000_000),
            ("\"64M\"", 64_000_000),
            ("20000 bytes", 20_000),
        ] {
            assert_eq!(parse_limit(text), None, "{text}");
            assert_eq!(least_limit(text), frames(bytes), "{text}");
        }
        for text in ["", "lots", "12Q", "4095", "-1", "1_000_000", "99999999999999999999", "200%"] {
            assert_eq!(least_limit(text), all, "{text}");
        }
    }
}
