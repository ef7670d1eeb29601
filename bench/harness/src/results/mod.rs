//! A results directory: every sample of one run, with the facts needed to judge them later.
//!
//! ```text
//! DIR/meta.json      what was compared, over what, where; written before the first sample
//! DIR/samples.jsonl  one line per sample, in the order taken, written when it was taken
//! ```
//!
//! An [`Experiment`](crate::experiment::Experiment) declares [`Variant`]s, [`Workload`]s and
//! [`Metric`]s; its `conduct` writes the directory and returns a [`Run`]. A reader of results gets
//! a [`Run`] from [`read`]. `values(cell, metric)` has, for each counted round, the value of a
//! [`Cell`] (workload, tasks, variant) or a gap: equal indices in two columns of one run are a
//! pair. A [`Metric`] is data and computes its value from a [`Measurement`], so no reader depends
//! on the experiment. A sample's [`Timeline`] is its memory over time.
//!
//! A directory is never overwritten. A last line that was cut off by a kill is left out with a
//! warning, but makes a shard incomplete. Any other damage or foreign content is an error with file
//! and line.
//!
//! A new figure is a new name in `counters` or `figures` of a [`Measurement`]. `malloc_patterns` of
//! the lab, `memory` of the replays and `raw` of the comparison fill these maps.

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
