//! Pressure stall information of the kernel (PSI, Linux 4.20): for how long tasks of a group have
//! waited for memory. And the triggers by which systemd says from when on that is pressure.

use crate::cgroup::find_in_own_group;
use crate::errno::{OsError, OsResult};
use crate::file::try_find_piece;
use crate::file_descriptor::{FileDescriptor, duplicate, status};
use crate::primitive::{AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::report::Line;
use core::ffi::CStr;

/// The lowest number that the descriptor of a pipe may have: programs expect lower numbers.
const LEAST_DESCRIPTOR: i32 = 100;
const NOT_OPEN: u32 = u32::MAX;

/// How long tasks have to wait within a time so that it counts as pressure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// True if only the time counts in which all tasks have waited, not some.
    pub is_full: bool,
    /// The waiting time, in microseconds.
    pub stall_us: u64,
    /// The time within which that is pressure, in microseconds.
    pub window_us: u64,
}

impl Trigger {
    /// 200 ms in 2 s (`DefaultMemoryPressureThresholdSec=`, systemd 254).
    pub const USUAL: Self = Self { is_full: false, stall_us: 200_000, window_us: 2_000_000 };

    /// Reads a trigger as the kernel's file takes it: `some 200000 2000000`.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let is_full = match text.get(..5)? {
            b"some " => false,
            b"full " => true,
            _ => return None,
        };
        let (stall_us, rest) = leading_number(text.get(5..)?)?;
        let (window_us, rest) = leading_number(rest.strip_prefix(b" ")?)?;
        let is_whole = matches!(rest, [] | [b'\n' | 0] | [b'\n', 0]);
        let is_sane = (1..=window_us).contains(&stall_us);
        (is_whole && is_sane).then_some(Self { is_full, stall_us, window_us })
    }

    /// [`parse`](Self::parse) for a text in base 64 (`$MEMORY_PRESSURE_WRITE` of systemd).
    #[must_use]
    pub fn parse_base64(text: &[u8]) -> Option<Self> {
        let mut plain = Line::<64>::new();
        let (mut bits, mut held) = (0u32, 0u32);
        for letter in text {
            let value = match letter {
                b'A'..=b'Z' => letter - b'A',
                b'a'..=b'z' => letter - b'a' + 26,
                b'0'..=b'9' => letter - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                b'=' => break,
                _ => return None,
            };
            bits = bits << 6 | u32::from(value);
            held = (held + 6) % 8;
            // Each letter but the first of four completes a byte.
            if held < 6 {
                plain.push(&[(bits >> held) as u8]);
            }
        }
        Self::parse(plain.as_bytes())
    }
}

/// The number with which a text begins, and the rest.
#[inline(never)]
fn leading_number(text: &[u8]) -> Option<(u64, &[u8])> {
    let (mut number, mut rest) = (0u64, text);
    while let [digit @ b'0'..=b'9', after @ ..] = rest {
        number = number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
        rest = after;
    }
    (rest.len() < text.len()).then_some((number, rest))
}

/// The waits of a group at some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stall {
    /// For how long tasks have waited since the group exists, in microseconds.
    pub total_us: u64,
    /// Time of the look, in microseconds.
    pub at_us: u64,
}

impl Stall {
    /// Returns whether there was pressure since `begin`, and from when on the next look should
    /// count: a trigger's window begins anew after pressure, and once it is over.
    #[must_use]
    pub fn since(self, begin: Self, trigger: Trigger) -> (bool, Self) {
        let time = self.at_us.saturating_sub(begin.at_us);
        let waited = self.total_us.saturating_sub(begin.total_us);
        // Looks may be further apart than a window. Then the mean counts.
        let windows = (time / trigger.window_us).max(1);
        let is_pressed = waited / windows >= trigger.stall_us;
        let ends = is_pressed || time >= trigger.window_us || self.total_us < begin.total_us;
        (is_pressed, if ends { self } else { begin })
    }
}

/// The message of a watched file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// In a file of the kernel's form: how long tasks have waited, in microseconds.
    Total(u64),
    /// In a pipe: whether something was written into it.
    Written(bool),
}

/// A named pipe that stays open, because a pipe without a reader keeps nothing. The program may
/// close its descriptor, and use the number anew.
#[derive(Debug)]
pub struct Pipe {
    /// The descriptor; [`NOT_OPEN`] before the pipe is open.
    number: AtomicU32,
    inode: AtomicU64,
}

impl Pipe {
    /// A pipe that is not open.
    #[must_use]
    pub const fn new() -> Self {
        Self { number: AtomicU32::new(NOT_OPEN), inode: AtomicU64::new(0) }
    }

    fn is_open(&self) -> bool {
        let (number, inode) = (self.number.load(Relaxed), self.inode.load(Relaxed));
        number != NOT_OPEN
            && status(number as i32).is_ok_and(|now| is_pipe(&now) && now.st_ino == inode)
    }

