//! The service on the system's allocator: `axum-json SOCKET`.

fn main() -> std::io::Result<()> {
    rust_jobs::axum_json::main(axum::Router::new())
}
