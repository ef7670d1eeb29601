//! The directory of one shard, which gets its final name when the shard is complete.
//!
//! ```text
//! DIR/shard-2-of-8.partial-XXXXXX   is being taken, or was when its process ended
//! DIR/shard-2-of-8                  complete
//!     meta.json, samples.jsonl      as in every results directory
//!     shard.json                    which shard it is and how many samples it has; written last
//! ```
//!
//! The rename is one step, so a shard whose process was killed never looks complete. Two processes
//! that take the same shard write into two directories, and the first to finish wins.

use super::{Meta, RunDirectory, read};
use crate::destination;
use crate::shard::Shard;
use crate::usage::Usage;
use anyhow::{Context, Result, bail, ensure};
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const END: &str = "shard.json";
const SCHEMA: &str = "quarry-shard/1";
/// The lock file in the common directory of the shards; a process locks it while it begins a shard.
const LOCK: &str = ".lock";
/// Follows the name of an unfinished shard, before random letters.
const PARTIAL: &str = ".partial-";

/// `shard.json`, the mark of a complete shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Version of the layout.
    pub schema: String,
    /// The shard.
    pub shard: Shard,
    /// Number of samples in `samples.jsonl`.
    pub samples: u64,
}

/// The result of beginning a shard.
#[derive(Debug)]
pub enum Begun {
    /// The shard is complete already, in this directory.
    There(PathBuf),
    /// This process takes the shard: adds its samples to the first, and finishes the second.
    New(RunDirectory, PartDirectory),
}

/// The directory of a shard that this process takes.
#[derive(Debug)]
pub struct PartDirectory {
    parent: PathBuf,
    shard: Shard,
    partial: TempDir,
    /// Tells other processes that this one is at work; the kernel unlocks it when the process ends.
    _lock: Flock<File>,
}

impl PartDirectory {
    /// Begins `shard` in `parent`, unless it is complete there. The remains of an interrupted
    /// process are removed, and the shard starts again.
    ///
    /// # Errors
    /// A usage error, with the differences, if `parent` has shards of another run; a failed write.
    pub fn begin(parent: &Path, shard: Shard, meta: &Meta) -> Result<Begun> {
        destination::folder("--out", parent)?;
        let cannot = || format!("--out {}: cannot be written", parent.display());
        // While this process holds the lock, no other begins a shard or removes an abandoned one.
        let looking = File::options().create(true).append(true).open(parent.join(LOCK));
        let _looking =
            lock(looking.with_context(cannot)?, FlockArg::LockExclusive).with_context(cannot)?;
        for place in below(parent)?.iter().filter(|it| is_complete(it)) {
            let differences = meta.differences(&read(place)?.meta);
            ensure!(
                differences.is_empty(),
                Usage(format!(
                    "{}: a shard of another run: {}; accepted: a directory of this run's shards \
                     alone",
                    place.display(),
                    differences.join("; ")
                ))
            );
        }
        let place = parent.join(name(shard));
        if is_complete(&place) {
            return Ok(Begun::There(place));
        }
        let prefix = name(shard) + PARTIAL;
        remove_abandoned(parent, &prefix).with_context(cannot)?;
        let partial = destination::partial(parent, &prefix).with_context(cannot)?;
        let directory = RunDirectory::create(partial.path(), meta)?;
        let samples = RunDirectory::open(partial.path()).with_context(cannot)?;
        let lock = lock(samples, FlockArg::LockExclusiveNonblock).with_context(cannot)?;
        let part = Self { parent: parent.to_owned(), shard, partial, _lock: lock };
        Ok(Begun::New(directory, part))
    }

    /// Completes the shard, whose samples are in `directory`, and returns its place. If another
    /// process was first, its shard wins.
    pub fn finish(mut self, directory: &RunDirectory, samples: usize) -> Result<PathBuf> {
        let end = End { schema: SCHEMA.to_owned(), shard: self.shard, samples: samples as u64 };
        let file = self.partial.path().join(END);
        let cannot = || format!("cannot write {}", file.display());
        directory.sync()?;
        fs::write(&file, serde_json::to_string(&end)? + "\n").with_context(cannot)?;
        File::open(&file).and_then(|file| file.sync_all()).with_context(cannot)?;
        let place = self.parent.join(name(self.shard));
        match fs::rename(self.partial.path(), &place) {
            Ok(()) => File::open(&self.parent).and_then(|it| it.sync_all()).with_context(cannot)?,
            Err(_) if is_complete(&place) => self.partial.disable_cleanup(false),
            Err(error) => bail!("cannot name a shard {}: {error}", place.display()),
        }
        Ok(place)
    }
}

fn remove_abandoned(parent: &Path, prefix: &str) -> Result<()> {
    let is_locked = |file| lock(file, FlockArg::LockExclusiveNonblock).is_err();
    for place in below(parent)? {
        let is_its = place.file_name().is_some_and(|it| it.to_string_lossy().starts_with(prefix));
        if is_its && !RunDirectory::open(&place).is_ok_and(is_locked) {
            fs::remove_dir_all(&place)?;
        }
    }
    Ok(())
}

