//! The service with Quarry inside: `axum-json-quarry SOCKET`.

#[global_allocator]
static ALLOCATOR: quarry::Quarry = quarry::Quarry;

fn main() -> std::io::Result<()> {
    rust_jobs::axum_json::main()
}
