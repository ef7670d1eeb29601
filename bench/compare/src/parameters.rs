//! `-L n 1,2,4`: command lines with each value in place of `{n}`.

use anyhow::{Result, bail};
use memchr::memmem;
use quarry_harness::usage::Usage;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

const MOST_WORKLOADS: usize = 1000;

/// A command line that is compared, with the values of `-L` that distinguish it from the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandVariant {
    /// Names and values, such as `("n", "4")`; empty without `-L`.
    pub parameters: Vec<(String, String)>,
    /// Name and arguments.
    pub command: Vec<OsString>,
    /// The shell command that runs before each run.
    pub prepare: Option<OsString>,
}

/// The command lines of all combinations of values. In `scans` names and comma-separated values
/// alternate, as the command-line parser collects them. Fails on an invalid name or list, or a name
/// that the command does not mention.
pub(super) fn scan(
    scans: &[String],
    command: &[OsString],
    prepare: Option<&OsStr>,
) -> Result<Vec<CommandVariant>> {
    let mut all = vec![CommandVariant {
        parameters: Vec::new(),
        command: command.to_vec(),
        prepare: prepare.map(OsStr::to_owned),
    }];
    let mut names: Vec<&str> = Vec::new();
    for pair in scans.chunks(2) {
        let [name, list] = pair else { bail!(Usage("-L: accepted: NAME VALUES".to_owned())) };
        let values = values_of(name, list)?;
        if names.contains(&name.as_str()) {
            bail!(Usage(format!("-L {name}: named twice; accepted: each name once")));
        }
        names.push(name);
        let place = format!("{{{name}}}");
        let holds = |text: &OsStr| memmem::find(text.as_bytes(), place.as_bytes()).is_some();
        if !command.iter().any(|it| holds(it)) && !prepare.is_some_and(holds) {
            bail!(Usage(format!(
                "-L {name}: {place} is neither in the command nor in --prepare; accepted: a name \
                 that one of them mentions so"
            )));
        }
        if all.len() * values.len() > MOST_WORKLOADS {
            bail!(Usage(format!(
                "-L {name}: more than {MOST_WORKLOADS} combinations; accepted: fewer values"
            )));
        }
        let with = |one: &CommandVariant| {
            let with = |value: &&str| one.with(name, &place, value);
            values.iter().map(with).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    Ok(all)
}

fn values_of<'a>(name: &str, list: &'a str) -> Result<Vec<&'a str>> {
    let is_name = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if !is_name {
        bail!(Usage(format!("-L {name}: accepted as a name: letters, digits, '_' and '-'")));
    }
    let values: Vec<&str> = list.split(',').collect();
    let is_twice = |value: &&&str| values.iter().filter(|it| it == value).count() > 1;
    match values.iter().find(is_twice) {
        Some(value) => bail!(Usage(format!(
            "-L {name} {list}: the value '{value}' is there twice; accepted: different values, \
             with commas between them"
        ))),
        None => Ok(values),
    }
}

impl CommandVariant {
    fn with(&self, name: &str, place: &str, value: &str) -> Self {
        let filled = |text: &OsString| replace(text, place.as_bytes(), value.as_bytes());
        let mut parameters = self.parameters.clone();
        parameters.push((name.to_owned(), value.to_owned()));
        Self {
            parameters,
            command: self.command.iter().map(filled).collect(),
            prepare: self.prepare.as_ref().map(filled),
        }
    }

    /// The same command line, told from others by one more parameter.
    pub(super) fn marked(&self, name: &str, value: &str) -> Self {
        let mut marked = self.clone();
        marked.parameters.push((name.to_owned(), value.to_owned()));
        marked
    }

    pub(super) fn name(&self, program: &str) -> String {
        let values = self.parameters.iter().map(|(name, value)| format!(" {name}={value}"));
        program.to_owned() + &values.collect::<String>()
    }
}

fn replace(text: &OsStr, place: &[u8], value: &[u8]) -> OsString {
    let (mut rest, mut filled) = (text.as_bytes(), Vec::new());
    while let Some(at) = memmem::find(rest, place) {
        filled.extend_from_slice(&rest[..at]);
        filled.extend_from_slice(value);
        rest = &rest[at + place.len()..];
    }
    filled.extend_from_slice(rest);
    OsString::from_vec(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanned(scans: &[&str], command: &[&str], prepare: Option<&str>) -> Result<Vec<String>> {
        let scans: Vec<String> = scans.iter().map(|it| (*it).to_owned()).collect();
        let command: Vec<OsString> = command.iter().map(OsString::from).collect();
        let text = |it: CommandVariant| {
            let words: Vec<_> = it.command.iter().map(|word| word.to_string_lossy()).collect();
            let prepare = it.prepare.as_ref().map(|it| format!("; {}", it.display()));
            format!("{}: {}{}", it.name("x"), words.join(" "), prepare.unwrap_or_default())
        };
        let all = scan(&scans, &command, prepare.map(OsStr::new))?;
        Ok(all.into_iter().map(text).collect())
    }

    #[test]
    fn every_combination_of_values_is_a_command() {
        let one = scanned(&[], &["sort", "{n}"], None).unwrap();
        assert_eq!(one, ["x: sort {n}"], "nothing is replaced where nothing is scanned");
        let all = scanned(&["n", "1,2", "s", "a,b"], &["go", "-{n}{n}", "{m}"], Some("rm {s}"));
        let expected = [
            "x n=1 s=a: go -11 {m}; rm a",
            "x n=1 s=b: go -11 {m}; rm b",
            "x n=2 s=a: go -22 {m}; rm a",
            "x n=2 s=b: go -22 {m}; rm b",
        ];
        assert_eq!(all.unwrap(), expected);
        let again = scanned(&["n", "{n}"], &["{n}"], None).unwrap();
        assert_eq!(again, ["x n={n}: {n}"], "a value is not looked into");
    }

    #[test]
    fn mistakes_are_named() {
        let many: Vec<String> = (0..1001).map(|it| it.to_string()).collect();
        for (scans, why) in [
            (["n", "1"], "-L n: {n} is neither in the command nor in --prepare"),
            (["a b", "1"], "-L a b: accepted as a name"),
            (["", "1"], "accepted as a name"),
            (["m", "1,2,1"], "-L m 1,2,1: the value '1' is there twice"),
            (["m", &many.join(",")], "more than 1000 combinations"),
        ] {
            let error = scanned(&scans, &["go", "{m}"], None).unwrap_err();
            assert!(Usage::is_cause_of(&error) && error.to_string().contains(why), "{error}");
        }
        let twice = scanned(&["m", "1", "m", "2"], &["{m}"], None).unwrap_err().to_string();
        assert!(twice.starts_with("-L m: named twice"), "{twice}");
    }
}
