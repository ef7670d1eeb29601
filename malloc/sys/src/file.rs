//! Reads lines or fields of small files of `/proc` and `/sys` without allocating.

use crate::errno::OsResult;
use crate::file_descriptor::FileDescriptor;
use core::ffi::CStr;

/// Bytes of the longest piece passed to a caller; longer pieces are left out. The buffer is on the
/// stack, so callers inside `malloc` or `free` run on a stack of Quarry's own (`own_stack`).
const PIECE_BYTES: usize = 1024;

/// Calls `look` with each piece between two `separator`s until `look` returns a value. Returns
/// `None` if `look` never does, or if the file cannot be read. O(file).
pub fn find_piece<R>(
    path: &CStr,
    separator: u8,
    look: impl FnMut(&[u8]) -> Option<R>,
) -> Option<R> {
    try_find_piece(path, separator, look).ok().flatten()
}

/// [`find_piece`] for callers that have to know whether the file could be read.
///
/// # Errors
/// The error of opening or reading the file; `look` may have seen some pieces before.
pub fn try_find_piece<R>(
    path: &CStr,
    separator: u8,
    mut look: impl FnMut(&[u8]) -> Option<R>,
) -> OsResult<Option<R>> {
    let mut answer = None;
    visit_pieces(path, separator, &mut |piece| {
        answer = look(piece);
        answer.is_some()
    })?;
    Ok(answer)
}

/// Calls `ends` with each piece until it returns true; a `dyn`, because generic copies are large.
#[inline(never)]
fn visit_pieces(path: &CStr, separator: u8, ends: &mut dyn FnMut(&[u8]) -> bool) -> OsResult<()> {
    let file = FileDescriptor::open(path, libc::O_RDONLY, 0)?;
    let mut buffer = [0; PIECE_BYTES];
    let mut held = 0;
    let mut is_rest_of_long_piece = false;
    loop {
        let got = file.read(&mut buffer[held..])?;
        if got == 0 {
            if held > 0 && !is_rest_of_long_piece {
                ends(&buffer[..held]);
            }
            return Ok(());
        }
        held += got;
        let mut start = 0;
        while let Some(len) = buffer[start..held].iter().position(|byte| *byte == separator) {
            if !core::mem::take(&mut is_rest_of_long_piece) && ends(&buffer[start..start + len]) {
                return Ok(());
            }
            start += len + 1;
        }
        buffer.copy_within(start..held, 0);
        held -= start;
        if held == PIECE_BYTES {
            is_rest_of_long_piece = true;
            held = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errno::OsError;
    use std::ffi::CString;

    /// Returns the pieces that `find_piece` finds in a file with these contents.
    fn pieces(name: &str, contents: &[u8], separator: u8) -> Vec<Vec<u8>> {
        let file = std::env::temp_dir().join(format!("quarry-{name}-{}", std::process::id()));
        std::fs::write(&file, contents).unwrap();
        let path = CString::new(file.to_str().unwrap()).unwrap();
        let mut seen = Vec::new();
        let none = find_piece(&path, separator, |piece| {
            seen.push(piece.to_vec());
            None::<()>
        });
        assert_eq!(none, None);
        std::fs::remove_file(&file).unwrap();
        seen
    }

    #[test]
    fn every_piece_is_seen_with_and_without_an_end() {
        assert_eq!(pieces("lines", b"one\n\nthree\n", b'\n'), [&b"one"[..], b"", b"three"]);
        assert_eq!(pieces("words", b"A=1\0B=2", 0), [b"A=1", b"B=2"]);
        assert!(pieces("empty", b"", b'\n').is_empty());
    }

    #[test]
    fn pieces_longer_than_the_buffer_are_left_out() {
        for length in [PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 5 * PIECE_BYTES] {
            let long = vec![b'x'; length];
            let contents = [b"first\n", &long[..], b"\nlast\n"].concat();
            let seen = pieces(&format!("long-{length}"), &contents, b'\n');
            let expected: Vec<&[u8]> = match length < PIECE_BYTES {
                true => vec![b"first", &long, b"last"],
                false => vec![b"first", b"last"],
            };
            assert_eq!(seen, expected, "a piece of {length} bytes");
        }
    }

    #[test]
    fn stops_at_the_first_answer() {
        let answer =
            find_piece(c"/proc/self/status", b'\n', |line| line.starts_with(b"Name:").then_some(7));
        assert_eq!(answer, Some(7));
        assert_eq!(find_piece(c"/nowhere", b'\n', |_| Some(())), None);
    }

    #[test]
    fn says_why_nothing_was_read() {
        let read = |path| try_find_piece(path, b'\n', |_| None::<()>);
        assert_eq!(read(c"/nowhere"), Err(OsError(libc::ENOENT)));
        assert_eq!(read(c"/"), Err(OsError(libc::EISDIR)), "it can be opened and not be read");
        assert_eq!(read(c"/dev/null"), Ok(None));
    }
}
