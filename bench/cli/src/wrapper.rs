//! Finds the programs that a wrapper script (a shell script that starts a program) may run.
//!
//! This module reads the script and does not execute it. It resolves only variables with fixed
//! words and the script's folder. It leaves out other commands, so the result may be incomplete.

use crate::program;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::iter::{Peekable, from_fn};
use std::path::{Path, PathBuf};
use std::str::Chars;

/// Maximum number of bytes that are read: wrapper scripts are short.
const MOST_BYTES: u64 = 256 << 10;
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ksh", "mksh", "zsh"];
const KEYWORDS: [&str; 12] =
    ["if", "then", "else", "elif", "while", "until", "do", "{", "!", "time", "command", "exec"];

/// The programs that a script for `shell` starts by `exec`, or with all its own arguments.
pub(crate) fn programs_of(script: &Path, shell: &Path, path: Option<&OsStr>) -> Vec<PathBuf> {
    let name = shell.file_name().and_then(OsStr::to_str).unwrap_or_default();
    if !SHELLS.contains(&name) {
        return Vec::new();
    }
    let bytes = program::first_bytes(script, MOST_BYTES).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let mut reader = Reader::new(script, &text);
    let mut found = Vec::new();
    while let Some(command) = reader.command() {
        let program = command.program().and_then(|word| program::locate(word.as_ref(), path).ok());
        if let Some(program) = program.filter(|program| !found.contains(program)) {
            found.push(program);
        }
    }
    found
}

/// A word of a script; `None` if it depends on unknown values.
type Word = Option<String>;

#[derive(Debug, Default)]
struct Command {
    words: Vec<Word>,
    /// True if a word stands for all arguments of the script.
    passes_arguments: bool,
}

impl Command {
    fn program(&self) -> Option<&str> {
        let mut words = self.words.iter().map(|word| word.as_deref());
        let mut is_exec = false;
        loop {
            let word = words.next()??;
            match word {
                "exec" => is_exec = true,
                "env" | "nohup" | "nice" => {}
                // In `exec -a NAME` and `nice -n NUMBER` an extra word follows the option.
                "-a" | "-n" => drop(words.next()),
                _ if KEYWORDS.contains(&word)
                    || word.starts_with('-')
                    || assigned(word).is_some() => {}
                _ if word.contains(['<', '>']) => return None,
                _ => return (is_exec || self.passes_arguments).then_some(word),
            }
        }
    }
}

/// The name and value of `NAME=VALUE`, if the word has this form.
fn assigned(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let is_name = !name.is_empty()
        && name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
        && !name.starts_with(|it: char| it.is_ascii_digit());
    is_name.then_some((name, value))
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    variables: HashMap<String, String>,
    folder: String,
}

impl<'a> Reader<'a> {
    fn new(script: &Path, text: &'a str) -> Self {
        let real = script.canonicalize().unwrap_or_else(|_| script.to_owned());
        let folder = real.parent().unwrap_or(Path::new("/")).display().to_string();
        let known = [("0", script.display().to_string()), ("0%/*", folder.clone())];
        let variables = known.map(|(name, value)| (name.to_owned(), value)).into();
        Self { rest: text.chars().peekable(), variables, folder }
    }

    /// Reads the next command, and remembers its assignments; `None` at the end.
    fn command(&mut self) -> Option<Command> {
        let mut command = Command::default();
        self.rest.peek()?;
        while let Some(&next) = self.rest.peek() {
            match next {
                ' ' | '\t' => drop(self.rest.next()),
                '\n' | ';' | '&' | '|' | '(' | ')' => {
                    self.rest.next();
                    break;
                }
                '#' => while self.rest.next_if(|&it| it != '\n').is_some() {},
                _ => self.word(&mut command),
            }
        }
        let is_setting = |word: &Word| {
            word.as_deref()
                .is_none_or(|it| assigned(it).is_some() || it == "export" || it == "readonly")
        };
        if command.words.iter().all(is_setting) {
            for (name, value) in command.words.iter().flatten().filter_map(|it| assigned(it)) {
                self.variables.insert(name.to_owned(), value.to_owned());
            }
        }
        Some(command)
    }

