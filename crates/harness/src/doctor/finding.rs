//! The findings of the doctor.

use serde::Serialize;

/// The weight of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// Good to know when results are read; nothing is wrong.
    Note,
    /// Timings spread or shift because of it.
    Warning,
    /// Timings mean something else than they seem to.
    Serious,
}

impl Severity {
    /// Returns the word that is printed.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Serious => "serious",
        }
    }
}

/// A fact that makes timings untrustworthy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// Its subject; each check has one.
    pub about: &'static str,
    /// Its weight.
    pub severity: Severity,
    /// The value.
    pub seen: String,
    /// Its effect on timings.
    pub why: &'static str,
    /// The command that mends it, or what to do where there is none.
    pub mend: String,
}

impl Finding {
    /// Makes one; `mend` is a command or advice, and empty where there is none.
    pub(super) fn new(
        severity: Severity,
        about: &'static str,
        seen: impl Into<String>,
        why: &'static str,
        mend: impl Into<String>,
    ) -> Self {
        Self { about, severity, seen: seen.into(), why, mend: mend.into() }
    }

    /// Returns it as a line, for the results of a run.
    pub(super) fn brief(&self) -> String {
        format!("{}: {}: {}", self.severity.word(), self.about, self.seen)
    }
}
