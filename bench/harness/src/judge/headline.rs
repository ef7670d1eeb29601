//! A run's judgements as one sentence, the title of a page.

use super::{Column, Judgement, Outcome, Reason, Selection};
use crate::results::{Direction, Metric};
use crate::statistics::MIN_PAIRS;

impl<'a> Selection<'a> {
    /// Returns, as a sentence without a full stop, the answer or, without one, the verdicts on the
    /// primary metric and on memory.
    pub fn headline(&self) -> String {
        if let Some(answer) = self.answer {
            return answer.to_owned();
        }
        let memory = self.memory_metric().filter(|metric| !metric.primary);
        let metrics = std::iter::once(self.metric).chain(memory);
        let metrics = metrics.map(|metric| self.clause(metric));
        let text = metrics.chain(self.failed()).collect::<Vec<String>>().join("; ");
        // If the sentence begins with a variant's name, the case of its first letter stays.
        let is_name = self.columns.iter().any(|column| {
            text.strip_prefix(&*column.label).is_some_and(|rest| rest.starts_with([' ', ',']))
        });
        let mut letters = text.chars();
        match letters.next() {
            Some(first) if !is_name => first.to_uppercase().chain(letters).collect(),
            _ => text,
        }
    }

    /// Returns the metric for memory: idle memory, else the first in bytes of which less is better.
    pub fn memory_metric(&self) -> Option<&Metric> {
        let metrics = || self.baseline().run.meta.metrics.iter().filter(|it| it.is_memory());
        metrics().find(|metric| metric.name.starts_with("idle")).or_else(|| metrics().next())
    }

    fn failed(&self) -> Option<String> {
        let has_failed = |column: &&Column<'a>| {
            let outcome = self.judge_all(column, self.metric).outcome;
            column.variant.copy_of.is_none() && outcome == Outcome::NoVerdict(Reason::Failed)
        };
        let failed = self.columns[1..].iter().filter(has_failed).map(|column| &*column.label);
        let names = failed.collect::<Vec<&str>>().join(", ");
        (!names.is_empty()).then(|| format!("{names} failed"))
    }

    fn clause(&self, metric: &Metric) -> String {
        let rivals = self.columns[1..].iter().filter(|column| column.variant.copy_of.is_none());
        let judged: Vec<Judgement> = rivals.map(|column| self.judge_all(column, metric)).collect();
        let (name, baseline) = (&metric.name, &self.baseline().label);
        let with = |outcome| judged.iter().filter(move |it| it.outcome == outcome);
        let has_estimate = |it: &&Judgement| it.estimate.is_some();
        let pairs = judged.iter().filter(has_estimate).map(|it| it.pairs).max().unwrap_or(0);
        if (1..MIN_PAIRS).contains(&pairs) {
            let rounds = if pairs == 1 { "round has" } else { "rounds have" };
            return format!("undecided in {name}: {pairs} {rounds} no intervals, {MIN_PAIRS} have");
        }
        if let Some(best) = best(with(Outcome::Better), metric.direction) {
            let others = match with(Outcome::Better).count() - 1 {
                0 => String::new(),
                1 => ", and so is another one".to_owned(),
                others => format!(", and so are {others} others"),
            };
            let (variant, change) = (&best.variant, best.change_text());
            return format!("{variant} is better than {baseline} in {name}: {change}{others}");
        }
        let decided: Vec<&Judgement> =
            judged.iter().filter(|it| !matches!(it.outcome, Outcome::NoVerdict(_))).collect();
        if let [only] = decided[..] {
            let (variant, change) = (&only.variant, only.change_text());
            return match only.outcome {
                Outcome::Undecided => {
                    format!("{variant} is undecided against {baseline} in {name}")
                }
                Outcome::Same => format!("{variant} is the same as {baseline} in {name}: {change}"),
                outcome => {
                    format!("{variant} is {} than {baseline} in {name}: {change}", outcome.word())
                }
            };
        }
        let undecided = with(Outcome::Undecided).count();
        let same = with(Outcome::Same).count();
        let all = decided.len();
        match (all, undecided) {
            _ if judged.is_empty() => format!("nothing but {baseline} was measured in {name}"),
            (0, _) => format!("no verdict on {name}"),
            (_, 0) if same == all => format!("all are the same as {baseline} in {name}"),
            (_, 0) if metric.direction == Direction::None => {
                format!("{name} differs, and neither way is better")
            }
            (_, 0) => format!("nothing is better than {baseline} in {name}"),
            _ if undecided == all => format!("all are undecided in {name}"),
            (_, some) => {
                let are = if some == 1 { "is" } else { "are" };
                let known = format!("nothing is known to be better than {baseline} in {name}");
                format!("{known}, {some} {are} undecided")
            }
        }
    }
}

