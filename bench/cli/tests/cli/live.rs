//! Statistics of running processes: redis and Python on the built library.

mod chosen;
mod debugger;
mod errors;
mod layouts;
mod metrics;
mod profile;
mod push;
mod run_stats;
pub(crate) mod served;
mod top;
