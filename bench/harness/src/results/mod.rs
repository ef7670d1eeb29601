//! A results directory: every raw sample of one run, with what is needed to judge them later.
//!
//! ```text
//! DIR/meta.json      what was compared, over what, where; written before the first sample
//! DIR/samples.jsonl  one line per sample, in the order taken, written when it was taken
//! ```
//!
//! An experiment declares its [`Variant`]s, [`Workload`]s and [`Metric`]s in a
//! [`Experiment`](crate::experiment::Experiment), whose `conduct` writes the directory and returns
//! a [`Run`].
//! A reader of results starts with [`read`], which returns a [`Run`] too. `values(cell, metric)`
//! are the counted samples of a [`Cell`] (workload, tasks, variant) in the order of rounds, with
//! gaps; two such columns of one run are paired by their index. Formulas are data: a [`Metric`]
//! computes its value from a [`Measurement`], so no reader needs to know the experiment. Memory
//! over time is a sample's [`Timeline`].
//!
//! A directory is never overwritten. A last line without its end, as a kill leaves it, is left out
//! with a warning; a shard that was cut off is never complete; everything else that is
//! damaged or foreign is an error with file and line.
//!
//! A new figure is a name in the `counters` or `figures` of a [`Measurement`]: `malloc_patterns` of
//! the lab, `memory` of the replays and `raw` of the comparison fill these in.

mod difference;
mod directory;
pub mod examples;
mod meta;
mod metric;
pub mod origin;
mod part_directory;
mod run;
mod sample;
mod target;

pub use directory::{RunDirectory, prepare, read};
pub use meta::{EARLIER_SCHEMA, Meta, SCHEMA, Variant, Verify, Workload};
pub use metric::{Direction, Metric};
pub use origin::{Origin, Stdin};
pub use part_directory::{Begun, End, PartDirectory, below, read_end};
pub use run::{Cell, Run};
pub use sample::{Measurement, Reading, Sample, Timeline};
pub use target::{Against, Over, Relation, Target};