    fn word(&mut self, command: &mut Command) {
        let mut word = Some(String::new());
        let mut add = |piece: Option<&str>| match (&mut word, piece) {
            (Some(word), Some(piece)) => word.push_str(piece),
            _ => word = None,
        };
        let mut is_quoted = false;
        let mut is_continued_line = false;
        while let Some(&next) = self.rest.peek() {
            match next {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' if !is_quoted => break,
                _ => drop(self.rest.next()),
            }
            match next {
                '"' => is_quoted = !is_quoted,
                '\'' if !is_quoted => add(Some(&self.until('\''))),
                '\\' => match self.rest.next() {
                    Some('\n') | None => is_continued_line = true,
                    Some(escaped) => add(Some(escaped.encode_utf8(&mut [0; 4]))),
                },
                '`' => {
                    let inner = self.until('`');
                    add(self.substituted(&inner).as_deref());
                }
                '$' => {
                    let (value, is_arguments) = self.expansion();
                    command.passes_arguments |= is_arguments;
                    add(value.as_deref());
                }
                '*' | '?' | '[' | '~' if !is_quoted => add(None),
                other => add(Some(other.encode_utf8(&mut [0; 4]))),
            }
        }
        if !(is_continued_line && word.as_deref() == Some("")) {
            command.words.push(word);
        }
    }

    /// Reads an expansion after `$`: its value, and whether it stands for the script's arguments.
    fn expansion(&mut self) -> (Word, bool) {
        match self.rest.peek() {
            Some('(') => {
                let inner = self.parenthesised();
                (self.substituted(&inner), false)
            }
            Some('{') => {
                self.rest.next();
                let name = self.until('}');
                let value = self.variables.get(&name).cloned();
                // Old shells need `${1+"$@"}`.
                (value, name.contains(['@', '*']) && !name.starts_with('0'))
            }
            Some('@' | '*') => {
                self.rest.next();
                (None, true)
            }
            _ => {
                let is_part = |it: &char| it.is_ascii_alphanumeric() || *it == '_';
                let name: String = from_fn(|| self.rest.next_if(is_part)).collect();
                (self.variables.get(&name).cloned(), false)
            }
        }
    }

    /// The output of a command, if the command prints the script's folder.
    fn substituted(&self, command: &str) -> Word {
        let is_folder = command.contains("dirname") && command.contains("$0");
        is_folder.then(|| self.folder.clone())
    }

    fn until(&mut self, end: char) -> String {
        self.rest.by_ref().take_while(|&it| it != end).collect()
    }

    fn parenthesised(&mut self) -> String {
        let mut depth = 0;
        let mut inner = String::new();
        for next in self.rest.by_ref() {
            depth += i32::from(next == '(') - i32::from(next == ')');
            inner.push(next);
            if depth == 0 {
                break;
            }
        }
        inner
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn programs(text: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        for name in ["real", "other"] {
            fs::write(bin.join(name), "").unwrap();
            fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let script = folder.path().join("script");
        fs::write(&script, text.replace("BIN", &bin.display().to_string())).unwrap();
        let found = programs_of(&script, Path::new("/bin/sh"), Some(bin.as_os_str()));
        let name = |path: PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        found.into_iter().map(name).collect()
    }

    #[test]
    fn scripts_that_hand_over() {
        for text in [
            "exec BIN/real",
            "exec real -x \"$@\"\n",
            "#!/bin/sh\nNAME=real\nexport LIB=BIN X=1\nexec $LIB/${NAME} $FLAGS \"$@\"\n",
            "HERE=\"$(dirname \"$(readlink -f \"$0\")\")\"\n\
             if true; then exec -a \"$0\" \"$HERE/bin/real\" \"$@\"; fi",
            "HERE=`dirname $0`; \"$HERE\"/bin/real $*",
            "exec \"${0%/*}/bin/real\"",
            "A=1 exec env B=2 nice -n 3 BIN/real",
            "test -x BIN/real && BIN/real ${1+\"$@\"}",
            "note='it''s; exec other'\n# exec other\necho \"\nexec other\n\"\nexec \\\n  real",
        ] {
            assert_eq!(programs(text), ["real"], "{text}");
        }
        let both = "case $1 in\n -d) exec other \"$@\" ;;\n *) exec real \"$@\" ;;\nesac\n";
        assert_eq!(programs(both), ["other", "real"]);
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        for text in [
            "real\nother\n",
            "exec > real 2>&1",
            "exec $UNKNOWN/real \"$@\"",
            "exec $(which real) \"$@\"",
            "LIB=$1\nexec $LIB/real",
            "exec BIN/r*l",
            "exec no-such-program \"$@\"",
            "echo exec real",
        ] {
            assert_eq!(programs(text), [""; 0], "{text}");
        }
    }
}
