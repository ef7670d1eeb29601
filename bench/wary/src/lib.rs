//! Caution with other processes: with files whose path or contents such a process has chosen
//! ([`open`], [`read`]), and with names that it publishes or prints ([`plain`]).
#![forbid(unsafe_code)]

pub use quarry_record::is_plain;
use std::borrow::Cow;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a regular file for reading; neither opening nor reading it waits for another process.
///
/// # Errors
/// `IsADirectory`; `InvalidInput` if the path leads to a pipe, a device or a socket; `WouldBlock`
/// if a process has a lease on the file; others of the system.
pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
    let path = path.as_ref();
    // Opening a device can change something, so another kind of file is not even opened.
    regular(&fs::metadata(path)?)?;
    // The path may lead to another file by now. Files of /proc look regular, and may wait.
    let wary = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(wary).open(path)?;
    regular(&file.metadata()?)?;
    Ok(file)
}

fn regular(metadata: &fs::Metadata) -> io::Result<()> {
    match metadata.file_type() {
        it if it.is_file() => Ok(()),
        it if it.is_dir() => Err(ErrorKind::IsADirectory.into()),
        _ => Err(io::Error::new(ErrorKind::InvalidInput, "not a regular file")),
    }
}

/// Reads a whole regular file, which has at most `most` bytes.
///
/// # Errors
/// Those of [`open`]; `FileTooLarge` if the file has more bytes.
pub fn read(path: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
    read_whole(open(path)?, most)
}

/// Reads what is left of an input, which is at most `most` bytes.
///
/// # Errors
/// `FileTooLarge` if there are more bytes; those of the input.
pub fn read_whole(input: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(io::Error::new(ErrorKind::FileTooLarge, format!("more than {most} bytes"))),
        false => Ok(bytes),
    }
}

/// A text with `?` in place of each character that is not [plain](is_plain). O(bytes).
#[must_use]
pub fn plain(text: &str) -> Cow<'_, str> {
    match text.chars().all(is_plain) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(text.replace(|it| !is_plain(it), "?")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::net::UnixListener;

    /// Opening the pipe as usual would wait for a writer, which never comes.
    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let status = std::process::Command::new("mkfifo").arg(at("pipe")).status();
        assert!(status.unwrap().success());
        std::os::unix::fs::symlink(at("pipe"), at("link")).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        let paths = [at("pipe"), at("link"), at("socket"), "/dev/zero".into()];
        for path in paths {
            let error = read(&path, 10).unwrap_err();
            assert_eq!(error.to_string(), "not a regular file", "{}", path.display());
        }
        assert_eq!(read(at(""), 10).unwrap_err().kind(), ErrorKind::IsADirectory);
        assert_eq!(read(at("none"), 10).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(read("/proc/self/maps", 1 << 20).is_ok_and(|it| !it.is_empty()));
    }

    #[test]
    fn a_file_has_its_bytes_and_no_more_than_its_reader_takes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "0123456789").unwrap();
        assert_eq!(read(file.path(), 10).unwrap(), b"0123456789");
        assert_eq!(read(file.path(), 9).unwrap_err().kind(), ErrorKind::FileTooLarge);
        file.as_file().set_len(1 << 38).unwrap();
        assert_eq!(read(file.path(), 1 << 20).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(read_whole(&b"abc"[..], u64::MAX).unwrap(), b"abc");
    }

    #[test]
    fn text_keeps_its_letters_and_loses_what_a_terminal_obeys() {
        assert!(matches!(plain("größe<T>::f(\"x\") 名"), Cow::Borrowed(_)));
        assert_eq!(plain("a\x1b[2Jb\nc\x7f\u{9b}31md"), "a?[2Jb?c??31md");
        assert_eq!(plain("\u{202e}cba\u{2066}\u{200f}"), "?cba??");
    }

    proptest! {
        #[test]
        fn text_has_only_plain_characters(text: String) {
            let is = plain(&text);
            prop_assert!(is.chars().all(is_plain));
            prop_assert_eq!(is.chars().count(), text.chars().count());
        }
    }
}
