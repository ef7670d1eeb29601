//! Tests of the parts that callers do not see. The policy as a whole: `tests/slub.rs`, the suites,
//! and the model `tests/model`.

#[cfg(quarry_model)]
mod explore;
#[cfg(quarry_model)]
mod model_lock_word;
#[cfg(quarry_model)]
mod model_page_word;
