//! Writes a run into a directory while it is taken, and reads it back.

use super::{EARLIER_SCHEMA, Meta, Run, SCHEMA, Sample};
use crate::destination;
use crate::table::counted;
use crate::usage::Usage;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

const META: &str = "meta.json";
const SAMPLES: &str = "samples.jsonl";

/// A results directory that is being written; each sample goes to the kernel at once, in one call.
#[derive(Debug)]
pub struct RunDirectory {
    place: PathBuf,
    samples: File,
}

impl RunDirectory {
    /// Makes the directory, or takes an empty one, and writes `meta.json`.
    ///
    /// # Errors
    /// If the directory is not empty or cannot be written.
    pub fn create(place: &Path, meta: &Meta) -> Result<Self> {
        prepare(place)?;
        let cannot = || format!("--out {}: cannot be written", place.display());
        let create = |name: &str| {
            let file = OpenOptions::new().write(true).create_new(true).open(place.join(name));
            file.with_context(cannot)
        };
        let text = serde_json::to_string_pretty(meta)? + "\n";
        create(META)?.write_all(text.as_bytes()).with_context(cannot)?;
        Ok(Self { place: place.to_owned(), samples: create(SAMPLES)? })
    }

    /// Adds a sample.
    pub fn append(&mut self, sample: &Sample) -> Result<()> {
        let line = serde_json::to_string(sample)? + "\n";
        self.samples.write_all(line.as_bytes()).with_context(|| self.cannot_write())
    }

    pub(super) fn open(place: &Path) -> std::io::Result<File> {
        OpenOptions::new().append(true).open(place.join(SAMPLES))
    }

    /// Syncs the samples to disk.
    pub(crate) fn sync(&self) -> Result<()> {
        self.samples.sync_all().with_context(|| self.cannot_write())
    }

    fn cannot_write(&self) -> String {
        format!("cannot write {}", self.place.join(SAMPLES).display())
    }
}

/// Makes the directory unless it exists.
///
/// # Errors
/// A usage error if the directory is not empty, or files cannot be made in it.
pub fn prepare(place: &Path) -> Result<()> {
    destination::folder("--out", place)?;
    let mut entries = fs::read_dir(place).with_context(|| format!("--out {}", place.display()))?;
    if entries.next().is_some() {
        bail!(Usage(format!(
            "--out {}: the directory is not empty, and results are never overwritten; accepted: a \
             new or an empty directory",
            place.display()
        )));
    }
    Ok(())
}

/// Reads a results directory.
///
/// # Errors
/// File and line of damage, of foreign contents or of another version.
pub fn read(place: &Path) -> Result<Run> {
    let path = place.join(META);
    let meta = match fs::read_to_string(&path) {
        Ok(text) => read_meta(&path, &text)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!(Usage(format!(
                "{}: no such file; accepted: a directory that --out has made",
                path.display()
            )));
        }
        Err(error) => bail!("{}: {error}", path.display()),
    };
    let path = place.join(SAMPLES);
    let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
    let (samples, warnings) = read_samples(&path, &bytes, &meta)?;
    Ok(Run { meta, samples, warnings })
}

fn read_meta(path: &Path, text: &str) -> Result<Meta> {
    let at = |error: serde_json::Error| {
        anyhow::anyhow!("{}:{}: {error}", path.display(), error.line().max(1))
    };
    let value: Value = serde_json::from_str(text).map_err(at)?;
    match value.get("schema").and_then(Value::as_str) {
        Some(SCHEMA | EARLIER_SCHEMA) => {}
        Some(other) => {
            let line = text.lines().position(|line| line.contains("\"schema\"")).unwrap_or(0) + 1;
            bail!(
                "{}:{line}: schema {other}; this lab reads {EARLIER_SCHEMA} and {SCHEMA}",
                path.display()
            );
        }
        None => bail!("{}:1: no schema: this is not a run of the lab", path.display()),
    }
    // Parsed again from the text, because a `Value` has no line numbers for errors.
    let meta: Meta = serde_json::from_str(text).map_err(at)?;
    meta.validate().map_err(|fault| anyhow::anyhow!("{}:1: {fault}", path.display()))?;
    Ok(meta)
}

fn read_samples(path: &Path, bytes: &[u8], meta: &Meta) -> Result<(Vec<Sample>, Vec<String>)> {
    let (mut samples, mut warnings) = (Vec::new(), Vec::new());
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let place = || format!("{}:{}", path.display(), index + 1);
        match serde_json::from_slice::<Sample>(line) {
            Ok(sample) => {
                check(&sample, meta).map_err(|fault| anyhow::anyhow!("{}: {fault}", place()))?;
                samples.push(sample);
            }
            // Only the last line can lack its end: the writer was killed within the line.
            Err(_) if !line.ends_with(b"\n") => {
                warnings.push(format!("{}: cut off in the middle, left out", place()));
            }
            Err(error) => bail!("{}: {error}", place()),
        }
    }
    Ok((samples, warnings))
}

