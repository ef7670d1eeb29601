//! Filters of system calls from lists of names, as programs for the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use crate::support::scratch;

/// The kernel's answer to a call: `include/uapi/linux/seccomp.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Allow,
    Kill,
    Fail(i32),
}

impl Answer {
    /// The answer by its name in `profiles.txt`.
    fn named(name: &str) -> Self {
        match name {
            "KILL" => Self::Kill,
            "EPERM" => Self::Fail(libc::EPERM),
            "ENOSYS" => Self::Fail(libc::ENOSYS),
            _ => panic!("{name} is no answer"),
        }
    }

    fn value(self) -> u32 {
        match self {
            Self::Allow => libc::SECCOMP_RET_ALLOW,
            Self::Kill => libc::SECCOMP_RET_KILL_PROCESS,
            Self::Fail(error) => libc::SECCOMP_RET_ERRNO | error as u32,
        }
    }
}

/// The number of each system call that the C compiler's headers know.
fn numbers() -> &'static BTreeMap<String, u32> {
    static NUMBERS: OnceLock<BTreeMap<String, u32>> = OnceLock::new();
    NUMBERS.get_or_init(|| {
        let mut compiler = Command::new("cc");
        compiler.args(["-E", "-dM", "-include", "sys/syscall.h", "-x", "c", "/dev/null"]);
        let text = compiler.output().expect("cc runs (Debian: build-essential)").stdout;
        let text = String::from_utf8(text).expect("names are ASCII");
        let number = |line: &str| {
            let (name, number) = line.strip_prefix("#define __NR_")?.split_once(' ')?;
            Some((name.to_owned(), number.parse().ok()?))
        };
        text.lines().filter_map(number).collect()
    })
}

/// A list of system calls with an answer each, and the answer for all others.
#[derive(Clone)]
pub(super) struct Filter {
    pub(super) name: String,
    answers: BTreeMap<String, Answer>,
    others: Answer,
}

impl Filter {
    /// All calls but these have the answer `Allow`.
    pub(super) fn refusing(name: &str, calls: &BTreeSet<String>, answer: Answer) -> Self {
        let answers = calls.iter().map(|call| (call.clone(), answer)).collect();
        Self { name: name.to_owned(), answers, others: Answer::Allow }
    }

    /// Only these calls have the answer `Allow`.
    pub(super) fn allowing(name: &str, calls: &BTreeSet<String>, others: Answer) -> Self {
        Self { others, ..Self::refusing(name, calls, Answer::Allow) }
    }

    /// The same filter, which kills where the other lets a call fail.
    pub(super) fn as_a_killer(&self) -> Self {
        let kills = |answer: Answer| match answer {
            // The C library calls `clone` where `clone3` is unknown.
            Answer::Fail(error) if error != libc::ENOSYS => Answer::Kill,
            answer => answer,
        };
        let answers = self.answers.iter().map(|(call, answer)| (call.clone(), kills(*answer)));
        Self { name: format!("{}, killing", self.name), answers: answers.collect(), ..*self }
    }

    pub(super) fn answer(&self, call: &str) -> Answer {
        self.answers.get(call).copied().unwrap_or(self.others)
    }

    pub(super) fn allows(&self, calls: &[&str]) -> bool {
        calls.iter().all(|call| self.answer(call) == Answer::Allow)
    }

    /// Writes the filter to a new file, as an array of `struct sock_filter`.
    pub(super) fn file(&self) -> PathBuf {
        const LOAD_NUMBER: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
        const SKIP_UNLESS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
        let mut steps = vec![(LOAD_NUMBER, 0, 0)];
        for (call, answer) in &self.answers {
            if let Some(number) = numbers().get(call) {
                steps.extend([(SKIP_UNLESS, 1, *number), (RETURN, 0, answer.value())]);
            }
        }
        steps.push((RETURN, 0, self.others.value()));
        let bytes = steps.iter().flat_map(|(code, if_not, value)| {
            let [low, high] = code.to_ne_bytes();
            [low, high, 0, *if_not].into_iter().chain(value.to_ne_bytes())
        });
        let file = scratch().join("filter");
        fs::write(&file, bytes.collect::<Vec<u8>>()).expect("scratch is writable");
        file
    }
}

/// The filters of `profiles.txt`.
pub(super) fn profiles() -> Vec<Filter> {
    include_str!("profiles.txt").split("\n\n").filter_map(profile).collect()
}

fn profile(paragraph: &str) -> Option<Filter> {
    let lines = paragraph.lines().filter(|line| !line.starts_with('#'));
    let mut words = lines.flat_map(str::split_whitespace);
    let (name, answer, form) = (words.next()?, Answer::named(words.next()?), words.next()?);
    let (of_listed, others) = match form {
        "except" => (answer, Answer::Allow),
        "only" => (Answer::Allow, answer),
        _ => panic!("{form} is no form of a filter"),
    };
    let mut answers = BTreeMap::new();
    for word in words {
        let (call, answer) = match word.split_once('=') {
            Some((call, answer)) => (call, Answer::named(answer)),
            None => (word, of_listed),
        };
        answers.insert(call.to_owned(), answer);
    }
    Some(Filter { name: name.to_owned(), answers, others })
}

/// The sets of `systemd-analyze syscall-filter` with the calls of each, also those of the sets
/// inside it; `None` where the tool is missing.
pub(super) fn systemd_sets() -> Option<BTreeMap<String, BTreeSet<String>>> {
    let output = Command::new("systemd-analyze").arg("syscall-filter").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut sets = BTreeMap::<String, BTreeSet<String>>::new();
    let mut last = None;
    for line in text.lines() {
        match line.trim() {
            "" => last = None,
            word if line.starts_with('@') => last = Some(word.to_owned()),
            word if word.starts_with('#') => {}
            word => {
                let set = sets.entry(last.clone()?).or_default();
                set.insert(word.to_owned());
            }
        }
    }
    let resolved = sets.keys().map(|name| (name.clone(), calls_of(name, &sets)));
    Some(resolved.collect())
}

fn calls_of(name: &str, sets: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let members = sets.get(name).into_iter().flatten();
    let calls = members.flat_map(|member| match member.starts_with('@') {
        true => calls_of(member, sets),
        false => BTreeSet::from([member.clone()]),
    });
    calls.collect()
}
