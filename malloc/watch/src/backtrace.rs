//! Prints each return address as the path of an object file and an offset in it.
//!
//! Looks up no symbols: the loader would take a lock. `addr2line -e FILE OFFSET` finds the source.

use core::fmt::{self, Write};
use core::str::from_utf8;
use quarry_sys::file::find_piece;
use quarry_sys::own_stack;
use quarry_sys::report::{Line, is_plain, warn_reader};

/// Longest path that is printed whole: with all else it fits into a line of a report.
const PATH_BYTES: usize = 400;
const PLACE_BYTES: usize = PATH_BYTES + 24;

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
        let mut place = Line::default();
        locate(*address as usize, &mut place);
        let place = from_utf8(place.as_bytes()).unwrap_or("?");
        let file = place.rsplit('/').next().unwrap_or_default();
        let is_ours = file.starts_with("libquarry");
        if number > 0 || !is_ours {
            warn_reader(format_args!("    #{number} {address:#x} {place}"));
            number += 1;
        }
    }
}

/// Writes `(FILE+OFFSET)`; the offset counts from the lowest address of the loaded file.
fn locate(address: usize, place: &mut Line<PLACE_BYTES>) {
    let mut file = Line::<PATH_BYTES>::default();
    let mut base = 0;
    let found = find_piece(c"/proc/self/maps", b'\n', |line| {
        let mut fields = line.splitn(6, |byte| *byte == b' ');
        let (start, end) = from_utf8(fields.next()?).ok()?.split_once('-')?;
        let (start, end) = (number(start)?, number(end)?);
        let path = fields.nth(4).unwrap_or_default().trim_ascii_start();
        let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
        if path != file.as_bytes() || path.is_empty() {
            file = Line::default();
            file.push(path);
            base = start;
        }
        (start..end).contains(&address).then_some(base)
    });
    if let Some(base) = found {
        let _ = write!(place, "({}+{:#x})", Escaped(file.as_bytes()), address - base);
    }
}

/// A path, which may have any bytes; those that are no plain text are octal, as in `\012`.
struct Escaped<'a>(&'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for part in chunk.valid().split_inclusive(|it| !is_plain(it)) {
                let plain = part.trim_end_matches(|it| !is_plain(it));
                out.write_str(plain)?;
                octal(&part.as_bytes()[plain.len()..], out)?;
            }
            octal(chunk.invalid(), out)?;
        }
        Ok(())
    }
}

fn octal(bytes: &[u8], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(out, "\\{byte:03o}"))
}

fn number(digits: &str) -> Option<usize> {
    usize::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::Escaped;

    #[test]
    fn a_path_is_text_from_which_its_bytes_can_be_told() {
        for (path, shown) in [
            (&b"/usr/bin/a b"[..], "/usr/bin/a b"),
            ("/größe".as_bytes(), "/größe"),
            (b"/gr\xf6\xdfe", "/gr\\366\\337e"),
            (b"a\x1b[31m\x1b\xc2\x9b", "a\\033[31m\\033\\302\\233"),
        ] {
            assert_eq!(Escaped(path).to_string(), shown);
        }
    }
}