/// Checks that a sample belongs to the run, and did its work unless it failed.
fn check(sample: &Sample, meta: &Meta) -> Result<(), String> {
    let Sample { workload, tasks, variant, measurement, failure, .. } = sample;
    let Some(declared) = meta.workload(workload) else {
        return Err(format!("{META} has no workload {workload}"));
    };
    if meta.variant(variant).is_none() {
        return Err(format!("{META} has no variant {variant}"));
    }
    if !meta.tasks.contains(tasks) {
        return Err(format!("{META} has no samples with {}", counted(tasks, "task")));
    }
    match (measurement, failure) {
        (Some(measurement), None) => declared.check(measurement),
        (None, Some(_)) => Ok(()),
        _ => Err("a sample has a measurement or a failure".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::examples::run;
    use tempfile::TempDir;

    fn written() -> (TempDir, PathBuf, Run) {
        let mut run = run("a", &[("a", &[Some(2.0), Some(3.0)]), ("b", &[None, Some(1.0)])]);
        run.samples[2].failure = Some("signal 9".to_owned());
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("deep/run");
        let mut directory = RunDirectory::create(&place, &run.meta).unwrap();
        run.samples.iter().for_each(|sample| directory.append(sample).unwrap());
        (folder, place, run)
    }

    fn replace_in(file: &Path, from: &str, to: &str) {
        let text = fs::read_to_string(file).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(file, text.replacen(from, to, 1)).unwrap();
    }

    #[test]
    fn what_was_written_is_read() {
        let (_folder, place, run) = written();
        let back = read(&place).unwrap();
        assert_eq!(back.meta, run.meta);
        assert_eq!(back.samples, run.samples);
        assert!(back.warnings.is_empty());
    }

    #[test]
    fn directories_of_the_earlier_version_are_read() {
        let (_folder, place, mut run) = written();
        replace_in(&place.join(META), SCHEMA, EARLIER_SCHEMA);
        run.meta.schema = EARLIER_SCHEMA.to_owned();
        assert_eq!(read(&place).unwrap().meta, run.meta);
    }

    #[test]
    fn nothing_is_overwritten() {
        let (_folder, place, run) = written();
        let before = fs::read(place.join(SAMPLES)).unwrap();
        let error = RunDirectory::create(&place, &run.meta).unwrap_err().to_string();
        assert!(error.contains("not empty, and results are never overwritten"), "{error}");
        assert_eq!(fs::read(place.join(SAMPLES)).unwrap(), before);
    }

    #[test]
    fn a_last_line_without_its_end_is_left_out_with_a_warning() {
        let (_folder, place, run) = written();
        let file = place.join(SAMPLES);
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..bytes.len() - 5]).unwrap();
        let back = read(&place).unwrap();
        assert_eq!(back.samples, run.samples[..3]);
        assert!(back.warnings[0].ends_with("samples.jsonl:4: cut off in the middle, left out"));
        // Only the newline is missing; the sample is whole.
        fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(read(&place).unwrap().samples, run.samples);
    }

    #[test]
    fn damage_is_named_with_file_and_line() {
        for (file, from, to, error) in [
            (SAMPLES, "\"round\":2", "\"round\":two", "samples.jsonl:2: "),
            (
                SAMPLES,
                "\"variant\":\"b\"",
                "\"variant\":\"c\"",
                "samples.jsonl:3: meta.json has no variant c",
            ),
            (SAMPLES, "\"tasks\":1", "\"tasks\":3", "samples.jsonl:1: "),
            (
                SAMPLES,
                "\"verified\":1000",
                "\"verified\":999",
                "samples.jsonl:1: verified 999 of 1000",
            ),
            (SAMPLES, "signal 9\"", "signal 9\"}\n{\"x\":\"", "samples.jsonl:4: "),
            (META, SCHEMA, "quarry-lab/99", "meta.json:2: schema quarry-lab/99"),
            (META, "\"seed\": 1", "\"seed\": \"x\"", "meta.json:4: "),
            (META, "\"seed\": 1", "\"seed\" 1", "meta.json:4: "),
            (META, "\"baseline\": \"a\"", "\"baseline\": \"z\"", "no variant is called z"),
        ] {
            let (_folder, place, _) = written();
            replace_in(&place.join(file), from, to);
            let found = format!("{:#}", read(&place).unwrap_err());
            assert!(found.contains(error), "{found}");
        }
    }

    #[test]
    fn foreign_directories_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = || format!("{:#}", read(folder.path()).unwrap_err());
        assert!(error().contains("meta.json: no such file"), "{}", error());
        fs::write(folder.path().join(META), "[1, 2]").unwrap();
        assert!(error().contains("meta.json:1: no schema"), "{}", error());
    }
}
