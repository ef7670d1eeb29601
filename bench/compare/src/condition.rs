//! `--fail-if`: a bound on a metric that continuous integration enforces.
//!
//! ```text
//! condition = metric ( ">" | "<" ) ( "+" | "-" ) number "%"
//! ```
//!
//! The percentage is the difference from the baseline, as in the table of verdicts. `>` is met if
//! the whole 95 % interval lies above the bound, `<` if it lies below. If nothing can be judged the
//! comparison fails too, because nothing shows that the bound holds.

use crate::judgement::Judgements;
use anyhow::{Result, bail};
use quarry_harness::judge::Judgement;
use quarry_harness::nearest;
use quarry_harness::results::{Cell, Relation, Run};
use quarry_harness::statistics::Interval;
use quarry_harness::usage::Usage;

const ACCEPTED: &str = "accepted: METRIC > +N % or METRIC < -N %, such as 'peak RSS > +5 %', with \
                        a sign before the number";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Above,
    Below,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Condition {
    pub(super) text: String,
    metric: String,
    side: Side,
    /// The bound as a share of the baseline, such as 0.05.
    bound: f64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    Met(String),
    NotMet,
    /// Nothing can be judged, for this reason.
    Empty(String),
}

impl Condition {
    /// Reads a condition; `metrics` are the names that can be judged. Fails on a mistake.
    pub(super) fn parse(text: &str, metrics: &[&str]) -> Result<Self> {
        let refusal = |why: &str| Usage(format!("--fail-if '{text}': {why}; {ACCEPTED}"));
        let Some(at) = text.rfind(['>', '<']) else { bail!(refusal("no '>' and no '<' in it")) };
        let (metric, rest) = (text[..at].trim(), text[at + 1..].trim());
        if !metrics.contains(&metric) {
            return Err(nearest::unknown("metric --fail-if", metric, metrics));
        }
        let Some(number) = rest.strip_suffix('%') else { bail!(refusal("no '%' at its end")) };
        let number = number.trim_end();
        let (sign, digits) = match number.split_at_checked(1) {
            Some(("+", digits)) => (1.0, digits),
            Some(("-", digits)) => (-1.0, digits),
            _ => bail!(refusal("no '+' or '-' before the number")),
        };
        // Rust reads more forms as numbers; a condition takes plain decimals only.
        let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let Some(percent) = digits.parse::<f64>().ok().filter(|_| is_plain) else {
            bail!(refusal(&format!("'{digits}' is no number")));
        };
        let side = if &text[at..=at] == ">" { Side::Above } else { Side::Below };
        let bound = sign * percent / 100.0;
        if bound <= -1.0 {
            bail!(refusal("nothing is less than nothing"));
        }
        Ok(Self { text: text.to_owned(), metric: metric.to_owned(), side, bound })
    }

    /// Judges every allocator except the baseline, on every workload.
    pub(super) fn find(&self, run: &Run, judgements: &Judgements) -> Finding {
        let empty = |why: &str| Finding::Empty(format!("--fail-if '{}': {why}", self.text));
        if !run.meta.metrics.iter().any(|metric| metric.name == self.metric) {
            return empty(&format!("no {} was measured: no process lived on", self.metric));
        }
        let of_metric = judgements.all().filter(|it| it.metric.name == self.metric && !it.is_copy);
        let of_metric: Vec<&Judgement> = of_metric.collect();
        if of_metric.is_empty() {
            return empty("no allocator was compared with the baseline");
        }
        let mut met = Vec::new();
        for judgement in of_metric {
            let Some(interval) = judgement.interval() else {
                let name = &judgement.variant;
                let why = judgement.outcome.word();
                return empty(&format!("{name} cannot be judged ({why}): no interval"));
            };
            if self.is_beyond(interval, judgement, run) {
                met.push(format!(
                    "{} {} on {}",
                    judgement.variant,
                    judgement.change_text(),
                    judgement.workload
                ));
            }
        }
        match met[..] {
            [] => Finding::NotMet,
            _ => Finding::Met(format!("--fail-if '{}': {}", self.text, met.join("; "))),
        }
    }

    fn is_beyond(&self, interval: Interval, judgement: &Judgement, run: &Run) -> bool {
        let bound = match judgement.relation {
            Relation::Ratio => 1.0 + self.bound,
            // Near zero, a share of the baseline may be smaller than the metric's resolution.
            Relation::Difference => {
                let (zero, share) =
                    (judgement.metric.near_zero, self.bound * baseline(judgement, run).abs());
                match self.side {
                    Side::Above => share.max(zero),
                    Side::Below => share.min(-zero),
                }
            }
        };
        match self.side {
            Side::Above => interval.low > bound,
            Side::Below => interval.high < bound,
        }
    }
}