    /// Takes out what was written; returns whether there was something.
    fn empty(&self) -> bool {
        // SAFETY: the descriptor is that of the pipe, as far as the caller can know.
        let file = unsafe { FileDescriptor::borrowed(self.number.load(Relaxed) as i32) };
        let mut bytes = [0; 256];
        let mut is_written = false;
        while let Ok(1..) = file.read(&mut bytes) {
            is_written = true;
        }
        is_written
    }
}

impl Default for Pipe {
    fn default() -> Self {
        Self::new()
    }
}

fn is_pipe(status: &libc::stat) -> bool {
    status.st_mode & libc::S_IFMT == libc::S_IFIFO
}

/// Reads a file of the kernel's form, or empties a named pipe, which stays open in `pipe`. O(1), a
/// few system calls.
///
/// # Errors
/// The error of the system, or `EINVAL` for a file of another form.
#[inline(never)]
pub fn read(path: &CStr, is_full: bool, pipe: &Pipe) -> OsResult<Told> {
    if pipe.is_open() {
        return Ok(Told::Written(pipe.empty()));
    }
    let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = FileDescriptor::open(path, flags, 0)?;
    let status = status(file.number())?;
    if is_pipe(&status) {
        let kept = duplicate(file.number(), LEAST_DESCRIPTOR)?;
        pipe.inode.store(status.st_ino, Relaxed);
        pipe.number.store(kept.leave_open() as u32, Relaxed);
        return Ok(Told::Written(pipe.empty()));
    }
    drop(file);
    total(path, is_full)?.map(Told::Total).ok_or(OsError(libc::EINVAL))
}

/// For how long tasks of this process's group have waited for memory, in microseconds; `None` where
/// the kernel does not tell. A handful of system calls.
#[must_use]
#[inline(never)]
pub fn of_own_group(is_full: bool) -> Option<u64> {
    find_in_own_group("memory.pressure", |path| total(path, is_full).ok()?)
}

#[inline(never)]
fn total(path: &CStr, is_full: bool) -> OsResult<Option<u64>> {
    try_find_piece(path, b'\n', |line| total_of(line, is_full))
}

#[inline(never)]
fn total_of(line: &[u8], is_full: bool) -> Option<u64> {
    let line = line.strip_prefix(if is_full { b"full " } else { b"some " })?;
    let mut rest = line;
    while let [_, after @ ..] = rest {
        if let Some(number) = rest.strip_prefix(b"total=") {
            return Some(leading_number(number)?.0);
        }
        rest = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_are_read_as_the_kernel_reads_them() {
        assert_eq!(Trigger::parse(b"some 200000 2000000"), Some(Trigger::USUAL));
        let full = Trigger { is_full: true, stall_us: 1, window_us: 500_000 };
        assert_eq!(Trigger::parse(b"full 1 500000\n\0"), Some(full));
        for bad in
            ["", "some", "some 1", "all 1 2", "some 0 2", "some 3 2", "some 1 2 3", "some  1 2"]
        {
            assert_eq!(Trigger::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn systemd_gives_a_trigger_in_base_64() {
        // `printf 'some 200000 2000000\0' | base64`
        let text = b"c29tZSAyMDAwMDAgMjAwMDAwMAA=";
        assert_eq!(Trigger::parse_base64(text), Some(Trigger::USUAL));
        assert_eq!(Trigger::parse_base64(b"c29tZSAy*"), None);
        assert_eq!(Trigger::parse_base64(&[b'A'; 400]), None);
    }

    #[test]
    fn a_window_ends_with_pressure_or_with_its_time() {
        let at = |ms: u64, total_ms: u64| Stall { at_us: ms * 1000, total_us: total_ms * 1000 };
        let since = |now: Stall, begin: Stall| now.since(begin, Trigger::USUAL);
        let begin = at(1000, 50);
        assert_eq!(since(at(1500, 200), begin), (false, begin));
        assert_eq!(since(at(1500, 250), begin), (true, at(1500, 250)));
        assert_eq!(since(at(3000, 200), begin), (false, at(3000, 200)));
        // 30 windows later: the mean of a window is below and at the trigger.
        assert_eq!(since(at(61_000, 6_049), begin), (false, at(61_000, 6_049)));
        assert_eq!(since(at(61_000, 6_050), begin), (true, at(61_000, 6_050)));
        // The process has moved to another group.
        assert_eq!(since(at(1500, 10), begin), (false, at(1500, 10)));
    }

    #[test]
    fn a_total_is_read_from_the_line_that_is_asked_for() {
        let lines: [&[u8]; 2] = [
            b"some avg10=1.00 avg60=0.20 avg300=0.04 total=123456",
            b"full avg10=0.00 avg60=0.00 avg300=0.00 total=78",
        ];
        let find = |is_full| lines.iter().find_map(|line| total_of(line, is_full));
        assert_eq!((find(false), find(true)), (Some(123_456), Some(78)));
        assert_eq!(total_of(b"some avg10=0.00", false), None);
    }
}
