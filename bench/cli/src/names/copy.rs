//! Copies a stream, and adds names to the lines of call stacks in it.

use std::io::{self, Write};

/// Most bytes after a mark that can be a line of the library, which writes each by one call.
const LONGEST_LINE: usize = 512;

/// A copier. Bytes leave it at once, but for the start of a mark, and a line after one.
pub(super) struct Copier<F> {
    mark: Vec<u8>,
    /// True if the mark is part of the text.
    is_text: bool,
    held: Vec<u8>,
    name: F,
}

impl<F: FnMut(&[u8]) -> String> Copier<F> {
    /// A copier that passes each line after a mark, with the mark if that is text, to `name`, and
    /// adds to the line what `name` returns.
    pub(super) fn new(mark: Vec<u8>, is_text: bool, name: F) -> Self {
        Self { mark, is_text, held: Vec::new(), name }
    }

    /// Copies bytes.
    ///
    /// # Errors
    /// Those of the writer.
    pub(super) fn copy(&mut self, bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
        self.held.extend_from_slice(bytes);
        let mut from = 0;
        while let Some(at) = find(&self.held[from..], &self.mark) {
            let (mark, line) = (from + at, from + at + self.mark.len());
            let rest = &self.held[line..];
            let end = rest.iter().take(LONGEST_LINE).position(|byte| *byte == b'\n');
            out.write_all(&self.held[from..mark])?;
            from = mark;
            if end.is_none() && rest.len() < LONGEST_LINE {
                break;
            }
            from = line + end.unwrap_or(0);
            let text = &self.held[if self.is_text { mark } else { line }..from];
            out.write_all(text)?;
            if end.is_some() {
                // The line is seen before its names are known.
                out.flush()?;
                out.write_all((self.name)(text).as_bytes())?;
            }
        }
        let rest = &self.held[from..];
        let begins = |bytes: &usize| rest.ends_with(&self.mark[..*bytes]);
        let kept = match rest.starts_with(&self.mark) {
            true => rest.len(),
            false => (0..self.mark.len()).rev().find(begins).unwrap_or(0),
        };
        out.write_all(&rest[..rest.len() - kept])?;
        from = self.held.len() - kept;
        self.held.drain(..from);
        out.flush()
    }

    /// Copies the rest, at the end of the input.
    ///
    /// # Errors
    /// Those of the writer.
    pub(super) fn end(self, out: &mut impl Write) -> io::Result<()> {
        let rest = if self.is_text { None } else { self.held.strip_prefix(&*self.mark) };
        out.write_all(rest.unwrap_or(&self.held))?;
        out.flush()
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|it| it == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output if the input comes in pieces of `size` bytes, and the lines that were asked.
    fn copied(input: &[u8], size: usize, is_text: bool) -> (String, Vec<String>) {
        let (mut out, mut asked) = (Vec::new(), Vec::new());
        let mut copier = Copier::new(b"\x1eab".to_vec(), is_text, |line| {
            asked.push(String::from_utf8_lossy(line).into_owned());
            " name".to_owned()
        });
        for piece in input.chunks(size) {
            copier.copy(piece, &mut out).unwrap();
        }
        copier.end(&mut out).unwrap();
        (String::from_utf8_lossy(&out).into_owned(), asked)
    }

    #[test]
    fn only_marked_lines_are_named_and_every_byte_is_copied() {
        let input = b"a\n\x1ea\x1e\n\x1eabone\nquarry: #0\nx\x1eabtwo\n\x1e\x1eab\n\x1eab";
        for size in 1..input.len() {
            let (out, asked) = copied(input, size, false);
            assert_eq!(out, "a\n\x1ea\x1e\none name\nquarry: #0\nxtwo name\n\x1e name\n");
            assert_eq!(asked, ["one", "two", ""], "{size}");
            let (out, asked) = copied(input, size, true);
            assert_eq!(out.replace(" name", "").as_bytes(), input, "{size}");
            assert_eq!(asked, ["\x1eabone", "\x1eabtwo", "\x1eab"], "{size}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_not_kept() {
        let long = [b"\x1eab", &*vec![b'x'; 1 << 20]].concat();
        let (mut out, mut copier) =
            (Vec::new(), Copier::new(b"\x1eab".into(), false, |_| "n".into()));
        for piece in long.chunks(4096) {
            copier.copy(piece, &mut out).unwrap();
            assert!(copier.held.len() <= LONGEST_LINE, "{} bytes", copier.held.len());
        }
        copier.copy(b"end\n", &mut out).unwrap();
        assert_eq!(out, [&long[3..], b"end\n"].concat());
    }

    /// A program that asks a question waits for the answer before it writes any more.
    #[test]
    fn bytes_that_begin_no_mark_leave_at_once() {
        let (mut out, mut copier) =
            (Vec::new(), Copier::new(b"\x1eab".into(), false, |_| "n".into()));
        copier.copy(b"name? ", &mut out).unwrap();
        assert_eq!(out, b"name? ");
    }
}
