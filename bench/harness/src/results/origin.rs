//! The time and the command of a run.

use crate::table::counted;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Options for destinations and shards. The recorded command leaves them out, because a reader who
/// repeats it chooses other places and takes the whole run.
const PLACES: [&str; 9] = [
    "--out",
    "--shard",
    "--json",
    "--html",
    "--output",
    "--svg",
    "--export-csv",
    "--export-markdown",
    "--export-json",
];

/// The origin of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The time of its beginning, in seconds since 1970-01-01 00:00 UTC.
    pub began: u64,
    /// The command, without the options for destinations and shards.
    pub command: Vec<String>,
    /// Name and arguments of the measured program; empty if the run has no single program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub program: Vec<String>,
    /// The standard input of that program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<Stdin>,
}

/// The standard input, which every run of a program read from its beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Stdin {
    /// Empty.
    #[default]
    Nothing,
    /// The contents of a pipe.
    Pipe {
        /// Their length.
        bytes: u64,
    },
    /// A file.
    File {
        /// Its path from the working directory; for a file elsewhere only its name.
        name: String,
        /// Its length.
        bytes: u64,
    },
}

/// Writes `quarry-lab run x` as the user typed it: `quarry lab run x`.
fn as_typed(mut words: Vec<String>) -> Vec<String> {
    if let Some(first) = words.first_mut().filter(|it| it.ends_with("quarry-lab")) {
        first.truncate(first.len() - "-lab".len());
        words.insert(1, "lab".to_owned());
    }
    words
}

impl Origin {
    /// The command of this process, begun now.
    pub fn now() -> Self {
        let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        Self {
            began: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs()),
            command: without_places(as_typed(words.collect())),
            ..Self::default()
        }
    }

    /// Returns the time when the run began, as `2026-11-22 17:44:05 UTC`.
    pub fn date(&self) -> String {
        let time = UNIX_EPOCH.checked_add(Duration::from_secs(self.began));
        // `humantime` formats years up to 9999.
        match time.filter(|_| self.began < 253_402_300_800) {
            Some(time) => {
                let text = humantime::format_rfc3339_seconds(time).to_string();
                text.replace('T', " ").replace('Z', " UTC")
            }
            None => format!("{} s after 1970", self.began),
        }
    }

    /// Returns the command as a shell reads it, with `<` for a file on standard input.
    pub fn shell(&self) -> String {
        let is_named = self.command.iter().any(|word| word.starts_with("--input"));
        match &self.stdin {
            Some(Stdin::File { name, .. }) if !is_named => {
                format!("{} < {}", joined(&self.command), joined(std::slice::from_ref(name)))
            }
            _ => joined(&self.command),
        }
    }
}

impl fmt::Display for Stdin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => write!(f, "nothing"),
            Self::Pipe { bytes } => write!(f, "a pipe, {}", counted(bytes, "byte")),
            Self::File { name, bytes } => write!(f, "{name}, {}", counted(bytes, "byte")),
        }
    }
}

impl Stdin {
    /// A file by its path, without folders outside of the working directory.
    pub fn file(path: &Path, bytes: u64) -> Self {
        let here = std::env::current_dir().unwrap_or_default();
        let shown = match path.strip_prefix(&here) {
            Ok(path) => path.as_os_str(),
            Err(_) if path.is_relative() => path.as_os_str(),
            Err(_) => path.file_name().unwrap_or(path.as_os_str()),
        };
        Self::File { name: shown.to_string_lossy().into_owned(), bytes }
    }
}

/// Quotes and joins words for a shell.
pub fn joined(words: &[String]) -> String {
    // Joining fails on a zero byte, which an argument cannot contain.
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "))
}

/// Drops [`PLACES`] before `--`, and the directory of the executable.
fn without_places(words: Vec<String>) -> Vec<String> {
    let mut kept = Vec::with_capacity(words.len());
    let mut words = words.into_iter();
    if let Some(file) = words.next() {
        kept.push(file.rsplit('/').next().unwrap_or_default().to_owned());
    }
    while let Some(word) = words.next() {
        if word == "--" {
            kept.push(word);
            kept.extend(words);
            break;
        }
        let name = word.split('=').next().unwrap_or_default();
        match PLACES.contains(&name) {
            true if name == word => drop(words.next()),
            true => {}
            false => kept.push(word),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &[&str]) -> Vec<String> {
        text.iter().map(|it| (*it).to_owned()).collect()
    }

    #[test]
    fn commands_are_quoted_and_say_nothing_of_places() {
        let taken = words(&[
            "/x/quarry",
            "compare",
            "--out",
            "a",
            "--shard=1/2",
            "--html=b",
            "--runs",
            "7",
            "--",
        ]);
        let program = words(&["sh", "-c", "echo 'it''s' --out c", "--out", "d"]);
        let command = without_places([taken, program].concat());
        let origin = Origin { command, ..Origin::default() };
        let expected = "quarry compare --runs 7 -- sh -c \"echo 'it''s' --out c\" --out d";
        assert_eq!(origin.shell(), expected);
        let stdin = Some(Stdin::file(Path::new("/no/such/a b.sql"), 7));
        let fed = Origin { stdin, ..origin };
        assert_eq!(fed.shell(), format!("{expected} < 'a b.sql'"));
        assert_eq!(fed.stdin.unwrap().to_string(), "a b.sql, 7 bytes");
    }

    #[test]
    fn files_below_the_working_directory_keep_their_path() {
        let below = std::env::current_dir().unwrap().join("data/w.sql");
        let name = "data/w.sql".to_owned();
        assert_eq!(Stdin::file(&below, 1), Stdin::File { name: name.clone(), bytes: 1 });
        assert_eq!(Stdin::file(Path::new(&name), 1), Stdin::File { name, bytes: 1 });
    }

    #[test]
    fn dates_are_in_universal_time() {
        let date = |began| Origin { began, ..Origin::default() }.date();
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(1_795_369_445), "2026-11-22 17:44:05 UTC");
        assert_eq!(date(u64::MAX), "18446744073709551615 s after 1970");
    }
}
