//! Real programs, each with a fixed amount of checked work, read from `data/real_programs.toml`.
//! Their inputs are in `data/work`.
//!
//! ```text
//! generated  inputs that are made: a C file, a puzzle
//! clients    send requests to servers, and compare every reply
//! stores     requests to stores of keys and values, in the protocols of redis and memcached
//! http       pages, and documents of JSON
//! ```
//!
//! A new program is a table in `data/real_programs.toml`, or a script in `scripts/programs`.

mod clients;
mod generated;
mod http;
mod stores;

use crate::ready_program::{self, Check, Label, ReadyProgram};
use anyhow::{Context, Result};
use clients::Protocol;
use quarry_compare::allocators::{self, peer_folders};
use quarry_compare::{Launcher, Program};
use quarry_harness::launch::place_of;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

/// Longest time of a sample; a longer one has failed.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) static ALL: LazyLock<Vec<RealProgram>> = LazyLock::new(|| {
    crate::tables::tables(include_str!("../../data/real_programs.toml"), "program")
});

/// A program; the file describes the fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RealProgram {
    #[serde(deserialize_with = "forever")]
    pub(crate) name: &'static str,
    pub(crate) what: String,
    #[serde(default)]
    pub(crate) package: String,
    /// The `make` target of this repository that builds the program, if no package has it.
    #[serde(default)]
    target: String,
    executable: String,
    arguments: Vec<String>,
    #[serde(default)]
    variables: BTreeMap<String, String>,
    #[serde(default)]
    files: BTreeMap<String, Content>,
    stdin: Option<String>,
    full: u64,
    quick: u64,
    proof: Proof,
}

/// Reads a text that lives as long as the process.
fn forever<'de, D: Deserializer<'de>>(from: D) -> Result<&'static str, D::Error> {
    String::deserialize(from).map(|text| &*text.leak())
}

/// An input file of a program.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Content {
    /// A text of `data/work`.
    Text(String),
    /// A text that is generated for an amount of work.
    Made(String),
}

impl Content {
    /// The text, before amount and folder are filled in.
    fn text(&self, amount: u64) -> String {
        match self {
            Self::Text(name) => match name.as_str() {
                "nginx.conf" => include_str!("../../data/work/nginx.conf"),
                "objects.py" => include_str!("../../data/work/objects.py"),
                "stones.sql" => include_str!("../../data/work/stones.sql"),
                "trees.lua" => include_str!("../../data/work/trees.lua"),
                _ => panic!("no text {name}"),
            }
            .to_owned(),
            Self::Made(what) => match what.as_str() {
                "functions" => generated::functions(amount),
                "queens" => generated::queens(amount),
                _ => panic!("nothing makes {what}"),
            },
        }
    }
}

/// The proof that a program's work was done and right.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Proof {
    /// The program ends by itself and prints the same on every allocator. Its last line contains
    /// the words of `full` after the full amount of work, those of `quick` after the quick amount.
    Prints { full: String, quick: String },
    /// The program is a server whose replies are all compared with the right ones.
    Replies(Server),
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Server {
    Redis,
    Memcached,
    Pages,
    Documents,
}

impl Server {
    fn protocol(self) -> Box<dyn Protocol> {
        match self {
            Self::Redis => Box::new(stores::REDIS),
            Self::Memcached => Box::new(stores::MEMCACHED),
            Self::Pages => Box::new(http::Pages),
            Self::Documents => Box::new(http::Documents),
        }
    }
}

impl RealProgram {
    /// Returns the program's file. The error names its package, or the command that builds it.
    pub(crate) fn place(&self) -> Result<PathBuf, String> {
        let Self { name, package, target, .. } = self;
        if target.is_empty() {
            let advice = || format!("{name}: not installed; it is in Debian's package {package}");
            return place_of(&self.executable).ok_or_else(advice);
        }
        let mut built = peer_folders().into_iter().map(|folder| folder.join(&self.executable));
        let advice = || format!("{name}: not built; `make {target}` builds it");
        built.find(|file| file.is_file()).ok_or_else(advice)
    }

    /// The amount of work, in a unit that depends on the program.
    pub(crate) fn amount(&self, quick: bool) -> u64 {
        if quick { self.quick } else { self.full }
    }

