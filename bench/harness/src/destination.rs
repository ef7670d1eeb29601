//! An output file that is opened at the beginning of a run and written at its end: a user should
//! not wait an hour to learn that the file cannot be written.

use crate::usage::Usage;
use anyhow::{Context, Result, bail};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The rule for a file that exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Present {
    /// The file is replaced.
    Replaced,
    /// An existing file is an error; the text tells what is accepted.
    Refused(&'static str),
}

/// The rule for HTML pages.
pub const NEW: Present = Present::Refused("never replaced; accepted: a new file");

/// An open file, which is removed again if this process made it and has not written it.
#[derive(Debug)]
pub struct Destination {
    name: String,
    place: PathBuf,
    file: File,
    is_unwanted: bool,
}

impl Destination {
    /// Opens the file that `option` names; it keeps its contents until [`write`](Self::write).
    ///
    /// # Errors
    /// A usage error if the file cannot be written, or exists and must not be replaced.
    pub fn open(option: &str, place: &Path, present: Present) -> Result<Self> {
        let name = format!("{option} {}", place.display());
        let is_new = place.symlink_metadata().is_err();
        let opened = match present {
            Present::Refused(accepted) if !is_new => {
                bail!(Usage(format!("{name}: there already; {accepted}")));
            }
            Present::Refused(_) => File::create_new(place),
            Present::Replaced => {
                OpenOptions::new().write(true).create(true).truncate(false).open(place)
            }
        };
        let refusal =
            |error| Usage(format!("{name}: {error}; accepted: a file that can be written"));
        let file = opened.map_err(refusal)?;
        Ok(Self { name, place: place.to_owned(), file, is_unwanted: is_new })
    }

    /// Replaces the contents.
    pub fn write(mut self, bytes: &[u8]) -> Result<()> {
        let is_regular = self.file.metadata().is_ok_and(|it| it.is_file());
        let mut write = || {
            // Devices and pipes have no length.
            if is_regular {
                self.file.set_len(0)?;
            }
            self.file.write_all(bytes)
        };
        write().with_context(|| self.name.clone())?;
        self.is_unwanted = false;
        Ok(())
    }
}

/// Makes a folder unless it exists, and checks that files can be made in it.
///
/// # Errors
/// A usage error if that fails.
pub fn folder(option: &str, place: &Path) -> Result<()> {
    let refusal = |error: io::Error| {
        let name = place.display();
        Usage(format!("{option} {name}: {error}; accepted: a directory that can be written"))
    };
    fs::create_dir_all(place).map_err(refusal)?;
    // Makes a nameless file, which vanishes when it is closed.
    tempfile::tempfile_in(place).map_err(refusal)?;
    Ok(())
}

/// Makes a folder in `parent`, to be renamed when it is complete. Its name is `prefix` and a unique
/// ending. It stays if the process ends early. Its permissions follow the umask.
pub fn partial(parent: &Path, prefix: &str) -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix).permissions(fs::Permissions::from_mode(0o777)).disable_cleanup(true);
    builder.tempdir_in(parent)
}

/// The usage error for a `TMPDIR` that cannot be written. It leaves out the random file name that
/// the system's text has.
pub fn no_temporary(error: &io::Error) -> Usage {
    let (place, error) = (std::env::temp_dir(), error.to_string());
    let (place, why) = (place.display(), error.split(" at path ").next().unwrap_or_default());
    Usage(format!("TMPDIR={place}: {why}; accepted: a directory that can be written"))
}

impl Drop for Destination {
    fn drop(&mut self) {
        if self.is_unwanted {
            let _ = fs::remove_file(&self.place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_stays_until_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("file");
        fs::write(&place, "what was there").unwrap();
        drop(Destination::open("--json", &place, Present::Replaced).unwrap());
        assert_eq!(fs::read_to_string(&place).unwrap(), "what was there");
        Destination::open("--json", &place, Present::Replaced).unwrap().write(b"new").unwrap();
        assert_eq!(fs::read_to_string(&place).unwrap(), "new");
        let error = Destination::open("--html", &place, NEW).unwrap_err();
        assert!(Usage::is_cause_of(&error));
        let expected = "there already; never replaced; accepted: a new file";
        assert_eq!(error.to_string(), format!("--html {}: {expected}", place.display()));
    }

    #[test]
    fn nothing_is_left_of_one_that_was_not_written() {
        let folder = tempfile::tempdir().unwrap();
        for present in [Present::Replaced, NEW] {
            let place = folder.path().join("file");
            drop(Destination::open("--json", &place, present).unwrap());
            assert!(!place.exists());
            Destination::open("--json", &place, present).unwrap().write(b"new").unwrap();
            assert_eq!(fs::read_to_string(&place).unwrap(), "new");
            fs::remove_file(&place).unwrap();
        }
    }

    #[test]
    fn what_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for place in [folder.path(), &folder.path().join("no/such")] {
            let error = Destination::open("--json", place, Present::Replaced).unwrap_err();
            assert!(Usage::is_cause_of(&error), "{error}");
            let start = format!("--json {}: ", place.display());
            assert!(error.to_string().starts_with(&start), "{error}");
        }
        let full = Path::new("/dev/full");
        let full = Destination::open("--json", full, Present::Replaced).unwrap();
        let error = full.write(b"new").unwrap_err();
        assert!(format!("{error:#}").starts_with("--json /dev/full: No space left"), "{error:#}");
        assert!(Path::new("/dev/full").exists());
    }
}
