//! Tests of the parts that callers do not see. The suites, with `tests/suites/slub.rs`, and the
//! model in `tests/model` test the policy as a whole.

#[cfg(quarry_model)]
mod explore;
#[cfg(quarry_model)]
mod model_lock_word;
#[cfg(quarry_model)]
mod model_page_word;
