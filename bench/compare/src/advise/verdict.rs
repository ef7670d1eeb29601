//! The answer that a test supports.

use super::plan::MOST_TESTED;
use super::request::Goal;
use super::search::LOSS_WEIGHT;
use crate::closing::{self, effect};
use crate::judgement::Judgements;
use quarry_harness::judge::{Judgement, MARGIN, Outcome};
use quarry_harness::results::{Direction, Relation, Run};
use quarry_harness::table::counted;
use serde::Serialize;
use std::f64::consts::LN_2;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Answer {
    Use,
    /// Keep the allocator that serves the program now.
    Keep,
    #[default]
    Undecided,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) answer: Answer,
    /// One sentence without its full stop.
    pub(super) sentence: String,
}

impl Verdict {
    pub(super) fn keep(baseline: &str, reason: &str) -> Self {
        Self { answer: Answer::Keep, sentence: format!("keep {baseline}: {reason}") }
    }

    pub(super) fn undecided(baseline: &str, reason: &str) -> Self {
        Self {
            answer: Answer::Undecided,
            sentence: format!("undecided, so keep {baseline} for now: {reason}"),
        }
    }
}

/// The part of a judgement on time or memory that the answer depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    /// A gain; if it is a ratio, by [`MARGIN`] or more.
    Gain,
    None,
    /// A loss; the number is the logarithm of the largest loss in the interval.
    Loss(f64),
    /// Undecided; the number is the logarithm of the largest loss in the interval.
    Unknown(f64),
}

/// Judges the test of `name`, which was picked from `others` candidates, itself included.
pub(super) fn verdict(run: &Run, name: &str, others: usize, goal: Goal) -> Verdict {
    let judgements = Judgements::of(run);
    let baseline = &run.meta.baseline;
    let workload = &run.meta.workloads[0].name;
    let time = judgements.get(workload, name, run.meta.primary());
    let memory = closing::memory_of(&run.meta.metrics);
    let memory = memory.and_then(|metric| judgements.get(workload, name, metric));
    let failures = run.failures();
    if let Some(failure) = failures.first() {
        return Verdict::undecided(baseline, &format!("the test failed: {failure}"));
    }
    let Some(time) = time.filter(|it| it.interval().is_some()) else {
        let why = "the time was over when the test had too few runs for an interval";
        return Verdict::undecided(baseline, &format!("{why} ({})", run.rounds()));
    };
    let sides = match (goal, memory) {
        (Goal::Time, _) | (_, None) => (side(time), Side::None),
        (Goal::Memory, Some(memory)) => (Side::None, side(memory)),
        (Goal::Either, Some(memory)) => (side(time), side(memory)),
    };
    let (time_first, mut effects) = in_order(time, memory, sides);
    let is_told = |it: &Judgement| [Some(time), memory].iter().flatten().any(|told| *told == it);
    for other in judgements.all().filter(|it| it.variant == name && closing::is_decided(it)) {
        if !is_told(other) {
            effects = format!("{effects}, {}", effect(other));
        }
    }
    let best = match others {
        0 | 1 => name.to_owned(),
        others => format!("the best of {others} candidates, {name},"),
    };
    let beside = memory.unwrap_or(time);
    match weigh(sides, [time, beside]) {
        Answer::Use => Verdict { answer: Answer::Use, sentence: format!("use {name}: {effects}") },
        Answer::Keep => match sides {
            (Side::Gain, Side::Loss(_)) | (Side::Loss(_), Side::Gain) => Verdict::keep(
                baseline,
                &format!(
                    "{name} trades one for the other ({effects}); it is right where {} counts \
                     alone",
                    closing::in_words(&if time_first { time } else { beside }.metric.name)
                ),
            ),
            _ => Verdict::keep(baseline, &format!("{best} is no better: {effects}")),
        },
        Answer::Undecided => {
            let more = [Some(time), memory].into_iter().flatten();
            let more = match more.filter_map(|it| it.more_runs).max() {
                Some(more) if run.rounds() + more <= MOST_TESTED as usize => {
                    let more = counted(more, "more run");
                    format!("; about {more} would settle it (a longer --budget)")
                }
                _ if is_wild(time) || is_wild(beside) => {
                    "; the runs vary too much to decide: try a quieter machine or a longer workload"
                        .to_owned()
                }
                None => String::new(),
                Some(_) => "; a quieter machine or a longer workload would settle it".to_owned(),
            };
            Verdict::undecided(baseline, &format!("{name}: {effects}{more}"))
        }
    }
}

