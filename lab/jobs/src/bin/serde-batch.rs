//! The batch job on the system's allocator.

fn main() {
    rust_jobs::serde_batch::main();
}
