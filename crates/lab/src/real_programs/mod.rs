//! Real programs, each with a fixed amount of work whose result is checked.
//!
//! ```text
//! table      the programs: what runs, with which files, and what proves that it was right
//! generated  inputs that are made: a C file, a puzzle, pages
//! ready      one program, ready to be run: its folder, its command, its check
//! clients    what talks to servers, and compares every reply
//! traffic    requests to a store of keys and values, and what they must bring
//! redis, memcached, pages   that traffic, and pages, as each server's protocol has them
//! work/      scripts that the programs run
//! ```

mod clients;
mod generated;
mod memcached;
mod pages;
mod ready;
mod redis;
mod table;
mod traffic;

pub(crate) use table::ALL;

use clients::Protocol;
use quarry_harness::launch::place_of;
use std::path::PathBuf;

/// One of the programs, as the table has it. In texts, `@DIR@` stands for the folder that its files
/// lie in, and `@AMOUNT@` for the amount of work.
pub(crate) struct RealProgram {
    /// Its name in tables.
    pub(crate) name: &'static str,
    /// The work that it is made to do.
    pub(crate) what: &'static str,
    /// Debian's package of it.
    pub(crate) package: &'static str,
    /// The file that is executed.
    executable: &'static str,
    arguments: &'static [&'static str],
    variables: &'static [(&'static str, &'static str)],
    files: &'static [(&'static str, Content)],
    /// The one of the files that it reads as its standard input.
    stdin: Option<&'static str>,
    full: u64,
    quick: u64,
    proof: Proof,
}

/// A file that a program works on.
enum Content {
    /// A text.
    Text(&'static str),
    /// A text that is made for an amount of work.
    Made(fn(u64) -> String),
}

/// The proof that the work was done, and done right.
enum Proof {
    /// The program ends by itself and prints the same on every allocator, and these words are in
    /// the last line for the full and the quick amount.
    Prints { full: &'static str, quick: &'static str },
    /// The program is a server at `@DIR@/socket`, and every reply is compared with the right one.
    Replies(fn() -> Box<dyn Protocol>),
}

impl RealProgram {
    /// Returns its file, or says which package has it.
    pub(crate) fn place(&self) -> Result<PathBuf, String> {
        let Self { name, package, .. } = self;
        let advice = || format!("{name}: not installed; it is in Debian's package {package}");
        place_of(self.executable).ok_or_else(advice)
    }

    /// The amount of work; what one is of is the program's matter.
    pub(crate) fn amount(&self, quick: bool) -> u64 {
        if quick { self.quick } else { self.full }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_programs_name_their_package() {
        let absent = RealProgram {
            name: "nobody",
            what: "",
            package: "nobody-server",
            executable: "quarry-no-such-program",
            arguments: &[],
            variables: &[],
            files: &[],
            stdin: None,
            full: 2,
            quick: 1,
            proof: Proof::Prints { full: "", quick: "" },
        };
        let expected = "nobody: not installed; it is in Debian's package nobody-server";
        assert_eq!(absent.place().unwrap_err(), expected);
        assert!(ALL.iter().all(|it| {
            it.place().map_or_else(|advice| advice.contains(it.package), |file| file.is_absolute())
        }));
    }
}
