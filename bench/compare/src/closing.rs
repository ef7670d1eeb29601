//! The sentence that sums a comparison up.

use crate::judgement::Judgements;
use quarry_harness::judge::{Judgement, Outcome};
use quarry_harness::results::{Direction, Metric, Relation, Run};
use quarry_harness::statistics::MIN_PAIRS;

/// Says in one sentence how the primary metric and memory came out on a workload.
pub(super) fn sentence(run: &Run, judgements: &Judgements, workload: &str) -> String {
    let meta = &run.meta;
    let is_judged = |it: &&Judgement| it.workload == workload && !it.is_copy;
    let of = |metric: &Metric| -> Vec<&Judgement> {
        let all = judgements.all().filter(is_judged);
        all.filter(|it| it.metric.name == metric.name && it.estimate.is_some()).collect()
    };
    let (primary, memory) = (meta.primary(), memory_of(&meta.metrics));
    let of_primary = of(primary);
    let baseline = &meta.baseline;
    let others = meta.variants.iter().filter(|it| it.name != *baseline && it.copy_of.is_none());
    let others = others.count();
    if others == 0 {
        return format!("{baseline} alone was measured, so there is nothing to choose from");
    }
    if of_primary.is_empty() {
        return "nothing can be said: see the failures".to_owned();
    }
    if run.rounds() < MIN_PAIRS {
        return format!(
            "{} runs have no intervals, so nothing is decided; --runs {MIN_PAIRS} or more have",
            run.rounds()
        );
    }
    let beside = |judgement: &Judgement, metric: Option<&Metric>| {
        let other = metric.and_then(|metric| judgements.get(workload, &judgement.variant, metric));
        other.map_or(String::new(), |other| format!(", {}", effect(other)))
    };
    let of_memory = memory.map(of).unwrap_or_default();
    let chosen = match (best(&of_primary), best(&of_memory)) {
        (Some(fast), _) => {
            Some(format!("{}: {}{}", fast.variant, effect(fast), beside(fast, memory)))
        }
        (None, Some(small)) => {
            Some(format!("{}: {}{}", small.variant, effect(small), beside(small, Some(primary))))
        }
        (None, None) => None,
    };
    let several = match others {
        1 => String::new(),
        others => format!(
            "; the best of {others} always looks a little better than it is, and `quarry advise` \
             confirms it by runs of its own"
        ),
    };
    if let Some(chosen) = chosen {
        return format!("best beside {baseline} is {chosen}{several}");
    }
    let undecided = of_primary.iter().filter(|it| it.outcome == Outcome::Undecided).count();
    match undecided {
        0 => format!("no other is better than {baseline} in {}{}", primary.name, also(memory)),
        _ => format!(
            "undecided: {undecided} of {others} cannot be told from {baseline} in {} by these runs",
            primary.name
        ),
    }
}

fn also(memory: Option<&Metric>) -> String {
    memory.map_or(String::new(), |memory| format!(" or in {}", memory.name))
}

/// The metric of memory that a verdict is about: resident memory while idle, else the peak.
pub(super) fn memory_of(metrics: &[Metric]) -> Option<&Metric> {
    let named = |name: &str| metrics.iter().find(|metric| metric.name == name);
    named("idle RSS").or_else(|| named("peak RSS"))
}

/// The judgement with the largest gain among the judgements "better".
fn best<'a>(judgements: &[&'a Judgement]) -> Option<&'a Judgement> {
    let better = judgements.iter().filter(|it| it.outcome == Outcome::Better);
    better.copied().max_by(|one, other| gain(one).total_cmp(&gain(other)))
}

/// The logarithm of the factor by which a variant is better than the baseline; 0 without a ratio.
pub(super) fn gain(judgement: &Judgement) -> f64 {
    let ratio = judgement.ratio().filter(|ratio| *ratio > 0.0).map_or(0.0, f64::ln);
    if judgement.metric.direction == Direction::Higher { ratio } else { -ratio }
}

/// Says a judgement in words: `31 % less idle memory`, `time the same`, `time undecided`.
pub(super) fn effect(judgement: &Judgement) -> String {
    let name = in_words(&judgement.metric.name);
    match judgement.outcome {
        Outcome::Same => format!("{name} the same"),
        Outcome::Undecided => format!("{name} undecided ({})", judgement.change_text()),
        Outcome::NoVerdict(_) => format!("no verdict on {name}"),
        _ => match (judgement.relation, judgement.estimate) {
            (Relation::Ratio, Some(estimate)) => {
                let percent = (estimate.centre - 1.0) * 100.0;
                let way = if percent < 0.0 { "less" } else { "more" };
                let digits = usize::from(percent.abs() < 9.95);
                format!("{:.digits$} % {way} {name}", percent.abs())
            }
            _ => format!("{name} {}", judgement.centre_text()),
        },
    }
}

fn in_words(metric: &str) -> &str {
    match metric {
        "wall" => "time",
        "idle RSS" => "idle memory",
        "peak RSS" => "peak memory",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_harness::results::examples::run;

    fn said(columns: &[(&str, [f64; 8])]) -> String {
        let columns: Vec<(&str, Vec<Option<f64>>)> =
            columns.iter().map(|(name, values)| (*name, values.map(Some).to_vec())).collect();
        let columns: Vec<(&str, &[Option<f64>])> =
            columns.iter().map(|(name, values)| (*name, values.as_slice())).collect();
        let mut run = run("a", &columns);
        run.meta.metrics[0].name = "wall".to_owned();
        sentence(&run, &Judgements::of(&run), "w")
    }

    #[test]
    fn the_best_of_those_that_are_better_is_named() {
        let text = said(&[("a", [10.0; 8]), ("b", [9.0; 8]), ("c", [8.0; 8]), ("d", [12.0; 8])]);
        assert!(text.starts_with("best beside a is c: 20 % less time; the best of 3"), "{text}");
        let text = said(&[("a", [10.0; 8]), ("b", [8.0; 8])]);
        assert_eq!(text, "best beside a is b: 20 % less time");
    }

    #[test]
    fn where_nothing_is_better_that_is_said() {
        let text = said(&[("a", [10.0; 8]), ("b", [10.0; 8]), ("c", [12.0; 8])]);
        assert_eq!(text, "no other is better than a in wall");
        let noisy = [5.0, 20.0, 9.0, 11.0, 14.0, 7.0, 10.0, 13.0];
        let text = said(&[("a", [10.0; 8]), ("b", noisy)]);
        assert!(text.starts_with("undecided: 1 of 1 cannot be told from a in wall"), "{text}");
        let text = said(&[("a", [10.0; 8])]);
        assert_eq!(text, "a alone was measured, so there is nothing to choose from");
    }

    #[test]
    fn too_few_runs_decide_nothing() {
        let run = run("a", &[("a", &[Some(1.0); 3]), ("b", &[Some(2.0); 3])]);
        let text = sentence(&run, &Judgements::of(&run), "w");
        assert!(text.starts_with("3 runs have no intervals, so nothing is decided"), "{text}");
    }
}
