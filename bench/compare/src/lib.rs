//! Compares allocators under any program: `quarry compare`, `quarry advise`, and samples of
//! programs for the lab.
//!
//! ```text
//! allocators          which can serve a sample, where their files are, and which one served it
//! companion           files that are built and installed with the command
//! contenders          allocators with their settings, as the variants of a run
//! interpose           whether a preloaded library would serve a program, and if not, why not
//! known               data: other people's allocators, sanitizers, runtimes
//! inside              sanitizers and allocators that a program carries inside
//! compare             `quarry compare`: an experiment whose workloads are runs of a program
//! request             the options of `quarry compare`
//! allocator_spec      which allocators, with which settings
//! first_look          runs with calls of malloc counted, before the comparison
//! weight              whether the allocator has enough influence for a comparison
//! input               what every run reads
//! metrics             what each run is measured by, and which metric decides
//! figure              figures that the program prints
//! latencies           quantiles of a file that each run writes
//! load                whether other work keeps the machine busy
//! judgement, answer   from a run to verdicts; the printed output
//! closing             the sentence at the end
//! readable            milliseconds where seconds would be 0.00
//! parameters          `-L n 1,2,4`: one command line for each combination of values
//! condition           `--fail-if`: bounds that continuous integration enforces
//! export              figures as CSV
//! advise              `quarry advise`: the answer to which allocator is best
//! supervised_program  takes, checks and measures one sample of the compared program
//! launch              starts a sample of any program
//! supervisor          the process that runs one sample and watches the processes it starts
//! aged                plans by which the heap of a sample is aged, and what that cost
//! side_by_side        fresh and aged heaps in one table
//! tree                the processes of a sample
//! witness             the records that these processes write
//! reach               whether an allocator can make a difference; which object served a sample
//! raw                 a sample before it is judged
//! interrupt           signals that end the command, such as that of Ctrl-C
//! ```

mod advise;
mod aged;
mod allocator_spec;
pub mod allocators;
mod answer;
mod closing;
pub mod companion;
mod compare;
mod condition;
pub mod contenders;
mod export;
mod figure;
mod first_look;
mod input;
pub mod inside;
pub mod interpose;
mod interrupt;
mod judgement;
mod known;
mod latencies;
mod launch;
mod load;
mod metrics;
mod parameters;
mod raw;
mod reach;
mod readable;
mod request;
mod side_by_side;
mod supervised_program;
mod supervisor;
mod tree;
mod weight;
mod witness;

pub use advise::{AdviceEnding, AdviceRequest, Goal, advise};
pub use allocator_spec::{BuiltIn, FindObject};
pub use allocators::FindLibrary;
pub use compare::compare;
pub use interrupt::Interrupt;
pub use launch::{Launcher, Program};
pub use parameters::CommandVariant;
pub use raw::{Clients, Raw, Served, difference};
pub use reach::Probe;
pub use request::{CommandLine, Ending, Request, Work};
pub use supervisor::{SUPERVISE_COMMAND, SuperviseArgs, supervise};
