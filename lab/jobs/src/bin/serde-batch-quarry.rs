//! The batch job with Quarry inside.

#[global_allocator]
static ALLOCATOR: quarry::Quarry = quarry::Quarry;

fn main() {
    rust_jobs::serde_batch::main();
}
