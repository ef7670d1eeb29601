//! Tests of the parts that callers do not see: every rule of the policy, by its counters. The
//! suites and the model in `tests/model` test the policy as a whole.

mod bed;
#[cfg(quarry_model)]
mod model_trim;
mod nodes;
mod rules;
mod trim;
