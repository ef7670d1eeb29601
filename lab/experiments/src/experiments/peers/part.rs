//! The workloads of other experiments, as rows of this one.

use crate::experiments::start_up::{SmallProgram, others_than_true};
use crate::patterns::{Family, Pattern};
use crate::real_programs::{self, RealProgram};
use quarry_harness::results::{Verify, Workload};
use std::fmt;

/// Names of metrics: time of an operation, CPU time of a program, and memory after a burst.
pub(super) const TIME: &str = "time";
pub(super) const CPU: &str = "CPU";
pub(super) const HELD_AFTER: &str = "held after";
/// Processes that one sample of starts runs.
pub(super) const STARTS: u32 = 20;
const GROWING: [usize; 4] = [64, 1000, 16000, 200_000];

#[derive(Clone, Copy)]
pub(crate) enum Part {
    Pattern(Pattern),
    /// `growth`, with objects of this many bytes.
    Growth(usize),
    Program(&'static RealProgram),
    /// `idle-return`: all objects are freed.
    Burst,
    /// `start-up`: starts of `true`, and the memory of `sleep`.
    SmallProcess,
    /// `start-up`: starts of a shell or an interpreter that does nothing.
    Start(&'static SmallProgram),
}

impl Part {
    pub(crate) fn all() -> Vec<Self> {
        let patterns = Pattern::all().into_iter().map(Self::Pattern);
        let growing = GROWING.into_iter().map(Self::Growth);
        let programs = real_programs::ALL.iter().map(Self::Program);
        let others = [Self::Burst, Self::SmallProcess];
        let starts = others_than_true().iter().map(Self::Start);
        patterns.chain(growing).chain(programs).chain(others).chain(starts).collect()
    }

    pub(super) fn workload(&self) -> Workload {
        let verify = match self {
            Self::Growth(_) => Verify::Counter("objects".to_owned()),
            Self::SmallProcess | Self::Start(_) => Verify::Exactly(STARTS.into()),
            Self::Pattern(_) | Self::Program(_) | Self::Burst => Verify::PerOperation(1),
        };
        Workload::new(&self.to_string(), verify)
    }

    pub(super) fn pattern(&self) -> Option<Pattern> {
        match self {
            Self::Pattern(pattern) => Some(*pattern),
            _ => None,
        }
    }

    pub(super) fn program(&self) -> Option<&'static RealProgram> {
        match self {
            Self::Program(program) => Some(program),
            _ => None,
        }
    }

    pub(super) fn is_quick(&self) -> bool {
        match self {
            Self::Pattern(pattern) => pattern.is_quick(),
            Self::Growth(size) => *size == GROWING[1],
            Self::Program(_) | Self::Burst | Self::SmallProcess | Self::Start(_) => true,
        }
    }

    /// Returns whether a part's first run differs from later ones. Those of `Burst` and of
    /// `SmallProcess` (`sleep`) do not: their memory does not depend on earlier runs.
    pub(super) fn has_warm_up(&self) -> bool {
        !matches!(self, Self::Burst | Self::SmallProcess)
    }

    /// Returns whether a part counts in the means over everything: it does if its peak memory is
    /// what its work needs. A burst does not, because its memory is read afterwards, nor do `sleep`
    /// and an empty script, which do no work. Of the forms of pairs only the plain one counts.
    pub(super) fn is_of_everything(&self) -> bool {
        match self {
            Self::Burst | Self::SmallProcess | Self::Start(_) => false,
            Self::Pattern(pattern) => pattern.family() != Family::PairForms,
            Self::Growth(_) | Self::Program(_) => true,
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pattern(pattern) => pattern.fmt(f),
            Self::Growth(size) => write!(f, "growth-{size}"),
            Self::Program(program) => f.write_str(program.name),
            Self::Burst => f.write_str("burst"),
            Self::SmallProcess => f.write_str("small-process"),
            Self::Start(program) => write!(f, "start-{}", program.words[0]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_a_quick_run_has_every_kind() {
        let all = Part::all();
        let names: Vec<String> = all.iter().map(ToString::to_string).collect();
        for (index, name) in names.iter().enumerate() {
            assert!(!names[..index].contains(name), "{name}");
        }
        let kinds: [fn(&Part) -> bool; 6] = [
            |it| matches!(it, Part::Pattern(_)),
            |it| matches!(it, Part::Growth(_)),
            |it| matches!(it, Part::Program(_)),
            |it| matches!(it, Part::Burst),
            |it| matches!(it, Part::SmallProcess),
            |it| matches!(it, Part::Start(_)),
        ];
        for is_of_kind in kinds {
            assert!(all.iter().any(|it| is_of_kind(it) && it.is_quick()));
        }
    }
}
