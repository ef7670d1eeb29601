//! Standard deviations of two sets of samples, judged by an F-test: without it, a quotient of two
//! deviations of a few samples says nothing.

use quarry_harness::judge::{Column, Outcome, Row, Selection};
use quarry_harness::statistics::MIN_PAIRS;
use quarry_harness::statistics::mmtests::Sorted;
use quarry_harness::table::counted;
use statrs::distribution::{ContinuousCDF, FisherSnedecor};

/// The quotient of two standard deviations, and the interval in which it lies with 95 %, if both
/// sets of samples are normally distributed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quotient {
    centre: f64,
    low: f64,
    high: f64,
}

impl Quotient {
    /// `None` if one of the sets has fewer than six samples or does not vary.
    pub(crate) fn of(samples: Vec<f64>, base: Vec<f64>) -> Option<Self> {
        if samples.len().min(base.len()) < MIN_PAIRS {
            return None;
        }
        let freedom = [&samples, &base].map(|it| it.len() as f64 - 1.0);
        let [new, old] = [Sorted::new(samples)?.stddev(), Sorted::new(base)?.stddev()];
        let centre = Some(new / old).filter(|it| it.is_normal())?;
        let quotients = FisherSnedecor::new(freedom[0], freedom[1]).ok()?;
        let [low, high] = [0.975, 0.025].map(|it| centre / quotients.inverse_cdf(it).sqrt());
        Some(Self { centre, low, high })
    }

    /// Less deviation is better.
    pub(crate) const fn outcome(self) -> Outcome {
        match self {
            Self { high, .. } if high < 1.0 => Outcome::Better,
            Self { low, .. } if low > 1.0 => Outcome::Worse,
            _ => Outcome::Undecided,
        }
    }

    pub(crate) fn text(self) -> String {
        let Self { centre, low, high } = self;
        format!("{centre:.2} [{low:.2}, {high:.2}]")
    }
}

/// The deviation of a column's samples beside that of the baseline's.
pub(crate) fn beside(of: &Selection<'_>, column: &Column<'_>, row: Row<'_>) -> Option<Quotient> {
    let samples = |column| of.single_values(column, row, of.metric);
    Quotient::of(samples(column), samples(of.baseline()))
}

/// Returns how many deviations are smaller or larger than the baseline's; `None` if none is judged.
pub(crate) fn wins_and_losses(of: &Selection<'_>) -> Option<String> {
    let is_rival = |column: &&Column<'_>| column.label != of.baseline().label;
    let rivals = || of.originals().filter(is_rival);
    let of_row = |row: &Row<'_>| rivals().filter_map(|it| beside(of, it, *row)).collect::<Vec<_>>();
    let judged: Vec<_> = of.rows.iter().flat_map(of_row).collect();
    let with = |outcome| judged.iter().filter(|it| it.outcome() == outcome).count();
    (!judged.is_empty()).then(|| {
        format!(
            "Standard deviations beside {}, by an F-test: of {}, {} smaller, {} larger, {} \
             undecided. One in 20 differs by chance.",
            of.baseline().label,
            counted(judged.len(), "comparison"),
            with(Outcome::Better),
            with(Outcome::Worse),
            with(Outcome::Undecided),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_harness::results::examples;

    /// Ten samples with this deviation.
    fn samples(deviation: f64) -> Vec<f64> {
        (0..10)
            .map(|at| 100.0 + deviation * (f64::from(at) - 4.5) / 3.027_650_354_097_491_7)
            .collect()
    }

    /// The quantile of F(9, 9) at 97.5 % is 4.026, in every table.
    #[test]
    fn ten_samples_show_a_deviation_of_twice_as_much_and_hardly_less() {
        let of = |deviation| Quotient::of(samples(deviation), samples(1.0)).unwrap();
        let twice = of(2.0);
        assert!((twice.centre - 2.0).abs() < 1e-9, "{twice:?}");
        assert!((twice.low - 2.0 / 4.026_f64.sqrt()).abs() < 1e-3, "{twice:?}");
        assert!((twice.high - 2.0 * 4.026_f64.sqrt()).abs() < 1e-3, "{twice:?}");
        let outcomes = [0.4, 0.6, 1.9, 2.1].map(|it| of(it).outcome());
        use Outcome::{Better, Undecided, Worse};
        assert_eq!(outcomes, [Better, Undecided, Undecided, Worse]);
    }

    #[test]
    fn what_has_too_few_samples_or_never_varies_gets_no_verdict() {
        assert_eq!(Quotient::of(samples(1.0)[..5].to_vec(), samples(1.0)), None);
        assert_eq!(Quotient::of(vec![3.0; 8], samples(1.0)), None);
        assert_eq!(Quotient::of(samples(1.0), vec![3.0; 8]), None);
    }

    #[test]
    fn wins_and_losses_are_counted_without_the_baselines_copy() {
        let of = |deviation| samples(deviation).into_iter().map(Some).collect::<Vec<_>>();
        let (base, calm, wild) = (of(1.0), of(0.2), of(5.0));
        let variants: [(&str, &[Option<f64>]); 4] =
            [("base", &base), ("calm", &calm), ("wild", &wild), ("base A/A", &base)];
        let run = examples::run("base", &variants);
        let text = wins_and_losses(&Selection::of(&run)).unwrap();
        assert!(text.contains("of 2 comparisons, 1 smaller, 1 larger, 0 undecided"), "{text}");
        let few = examples::run("base", &[("base", &base[..2]), ("calm", &calm[..2])]);
        assert_eq!(wins_and_losses(&Selection::of(&few)), None);
    }
}