fn weigh(sides: (Side, Side), [time, memory]: [&Judgement; 2]) -> Answer {
    let least = |judgement: &Judgement| bounds(judgement).map_or(0.0, |(least, _)| least);
    match sides {
        (Side::Gain, Side::Gain | Side::None) | (Side::None, Side::Gain) => Answer::Use,
        // Compares the lower end of the gain with the upper end of the loss, as logarithms.
        (Side::Gain, Side::Loss(loss) | Side::Unknown(loss))
            if least(time) > LOSS_WEIGHT * loss =>
        {
            Answer::Use
        }
        (Side::Loss(loss) | Side::Unknown(loss), Side::Gain)
            if least(memory) > LOSS_WEIGHT * loss =>
        {
            Answer::Use
        }
        (Side::Unknown(_), Side::Loss(_)) if is_wild(time) => Answer::Undecided,
        (Side::Loss(_), Side::Unknown(_)) if is_wild(memory) => Answer::Undecided,
        (Side::Unknown(_), Side::Loss(_)) | (Side::Loss(_), Side::Unknown(_)) => Answer::Keep,
        (Side::Unknown(_), _) | (_, Side::Unknown(_)) => Answer::Undecided,
        _ => Answer::Keep,
    }
}

/// Words for the effects, a gain first; the flag is true if time comes first.
fn in_order(time: &Judgement, memory: Option<&Judgement>, sides: (Side, Side)) -> (bool, String) {
    let Some(memory) = memory else { return (true, effect(time)) };
    let time_first = sides.1 != Side::Gain || sides.0 == Side::Gain;
    let [first, second] = if time_first { [time, memory] } else { [memory, time] };
    (time_first, format!("{}, {}", effect(first), effect(second)))
}

fn side(judgement: &Judgement) -> Side {
    let is_large = match judgement.relation {
        Relation::Ratio => closing::gain(judgement) >= MARGIN.ln_1p(),
        Relation::Difference => true,
    };
    let worst = bounds(judgement).map_or(f64::INFINITY, |(least, _)| -least);
    match judgement.outcome {
        Outcome::Better if is_large => Side::Gain,
        Outcome::Better | Outcome::Same => Side::None,
        Outcome::Undecided => Side::Unknown(worst),
        _ => Side::Loss(worst),
    }
}

/// The interval of the gain as logarithms; `None` for an interval of differences.
fn bounds(judgement: &Judgement) -> Option<(f64, f64)> {
    let interval = judgement.ratios()?;
    let (low, high) = (interval.low.ln(), interval.high.ln());
    Some(match judgement.metric.direction {
        Direction::Higher => (low, high),
        _ => (-high, -low),
    })
}

/// Returns whether an interval spans a factor of two or more, so that it tells nothing.
fn is_wild(judgement: &Judgement) -> bool {
    bounds(judgement).is_some_and(|(least, most)| most - least >= LN_2)
}

#[cfg(test)]
mod tests {
    use super::super::search::simulated::{EQUAL, Machine, Nature, search};
    use super::*;

    fn advised(natures: &[Nature], noise: f64, run_ms: u64, seed: u64, goal: Goal) -> Verdict {
        let outcome = search(&Machine::new(natures, noise, run_ms, seed), goal);
        let (candidate, run) = outcome.test.unwrap();
        verdict(&run, &format!("c{candidate}"), natures.len(), goal)
    }

    fn one(time: f64, memory: f64, goal: Goal) -> Verdict {
        advised(&[Nature { time, memory, failing: 0.0 }], 0.02, 100, 7, goal)
    }

