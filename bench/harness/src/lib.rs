//! A measuring engine: takes samples in randomised blocks, records them, judges them and shows
//! them. It depends on no allocator, program or experiment. It only knows the names of variables
//! that change allocators.
//!
//! ```text
//! experiment   the definition of an experiment as a value, and the engine that conducts it
//! sampler      what takes one sample
//! options      options of every experiment
//! blocks       in which order samples are taken: randomised complete blocks
//! shard        one part of a run, if several processes take the run together
//! launch       starts processes
//! proc         memory of processes and of the machine
//! watch        samples whose memory their parent reads while they run
//! results      every raw sample of a run in a directory, and a description of the run
//! merge        `quarry lab merge`: shards joined into one results directory
//! statistics   descriptions of samples, and the one estimator of differences
//! judge        which variant is better, which targets were reached: every judgement on a run
//! table        a table for a terminal or a page, and how numbers are written
//! tables       layouts of judgements: `quarry lab compare` and the experiments
//! report       `quarry lab report`: runs as one page with pictures
//! picture      lines over time, as SVG
//! colours      one for each allocator, on every page
//! doctor       what makes timings untrustworthy on this machine
//! environment  what a reader of results has to know of the machine
//! affinity     which CPUs a sample runs on
//! destination  a file that is opened first and written last
//! usage, nearest  errors of usage; suggestions for mistyped names
//! ```

pub mod affinity;
pub mod blocks;
pub mod colours;
pub mod destination;
pub mod doctor;
pub mod environment;
pub mod experiment;
pub mod judge;
pub mod launch;
pub mod merge;
pub mod nearest;
pub mod options;
pub mod picture;
pub mod proc;
pub mod report;
pub mod results;
pub mod sampler;
pub mod shard;
pub mod statistics;
pub mod table;
pub mod tables;
pub mod usage;
pub mod watch;

pub use usage::Usage;
