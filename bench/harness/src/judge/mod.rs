//! The only judge: decides whether a variant is better than the baseline, and how certain that is.
//!
//! ```text
//! selection  which variants of one or several runs stand side by side, and over which rows
//! judging    from a column of a selection to a judgement
//! decision   from two columns of figures to an outcome
//! judgement  the outcome with its grounds, which every renderer takes
//! headline   the judgements on a run in a sentence
//! reached    success or failure of a run against its targets
//! ```
//!
//! **The estimator.** A ratio is estimated from the logarithms of paired samples. The centre is
//! that of Hodges and Lehmann (the median of all means of two differences), and the 95 % interval
//! is Wilcoxon's. Neither assumes a normal distribution, and both remain right if a quarter of the
//! samples are outliers.
//!
//! Two samples are a pair if they were taken in one round, so that drift cancels. Variants of
//! different runs have no pairs: the centre is then the median of all differences, and the interval
//! is that of Mann and Whitney. Over several workloads, the logarithms of a round are averaged
//! first, so the interval is that of the geometric mean. An interval of pairs needs six
//! ([`MIN_PAIRS`]). On one workload, if the baseline is near zero or a figure is not positive,
//! differences are estimated in the same way, not ratios: from 1 ms to 3 ms of system time are two
//! ticks of a clock, not a factor of three.
//!
//! Tables, JSON and pages take every [`Judgement`] from [`Selection::judge`], and compute none.
//!
//! [`MIN_PAIRS`]: crate::statistics::MIN_PAIRS

mod decision;
mod headline;
mod judgement;
mod judging;
mod reached;
mod selection;

pub use decision::MARGIN;
pub use judgement::{Judgement, Outcome, Reason, written};
pub use reached::{Reached, Success, Worst};
pub use selection::{Column, Row, Selection};
