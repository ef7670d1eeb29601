//! Tests of the parts that callers do not see: every rule of the policy, by its counters. The
//! policy as a whole: the suites, and the model `tests/model`.

mod bed;
#[cfg(quarry_model)]
mod model_trim;
mod nodes;
mod rules;
mod trim;