    #[test]
    fn a_gain_without_a_loss_is_used() {
        let small = one(1.0, 0.69, Goal::Either);
        assert_eq!(small.answer, Answer::Use, "{small:?}");
        assert_eq!(small.sentence, "use c0: 31 % less peak memory, time the same");
        let fast = one(0.8, 1.0, Goal::Either);
        assert_eq!(fast.answer, Answer::Use, "{fast:?}");
        assert!(fast.sentence.ends_with(" % less time, peak memory the same"), "{fast:?}");
        assert_eq!(one(0.8, 0.8, Goal::Either).answer, Answer::Use);
    }

    #[test]
    fn a_trade_is_said_and_the_goal_decides_it() {
        let cheap = one(0.5, 1.07, Goal::Either);
        assert_eq!(cheap.answer, Answer::Use, "half the time for 7 % of memory: {cheap:?}");
        let trade = one(0.8, 1.5, Goal::Either);
        assert_eq!(trade.answer, Answer::Keep);
        let text = trade.sentence;
        assert!(text.starts_with("keep glibc: c0 trades one for the other ("), "{text}");
        assert!(text.ends_with("it is right where time counts alone"), "{text}");
        assert_eq!(one(0.8, 1.5, Goal::Time).answer, Answer::Use);
        assert_eq!(one(1.3, 0.5, Goal::Memory).answer, Answer::Use);
        assert_eq!(one(1.3, 0.5, Goal::Time).answer, Answer::Keep);
    }

    #[test]
    fn what_is_no_better_is_not_used() {
        let same = one(1.0, 1.0, Goal::Either);
        let expected = "keep glibc: c0 is no better: time the same, peak memory the same";
        assert_eq!(same.sentence, expected);
        let worse = one(1.3, 1.3, Goal::Either);
        assert_eq!(worse.answer, Answer::Keep, "{worse:?}");
        let little = one(1.0, 0.988, Goal::Either);
        assert_eq!(little.answer, Answer::Keep, "too little to change for: {little:?}");
    }

    #[test]
    fn noise_is_undecided() {
        let noisy = advised(&[EQUAL], 0.4, 5000, 3, Goal::Time);
        assert_eq!(noisy.answer, Answer::Undecided, "{noisy:?}");
        assert!(noisy.sentence.starts_with("undecided, so keep glibc for now: c0: "), "{noisy:?}");
        let near = Nature { time: 0.97, ..EQUAL };
        let capped = advised(&[near], 0.4, 100, 3, Goal::Time);
        assert_eq!(capped.answer, Answer::Undecided, "{capped:?}");
        assert!(capped.sentence.ends_with("a longer workload would settle it"), "{capped:?}");
        let wild = advised(&[Nature { memory: 1.5, ..EQUAL }], 1.0, 5000, 3, Goal::Either);
        assert_eq!(wild.answer, Answer::Undecided, "a loss, beside what is not known: {wild:?}");
        assert!(wild.sentence.contains("; the runs vary too much to decide: try "), "{wild:?}");
        let failing = Nature { failing: 0.05, time: 0.5, ..EQUAL };
        let failed = (0..20).map(|seed| advised(&[failing], 0.02, 100, seed, Goal::Time));
        let failed = failed.filter(|it| it.sentence.contains("the test failed: ")).count();
        assert!(failed >= 10, "{failed} of 20");
    }

    /// The best of equal candidates looks better than glibc; at most 5 of 100 tests may confirm it.
    #[test]
    fn the_best_of_many_equal_ones_is_no_gain() {
        let used = |seed| {
            let natures = vec![EQUAL; 12];
            advised(&natures, 0.05, 1000, seed, Goal::Either).answer == Answer::Use
        };
        let used = (0..100).filter(|seed| used(*seed)).count();
        assert!(used <= 5, "{used} of 100");
    }

    #[test]
    fn a_real_gain_among_many_is_found() {
        let mut natures = vec![EQUAL; 12];
        natures[7] = Nature { time: 0.8, ..EQUAL };
        let found = |seed| {
            let it = advised(&natures, 0.05, 1000, seed, Goal::Either);
            it.answer == Answer::Use && it.sentence.starts_with("use c7: ")
        };
        let found = (0..50).filter(|seed| found(*seed)).count();
        assert!(found >= 45, "{found} of 50");
    }
}