fn baseline(judgement: &Judgement, run: &Run) -> f64 {
    let Judgement { workload, baseline, metric, .. } = judgement;
    run.median(Cell { workload, tasks: 1, variant: baseline }, metric).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_harness::results::examples::run_of;
    use quarry_harness::results::{Direction, Metric};

    const NAMES: [&str; 3] = ["wall", "peak RSS", "rate > 1"];

    fn parsed(text: &str) -> Result<Condition> {
        Condition::parse(text, &NAMES)
    }

    #[test]
    fn conditions_are_read_strictly() {
        let bound = |text: &str| parsed(text).map(|it| (it.metric, it.side, it.bound)).unwrap();
        assert_eq!(bound("peak RSS > +5 %"), ("peak RSS".to_owned(), Side::Above, 0.05));
        assert_eq!(bound("wall<-2.5%"), ("wall".to_owned(), Side::Below, -0.025));
        assert_eq!(bound("rate > 1 < -1%").0, "rate > 1");
        for (text, why) in [
            ("wall", "no '>' and no '<' in it; accepted: METRIC > +N %"),
            ("", "no '>'"),
            ("wall > 5 %", "no '+' or '-' before the number"),
            ("wall > +5", "no '%' at its end"),
            ("wall > +5 MiB", "no '%'"),
            ("wall > +%", "'' is no number"),
            ("wall > +1e3%", "'1e3' is no number"),
            ("wall > +inf%", "'inf' is no number"),
            ("wall > +-5%", "'-5' is no number"),
            ("wall < -100 %", "nothing is less than nothing"),
            ("wal > +5 %", "no metric --fail-if wal; did you mean wall? accepted: wall, peak RSS"),
            ("wall >= +5 %", "no '+' or '-'"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(Usage::is_cause_of(&error) && error.to_string().contains(why), "{error}");
        }
    }

    fn found(condition: &str, base: [f64; 8], other: [f64; 8]) -> Finding {
        let wall = Metric::new("wall", "s", Direction::Lower, "value").near_zero(0.01).primary();
        let of =
            |name: &str, values: [f64; 8]| ("w".to_owned(), 1, name.to_owned(), values.to_vec());
        let run = run_of("test", wall, &vec![of("a", base), of("b", other)]);
        parsed(condition).unwrap().find(&run, &Judgements::of(&run))
    }

    #[test]
    fn the_interval_decides_and_not_the_centre() {
        let base = [1.0; 8];
        let near_ten = [1.08, 1.09, 1.10, 1.11, 1.12, 1.10, 1.09, 1.11];
        assert!(matches!(found("wall > +5 %", base, near_ten), Finding::Met(_)));
        assert_eq!(found("wall > +9.5 %", base, near_ten), Finding::NotMet);
        assert_eq!(found("wall < -5 %", base, near_ten), Finding::NotMet);
        let less = near_ten.map(|it| 1.0 / it);
        let Finding::Met(text) = found("wall < -5 %", base, less) else { panic!("10 % less") };
        assert!(text.starts_with("--fail-if 'wall < -5 %': b -9"), "{text}");
        assert_eq!(found("wall > +0 %", base, base), Finding::NotMet, "equal is not above");
    }

    #[test]
    fn near_zero_the_grain_of_the_clock_is_no_difference() {
        assert_eq!(found("wall > +5 %", [0.001; 8], [0.004; 8]), Finding::NotMet);
        assert!(matches!(found("wall > +5 %", [0.001; 8], [0.044; 8]), Finding::Met(_)));
        assert!(matches!(found("wall > +5 %", [0.0; 8], [0.044; 8]), Finding::Met(_)));
    }

    #[test]
    fn where_nothing_can_be_judged_nothing_holds() {
        let wall = || Metric::new("wall", "s", Direction::Lower, "value").primary();
        let of = |name: &str, values: &[f64]| ("w".to_owned(), 1, name.to_owned(), values.to_vec());
        let judged = |run: &Run, text: &str| parsed(text).unwrap().find(run, &Judgements::of(run));
        let alone = run_of("test", wall(), &vec![of("a", &[1.0; 8])]);
        let said = "--fail-if 'wall > +5 %': no allocator was compared with the baseline";
        assert_eq!(judged(&alone, "wall > +5 %"), Finding::Empty(said.to_owned()));
        let few = run_of("test", wall(), &vec![of("a", &[1.0; 3]), of("b", &[1.0; 3])]);
        assert!(matches!(judged(&few, "wall > +5 %"), Finding::Empty(_)));
        assert!(matches!(judged(&few, "peak RSS > +5 %"), Finding::Empty(_)));
    }
}
