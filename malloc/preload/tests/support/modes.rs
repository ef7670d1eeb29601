//! The modes in which the tests of caches and pages run: each must hold whichever instrument sees
//! the requests, and while instruments go on and off.

use super::compile::plugin;
use super::run::Run;

/// Instruments, and whether a thread switches the heap profile on and off all the time.
#[derive(Clone, Copy)]
pub(crate) struct Mode {
    variables: &'static [(&'static str, &'static str)],
    is_switched: bool,
}

const PROFILE: (&str, &str) = ("QUARRY_PROFILE_MEAN", "16");
const ALL: &[(&str, &str)] =
    &[("QUARRY_DEBUG", "FZPU"), ("QUARRY_HARDEN", "1"), ("QUARRY_GUARD", "1"), PROFILE];

/// No instrument; all of them; and those that can be switched, switched.
const SHORT: [Mode; 3] = [
    Mode { variables: &[], is_switched: false },
    Mode { variables: ALL, is_switched: false },
    Mode { variables: &[("QUARRY_GUARD", "1")], is_switched: true },
];

const OTHERS: [Mode; 8] = [
    Mode { variables: &[("QUARRY_DEBUG", "FZPU")], is_switched: false },
    Mode { variables: &[("QUARRY_DEBUG", "-")], is_switched: false },
    Mode { variables: &[("QUARRY_DEBUG", "FZ,malloc-1024")], is_switched: true },
    Mode { variables: &[("QUARRY_HARDEN", "1")], is_switched: false },
    Mode { variables: &[("QUARRY_HARDEN", "1"), ("QUARRY_GUARD", "1")], is_switched: true },
    Mode { variables: &[("QUARRY_GUARD", "all")], is_switched: false },
    Mode { variables: &[PROFILE], is_switched: false },
    Mode { variables: &[], is_switched: true },
];

/// All modes; where `TEST_STEP` asks for fewer cases, as `make test` does, the three of [`SHORT`].
pub(crate) fn modes() -> impl Iterator<Item = Mode> {
    let others: &[Mode] = if std::env::var_os("TEST_STEP").is_some() { &[] } else { &OTHERS };
    SHORT.into_iter().chain(others.iter().copied())
}

/// Demands that a program succeeds in every mode.
pub(crate) fn in_every_mode(run: impl Fn() -> Run) {
    modes().for_each(|mode| drop(run().without_stats().in_mode(mode).finish().success()));
}

/// The same with few samples, each of which takes a page.
pub(crate) fn with_few_samples(run: impl Fn() -> Run) {
    for run in modes().filter_map(|mode| mode.with_few_samples(run().without_stats())) {
        run.finish().success();
    }
}

impl Mode {
    /// Returns whether no instrument is ever on.
    pub(crate) fn is_plain(self) -> bool {
        self.variables.is_empty() && !self.is_switched
    }

    /// Runs the program in this mode, but with few samples; `None` for a mode that is switched.
    pub(crate) fn with_few_samples(self, run: Run) -> Option<Run> {
        let few = |run: Run| run.in_mode(self).env("QUARRY_PROFILE_MEAN", "1000000000000");
        (!self.is_switched).then(|| few(run))
    }

    /// Returns whether an instrument sees each free.
    pub(crate) fn sees_frees(self) -> bool {
        let names = ["QUARRY_DEBUG", "QUARRY_HARDEN"];
        self.variables.iter().any(|(name, value)| names.contains(name) && *value != "-")
    }
}

impl Run {
    /// Runs the program in a mode.
    pub(crate) fn in_mode(self, mode: Mode) -> Self {
        let mut run = self;
        if mode.variables.contains(&PROFILE) {
            let file = run.scratch().join("profile");
            run = run.env("QUARRY_PROFILE", file);
        }
        if mode.is_switched {
            run = run.beside(&plugin("modes_switch.c"));
        }
        mode.variables.iter().fold(run, |run, (name, value)| run.env(name, value))
    }
}