fn best<'a>(
    judged: impl Iterator<Item = &'a Judgement>,
    direction: Direction,
) -> Option<&'a Judgement> {
    let distance = |judgement: &Judgement| {
        let centre = judgement.estimate.map_or(0.0, |it| it.centre);
        if direction == Direction::Higher { centre } else { -centre }
    };
    judged.max_by(|one, two| distance(one).total_cmp(&distance(two)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Run;
    use crate::results::examples::{run, run_of};

    fn said(run: &Run) -> String {
        Selection::of(run).headline()
    }

    fn times(values: &[f64]) -> Run {
        let names = ["a", "a A/A", "b", "c", "d"];
        let columns: Vec<(&str, Vec<Option<f64>>)> =
            names.into_iter().zip(values.iter().map(|it| vec![Some(*it); 8])).collect();
        let columns: Vec<(&str, &[Option<f64>])> =
            columns.iter().map(|(name, values)| (*name, &values[..])).collect();
        run("a", &columns)
    }

    #[test]
    fn the_best_is_named_with_its_interval() {
        let expected = "b is better than a in time: -50.0 % [-50.0, -50.0]";
        assert_eq!(said(&times(&[10.0, 10.0, 5.0, 10.0])), expected);
        let expected = "c is better than a in time: -60.0 % [-60.0, -60.0], and so are 2 others";
        assert_eq!(said(&times(&[10.0, 10.0, 5.0, 4.0, 6.0])), expected);
    }

    #[test]
    fn where_nothing_is_better_it_says_so() {
        let expected = "Nothing is better than a in time";
        assert_eq!(said(&times(&[10.0, 10.0, 15.0, 10.0])), expected);
        let expected = "b is the same as a in time: +0.0 % [+0.0, +0.0]";
        assert_eq!(said(&times(&[10.0, 10.0, 10.0])), expected);
        assert_eq!(said(&times(&[10.0; 4])), "All are the same as a in time");
        assert_eq!(said(&times(&[10.0, 10.0])), "Nothing but a was measured in time");
        let few = run("a", &[("a", &[Some(1.0)]), ("b", &[Some(2.0)]), ("c", &[Some(2.0)])]);
        assert_eq!(said(&few), "Undecided in time: 1 round has no intervals, 6 have");
        let noisy = [5.0, 20.0, 9.0, 11.0, 14.0, 7.0, 10.0, 13.0].map(Some);
        let noisy = run("a", &[("a", &[Some(10.0); 8]), ("b", &noisy), ("c", &noisy)]);
        assert_eq!(said(&noisy), "All are undecided in time");
        let failed = run("a", &[("a", &[Some(1.0)]), ("b", &[None])]);
        assert_eq!(said(&failed), "No verdict on time");
        let mut failed = times(&[10.0, 10.0, 15.0, 5.0]);
        failed.meta.strict = true;
        failed.samples.last_mut().unwrap().failure = Some("signal 11".to_owned());
        let expected = "b is worse than a in time: +50.0 % [+50.0, +50.0]; c failed";
        assert_eq!(said(&failed), expected);
    }

    #[test]
    fn memory_has_a_clause_of_its_own() {
        let metric = Metric::new("time", "s", Direction::Lower, "value").primary();
        let cell = |name: &str| ("w".to_owned(), 1, name.to_owned(), vec![2.0; 8]);
        let mut run = run_of("test", metric, &vec![cell("a"), cell("b")]);
        run.meta.metrics.push(Metric::new("peak RSS", "MiB", Direction::Lower, "peak"));
        for sample in &mut run.samples {
            let peak = if sample.variant == "a" { 10.0 } else { 5.0 };
            let figures = &mut sample.measurement.as_mut().unwrap().figures;
            figures.insert("peak".to_owned(), peak);
        }
        let expected = "b is the same as a in time: +0.0 % [+0.0, +0.0]; \
                        b is better than a in peak RSS: -50.0 % [-50.0, -50.0]";
        assert_eq!(said(&run), expected);
    }
}
