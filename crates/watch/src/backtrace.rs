//! Prints each return address as the path of an object file and an offset in it.
//!
//! Looks up no symbols: the loader would take a lock. `addr2line -e FILE OFFSET` finds the source.

use core::fmt::Write;
use quarry_sys::file::find_piece;
use quarry_sys::own_stack;
use quarry_sys::report::{Line, warn};

/// Prints addresses up to the first 0, without the leading addresses that are in `libquarry`.
#[cold]
#[inline(never)]
pub(super) fn print_callers(frames: &[u64]) {
    own_stack::run(|| print_all(frames));
}

#[inline(never)]
fn print_all(frames: &[u64]) {
    let mut number = 0;
    for address in frames.iter().take_while(|address| **address != 0) {
        let mut place = Line::<200>::default();
        locate(*address as usize, &mut place);
        let place = core::str::from_utf8(place.as_bytes()).unwrap_or("?");
        let file = place.rsplit('/').next().unwrap_or_default();
        let is_ours = file.starts_with("libquarry");
        if number > 0 || !is_ours {
            warn(format_args!("    #{number} {address:#x} {place}"));
            number += 1;
        }
    }
}

/// Writes `(FILE+OFFSET)`; the offset counts from the lowest address of the loaded file.
fn locate(address: usize, place: &mut Line<200>) {
    let mut file = Line::<160>::default();
    let mut base = 0;
    let found = find_piece(c"/proc/self/maps", b'\n', |line| {
        let line = core::str::from_utf8(line).ok()?;
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let (start, end) = (number(start)?, number(end)?);
        let path = words.nth(4).unwrap_or("");
        if path.as_bytes() != file.as_bytes() || path.is_empty() {
            file = Line::default();
            let _ = file.write_str(path);
            base = start;
        }
        (start..end).contains(&address).then_some(base)
    });
    if let Some(base) = found {
        let name = core::str::from_utf8(file.as_bytes()).unwrap_or("?");
        let _ = write!(place, "({name}+{:#x})", address - base);
    }
}

fn number(digits: &str) -> Option<usize> {
    usize::from_str_radix(digits, 16).ok()
}
