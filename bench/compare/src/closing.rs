//! The sentence that sums up a comparison.

use crate::judgement::Judgements;
use quarry_harness::judge::{Judgement, Outcome};
use quarry_harness::results::{Direction, Metric, Relation, Run};
use quarry_harness::statistics::MIN_PAIRS;
use quarry_harness::table::counted;

/// Sums up in one sentence the metrics that the runs of one workload decide.
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
            "no intervals with {}, so nothing is decided; --runs {MIN_PAIRS} or more have some",
            counted(run.rounds(), "run")
        );
    }
    let of_memory = memory.map(of).unwrap_or_default();
    let beside = if best(&of_primary).is_some() { memory } else { Some(primary) };
    let chosen = best(&of_primary).or_else(|| best(&of_memory)).map(|chosen| {
        let told = |it: &&Judgement| {
            it.variant == chosen.variant
                && it.metric.name != chosen.metric.name
                && (is_decided(it) || Some(&it.metric.name) == beside.map(|it| &it.name))
        };
        let all = std::iter::once(chosen).chain(judgements.all().filter(is_judged).filter(told));
        format!("{}: {}", chosen.variant, list(all))
    });
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
    let decided = meta.variants.iter().filter_map(|variant| {
        let of_it = |it: &&Judgement| it.variant == variant.name && is_decided(it);
        let mut of_it = judgements.all().filter(is_judged).filter(of_it).peekable();
        of_it.peek().is_some().then(|| format!("; {} has {}", variant.name, list(of_it)))
    });
    let decided: String = decided.collect();
    let also = memory.map_or(String::new(), |memory| format!(" or in {}", memory.name));
    let undecided = of_primary.iter().filter(|it| it.outcome == Outcome::Undecided).count();
    match undecided {
        0 => format!("no other is better than {baseline} in {}{also}{decided}", primary.name),
        _ => format!(
            "undecided: {undecided} of {others} cannot be told from {baseline} in {} by these \
             runs{decided}",
            primary.name
        ),
    }
}

/// Returns whether a metric with a direction is better or worse.
pub(super) fn is_decided(judgement: &Judgement) -> bool {
    judgement.metric.direction != Direction::None
        && matches!(judgement.outcome, Outcome::Better | Outcome::Worse)
}

fn list<'a>(judgements: impl Iterator<Item = &'a Judgement>) -> String {
    judgements.map(effect).collect::<Vec<String>>().join(", ")
}

/// The memory metric that the verdict is about: resident memory while idle, else the peak.
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

/// Puts a judgement into words: `31 % less idle memory`, `time the same`, `time undecided`.
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

/// The name of a metric in a sentence.
pub(super) fn in_words(metric: &str) -> &str {
    match metric {
        "wall" => "time",
        "cpu" => "CPU time",
        "user" => "CPU time of the user",
        "sys" => "CPU time of the system",
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
        assert_eq!(text, "no other is better than a in wall; c has 20 % more time");
        let noisy = [5.0, 20.0, 9.0, 11.0, 14.0, 7.0, 10.0, 13.0];
        let text = said(&[("a", [10.0; 8]), ("b", noisy)]);
        assert!(text.starts_with("undecided: 1 of 1 cannot be told from a in wall"), "{text}");
        let text = said(&[("a", [10.0; 8])]);
        assert_eq!(text, "a alone was measured, so there is nothing to choose from");
    }

    /// The word "undecided" alone would hide that the allocator takes 15 % more memory.
    #[test]
    fn every_decided_metric_is_named() {
        let noisy = [5.0, 20.0, 9.0, 11.0, 14.0, 7.0, 10.0, 13.0];
        let said = |b: [f64; 8], bytes: f64| {
            let columns = [("a", [10.0; 8]), ("b", b)].map(|(name, it)| (name, it.map(Some)));
            let columns = columns.each_ref().map(|(name, values)| (*name, values.as_slice()));
            let mut run = run("a", &columns);
            run.meta.metrics[0].name = "wall".to_owned();
            run.meta.metrics.push(Metric::new("peak RSS", "", Direction::Lower, "peak_bytes"));
            for sample in &mut run.samples {
                let counters = &mut sample.measurement.as_mut().unwrap().counters;
                let bytes = if sample.variant == "b" { bytes } else { 100.0 };
                counters.insert("peak_bytes".to_owned(), bytes as u64);
            }
            sentence(&run, &Judgements::of(&run), "w")
        };
        let text = said(noisy, 115.0);
        assert!(text.starts_with("undecided: 1 of 1 cannot be told from a in wall"), "{text}");
        assert!(text.ends_with("; b has 15 % more peak memory"), "{text}");
        let text = said([8.0; 8], 115.0);
        assert_eq!(text, "best beside a is b: 20 % less time, 15 % more peak memory");
        let text = said([8.0; 8], 100.0);
        assert_eq!(text, "best beside a is b: 20 % less time, peak memory the same");
    }

    #[test]
    fn too_few_runs_decide_nothing() {
        let run = run("a", &[("a", &[Some(1.0); 3]), ("b", &[Some(2.0); 3])]);
        let text = sentence(&run, &Judgements::of(&run), "w");
        assert!(text.starts_with("no intervals with 3 runs, so nothing is decided"), "{text}");
    }
}