/// Locks an open file. It must be open for writing: NFS locks neither read-only files nor folders.
fn lock(file: File, how: FlockArg) -> Result<Flock<File>> {
    Flock::lock(file, how).map_err(|(_, error)| error.into())
}

fn name(shard: Shard) -> String {
    format!("shard-{}-of-{}", shard.number(), shard.of())
}

/// The directories of shards in `parent`, complete or not, by name.
pub fn below(parent: &Path) -> Result<Vec<PathBuf>> {
    let cannot = || parent.display().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir(parent).with_context(cannot)? {
        let entry = entry.with_context(cannot)?;
        if entry.file_name().to_string_lossy().starts_with("shard-") && entry.path().is_dir() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

fn is_complete(place: &Path) -> bool {
    place.join(END).exists()
}

/// Reads the mark of a complete shard; `None` if the shard is unfinished.
///
/// # Errors
/// File and line of damage or of another version.
pub fn read_end(place: &Path) -> Result<Option<End>> {
    let path = place.join(END);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        text => text.with_context(|| path.display().to_string())?,
    };
    let end: End = serde_json::from_str(&text).with_context(|| format!("{}:1", path.display()))?;
    let End { schema, .. } = &end;
    ensure!(schema == SCHEMA, "{}:1: schema {schema}; this lab reads {SCHEMA}", path.display());
    Ok(Some(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::examples::run;
    use crate::shard::Part;

    fn meta(shard: Shard) -> Meta {
        let mut meta = run("a", &[("a", &[Some(1.0)])]).meta;
        meta.part = Some(Part { shard, warm_up: false });
        meta
    }

    fn begin(parent: &Path, shard: Shard) -> (RunDirectory, PartDirectory) {
        match PartDirectory::begin(parent, shard, &meta(shard)).unwrap() {
            Begun::New(directory, part) => (directory, part),
            Begun::There(place) => panic!("{} is there", place.display()),
        }
    }

    fn names(parent: &Path) -> Vec<String> {
        let name = |it: PathBuf| it.file_name().unwrap().to_string_lossy().into_owned();
        below(parent).unwrap().into_iter().map(name).collect()
    }

    fn second() -> Shard {
        "2/8".parse().unwrap()
    }

    #[test]
    fn a_shard_has_its_name_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let parent = folder.path().join("deep/run");
        let (mut directory, part) = begin(&parent, second());
        let sample = run("a", &[("a", &[Some(1.0)])]).samples.remove(0);
        directory.append(&sample).unwrap();
        assert!(names(&parent)[0].starts_with("shard-2-of-8.partial-"), "{:?}", names(&parent));
        assert_eq!(read_end(&below(&parent).unwrap()[0]).unwrap(), None);
        let place = part.finish(&directory, 1).unwrap();
        assert_eq!(names(&parent), ["shard-2-of-8"]);
        let end = read_end(&place).unwrap().unwrap();
        assert_eq!((end.shard, end.samples), (second(), 1));
        assert_eq!(read(&place).unwrap().samples, [sample]);
        let again = PartDirectory::begin(&parent, second(), &meta(second())).unwrap();
        assert!(matches!(again, Begun::There(there) if there == place));
        fs::write(place.join(END), "{\"schema\":\"x\",\"shard\":\"2/8\",\"samples\":1}").unwrap();
        assert!(read_end(&place).unwrap_err().to_string().contains("schema x; this lab reads"));
    }

    #[test]
    fn what_was_cut_off_begins_anew_and_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let third = begin(folder.path(), "3/8".parse().unwrap());
        drop(begin(folder.path(), second()));
        drop(third);
        let left = names(folder.path());
        assert_eq!(left.len(), 2, "{left:?}");
        let (directory, part) = begin(folder.path(), second());
        let now = names(folder.path());
        assert!(now.len() == 2 && now[0] != left[0] && now[1] == left[1], "{left:?} {now:?}");
        part.finish(&directory, 0).unwrap();
    }

    #[test]
    fn of_two_who_take_the_same_shard_the_first_wins() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = [(); 2].map(|()| begin(folder.path(), second()));
        assert_eq!(names(folder.path()).len(), 2, "who is at work is left alone");
        let place = two.1.finish(&two.0, 1).unwrap();
        assert_eq!(one.1.finish(&one.0, 2).unwrap(), place);
        assert_eq!(names(folder.path()), ["shard-2-of-8"]);
        assert_eq!(read_end(&place).unwrap().unwrap().samples, 1);
    }

    #[test]
    fn shards_of_another_run_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let (directory, part) = begin(folder.path(), "1/8".parse().unwrap());
        part.finish(&directory, 0).unwrap();
        let other = Meta { seed: 99, ..meta(second()) };
        let error = PartDirectory::begin(folder.path(), second(), &other).unwrap_err();
        assert!(Usage::is_cause_of(&error));
        let expected = "shard-1-of-8: a shard of another run: seed 99, not 1; accepted: ";
        assert!(error.to_string().contains(expected), "{error}");
    }
}
