//! Jobs such as Rust programs do. Each has two binaries: one on the system's allocator, under which
//! any library can be preloaded, and one whose global allocator is Quarry.

pub mod axum_json;
pub mod serde_batch;
