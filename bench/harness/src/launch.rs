//! Starts processes, among them sample processes: fresh processes of this executable.

use crate::results::Measurement;
use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Name of the hidden subcommand that takes one sample.
pub const SAMPLE_COMMAND: &str = "__sample";

/// Time after which SIGALRM ends a sample; such a sample has failed.
const SAMPLE_LIMIT_SECONDS: u32 = 60;

const CLEARED: &[&str] = &[
    "LD_PRELOAD",
    "GLIBC_TUNABLES",
    "MALLOC_",
    "_RJEM_",
    "TCMALLOC_",
    "MIMALLOC_",
    "QUARRY_DISABLE",
    "QUARRY_STATS",
    "QUARRY_LIBRARY",
    "QUARRY_PEERS",
];

/// Work that a sample process does; the fields of the type are the work's parameters.
pub trait Work: Serialize + DeserializeOwned {
    /// Distinguishes it from other work of the executable.
    const NAME: &'static str;

    /// Does the work in this process.
    fn measure(self) -> Result<Measurement>;

    /// The order that makes a fresh process do this work.
    fn order(&self) -> Order {
        let parameters = serde_json::to_string(self).expect("parameters are plain data");
        Order { work: Self::NAME, parameters }
    }
}

/// An order to a sample process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    work: &'static str,
    parameters: String,
}

/// A kind of work, as an entry in an executable's list.
#[derive(Clone, Copy)]
pub struct WorkKind {
    name: &'static str,
    measure: fn(&str) -> Result<Measurement>,
}

impl WorkKind {
    /// The kind of `W`.
    #[must_use]
    pub const fn of<W: Work>() -> Self {
        Self {
            name: W::NAME,
            measure: |parameters| serde_json::from_str::<W>(parameters)?.measure(),
        }
    }
}

/// Arguments of [`SAMPLE_COMMAND`]: an [`Order`].
#[derive(Args)]
pub struct SampleArgs {
    work: String,
    parameters: String,
}

impl SampleArgs {
    /// Does the ordered work in this process.
    ///
    /// # Errors
    /// If no kind of `kinds` has the name of the ordered work, or the work gives no measurement.
    pub fn measure(&self, mut kinds: impl Iterator<Item = WorkKind>) -> Result<Measurement> {
        nix::unistd::alarm::set(SAMPLE_LIMIT_SECONDS);
        let kind = kinds.find(|kind| kind.name == self.work);
        let kind = kind.with_context(|| format!("no work is called {}", self.work))?;
        (kind.measure)(&self.parameters)
    }
}

/// Takes one sample in a fresh process, with `preload` preloaded and `settings` in its environment.
///
/// # Errors
/// How the process failed.
pub fn sample(
    order: &Order,
    preload: Option<&Path>,
    settings: &[(String, String)],
) -> Result<Measurement> {
    let output = command(order, preload, settings)?.output().context("cannot start a sample")?;
    answer_of(&output, &output.stdout)
}

/// The command for a sample process.
///
/// # Errors
/// If this executable cannot be found.
pub fn command(
    order: &Order,
    preload: Option<&Path>,
    settings: &[(String, String)],
) -> Result<Command> {
    let this = std::env::current_exe().context("cannot find this executable")?;
    let mut command = Command::new(this);
    command.arg(SAMPLE_COMMAND).arg(order.work).arg(&order.parameters);
    preload_into(&mut command, preload);
    command.envs(settings.iter().cloned());
    Ok(command)
}

/// Parses the measurement that a sample process has printed.
///
/// # Errors
/// How the process failed.
pub fn answer_of(output: &Output, answer: &[u8]) -> Result<Measurement> {
    if !output.status.success() {
        anyhow::bail!(end_of(output));
    }
    serde_json::from_slice(answer).map_err(|error| anyhow::anyhow!("unreadable answer: {error}"))
}

/// Removes the variables that would change an allocator's behaviour, and preloads `preload`.
pub fn preload_into(command: &mut Command, preload: Option<&Path>) {
    for key in cleared_variables() {
        command.env_remove(key);
    }
    if let Some(preload) = preload {
        command.env("LD_PRELOAD", preload);
    }
}

/// Variables of this process that a sample process does not inherit.
#[must_use]
pub fn cleared_variables() -> Vec<OsString> {
    std::env::vars_os().map(|(key, _)| key).filter(is_cleared).collect()
}

fn is_cleared(key: &OsString) -> bool {
    let key = key.to_string_lossy();
    CLEARED.iter().any(|prefix| key.starts_with(prefix))
}