    /// Writes the program's files, and runs it once on glibc, with its calls of malloc counted.
    /// `file` is its executable.
    pub(crate) fn make_ready(
        &self,
        file: PathBuf,
        quick: bool,
        launcher: &Launcher,
    ) -> Result<ReadyProgram> {
        let folder = tempfile::Builder::new().prefix("quarry-real").tempdir()?;
        let amount = self.amount(quick);
        let program = program(self, file, folder.path(), amount)?;
        let check = match &self.proof {
            Proof::Prints { full, quick: less } => {
                Check::Output(if quick { less } else { full }.clone())
            }
            &Proof::Replies(server) => {
                server.protocol().prepare(folder.path())?;
                let socket = folder.path().join("socket");
                let place = socket.clone();
                let clients = Box::new(move |runs: &dyn Fn() -> bool| {
                    clients::ask(&*server.protocol(), &place, amount, runs)
                });
                Check::Clients(ready_program::Server { socket, clients })
            }
        };
        let package = allocators::installed(&self.package);
        let label = Label {
            name: self.name.to_owned(),
            version: package.unwrap_or_else(|| self.name.to_owned()),
            what: self.what.clone(),
        };
        ReadyProgram::new(label, program, check, folder, launcher)
    }
}

fn program(what: &RealProgram, file: PathBuf, folder: &Path, amount: u64) -> Result<Program> {
    let place = folder.to_str().context("TMPDIR is not UTF-8")?;
    let fill = |text: &str| text.replace("@DIR@", place).replace("@AMOUNT@", &amount.to_string());
    for (name, content) in &what.files {
        let text = fill(&content.text(amount));
        fs::write(folder.join(name), text).with_context(|| format!("{place}/{name}"))?;
    }
    let words = std::iter::once(&what.executable).chain(&what.arguments);
    let set = |(key, value): (&String, &String)| (key.clone(), OsString::from(value));
    Ok(Program {
        file,
        command: words.map(|word| fill(word).into()).collect(),
        stdin: what.stdin.as_ref().map(|name| folder.join(name)),
        variables: what.variables.iter().map(set).collect(),
        timeout: LIMIT,
        may_serve_itself: false,
        proportional: true,
        prepare: None,
        ignore_failure: false,
        idle_for: None,
        plan: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::real_programs::ALL;
    use quarry_compare::Interrupt;
    use std::rc::Rc;

    #[test]
    fn names_are_unique_quick_is_less_and_every_file_is_there() {
        for (index, program) in ALL.iter().enumerate() {
            assert!(ALL[..index].iter().all(|other| other.name != program.name));
            assert!(program.quick < program.full, "{}", program.name);
            assert!(!program.what.is_empty());
            assert_ne!(program.package.is_empty(), program.target.is_empty(), "{}", program.name);
            assert!(program.files.values().all(|file| !file.text(8).is_empty()));
            assert!(program.stdin.as_ref().is_none_or(|name| program.files.contains_key(name)));
        }
    }

    #[test]
    fn absent_programs_name_their_package() {
        let text = "name = 'absent'\nwhat = ''\npackage = 'absent-server'\narguments = []\n\
                    executable = 'quarry-no-such-program'\nfull = 2\nquick = 1\n\
                    proof.replies = 'pages'";
        let absent: RealProgram = toml::from_str(text).unwrap();
        let expected = "absent: not installed; it is in Debian's package absent-server";
        assert_eq!(absent.place().unwrap_err(), expected);
        assert!(ALL.iter().all(|it| {
            it.place().map_or_else(
                |advice| advice.contains(&it.package) && advice.contains(&it.target),
                |file| file.is_absolute(),
            )
        }));
    }

    #[test]
    fn what_fails_on_glibc_is_told_before_the_first_sample() {
        let launcher = Launcher::new(Rc::new(Interrupt::listen().unwrap())).unwrap();
        let nowhere = "/no/such/program".into();
        // In this test the supervisor would be the test's executable, not `quarry`.
        let error = ALL[0].make_ready(nowhere, true, &launcher).err().unwrap();
        assert!(format!("{error:#}").starts_with("redis on glibc: "), "{error:#}");
    }

    #[test]
    fn places_and_amounts_are_filled_in() {
        let folder = tempfile::tempdir().unwrap();
        let lua = ALL.iter().find(|it| it.name == "lua").unwrap();
        let program = program(lua, "/bin/lua".into(), folder.path(), 9).unwrap();
        let script = folder.path().join("trees.lua");
        assert_eq!(program.command, ["lua5.4".into(), script.clone().into_os_string()]);
        assert!(fs::read_to_string(script).unwrap().contains("local depth = 9\n"));
    }
}