/// The complaint about a path that [`is_preloadable`] refuses.
pub const NOT_PRELOADABLE: &str = "LD_PRELOAD cannot hold a path with a colon or white space";

/// Returns whether `LD_PRELOAD` can hold a path: colons and white space separate its entries.
#[must_use]
pub fn is_preloadable(path: &Path) -> bool {
    !path.as_os_str().as_encoded_bytes().iter().any(|it| matches!(it, b':' | b' ' | b'\t' | b'\n'))
}

/// The value of `LD_PRELOAD`: `objects`, and then those that this process's caller preloads.
#[must_use]
pub fn preload_value(objects: &[&Path], own: Option<OsString>) -> OsString {
    let own = own.filter(|own| !own.is_empty());
    let all = objects.iter().map(|object| object.as_os_str()).chain(own.as_deref());
    all.collect::<Vec<&OsStr>>().join(OsStr::new(":"))
}

/// Describes the end of a failed process, with the last line of its standard error.
#[must_use]
pub fn end_of(output: &Output) -> String {
    let last = last_line(&output.stderr).unwrap_or_else(|| "no message".to_owned());
    let end = match (output.status.signal(), output.status.code()) {
        (Some(libc::SIGALRM), _) => format!("not done after {SAMPLE_LIMIT_SECONDS} s"),
        (Some(signal), _) => format!("ended by signal {signal}"),
        (None, code) => format!("exit status {}", code.unwrap_or(-1)),
    };
    format!("{end}: {last}")
}

/// The last line that is not blank.
#[must_use]
pub fn last_line(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    text.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_owned)
}

/// Looks for a program: first in `/usr/bin`, because the search path may lead to a wrapper script;
/// then in the search path; at last in `/usr/sbin` and `/sbin`, where many servers are.
#[must_use]
pub fn place_of(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(PathBuf::from("/usr/bin"))
        .chain(std::env::split_paths(&path))
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[test]
    fn variables_of_allocators_are_cleared() {
        for key in ["LD_PRELOAD", "MALLOC_CONF", "MALLOC_ARENA_MAX", "QUARRY_DISABLE"] {
            assert!(is_cleared(&key.into()), "{key}");
        }
        for key in ["PATH", "QUARRY_THP", "LD_LIBRARY_PATH"] {
            assert!(!is_cleared(&key.into()), "{key}");
        }
    }

    #[test]
    fn objects_are_preloaded_in_front_of_the_callers_own() {
        let both = [Path::new("/w.so"), Path::new("/a.so")];
        assert_eq!(preload_value(&both, None), "/w.so:/a.so");
        assert_eq!(preload_value(&both, Some(OsString::new())), "/w.so:/a.so");
        assert_eq!(preload_value(&both, Some("/own.so".into())), "/w.so:/a.so:/own.so");
        for path in ["/a b.so", "/a:b.so", "/a\tb.so"] {
            assert!(!is_preloadable(Path::new(path)), "{path}");
        }
        assert!(is_preloadable(Path::new("/a-b.so")));
    }

    #[test]
    fn failures_say_how_the_process_ended() {
        let run = |script: &str| end_of(&Command::new("sh").args(["-c", script]).output().unwrap());
        assert_eq!(run("echo one >&2; echo two >&2; exit 3"), "exit status 3: two");
        assert_eq!(run("kill -SEGV $$"), "ended by signal 11: no message");
        assert!(run("kill -ALRM $$").starts_with("not done after 60 s"));
    }

    #[derive(Serialize, Deserialize)]
    struct Twice {
        number: u64,
    }

    impl Work for Twice {
        const NAME: &'static str = "twice";

        fn measure(self) -> Result<Measurement> {
            Ok(Measurement::of_window(self.number * 2, 0, 0, 0, "x"))
        }
    }

    #[test]
    fn an_order_leads_to_its_work() {
        let Order { work, parameters } = Twice { number: 21 }.order();
        let measure = |work: &str| {
            let args = SampleArgs { work: work.to_owned(), parameters: parameters.clone() };
            args.measure([WorkKind::of::<Twice>()].into_iter())
        };
        assert_eq!(measure(work).unwrap().operations, 42);
        assert_eq!(measure("thrice").unwrap_err().to_string(), "no work is called thrice");
    }

    #[test]
    fn programs_are_found_by_their_names() {
        assert!(place_of("sh").is_some_and(|file| file.is_absolute()));
        assert_eq!(place_of("quarry-no-such-program"), None);
    }
}
