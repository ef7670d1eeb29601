//! The service with Quarry inside: `axum-json-quarry SOCKET`. `GET /debug/pprof/heap` answers with
//! the heap profile, as pprof reads it. The first request starts it.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use quarry::profile;

#[global_allocator]
static ALLOCATOR: quarry::Quarry = quarry::Quarry;

fn profile_so_far() -> Result<Vec<u8>, quarry::Error> {
    if profile::pprof().is_err() {
        profile::start(profile::DEFAULT_MEAN_BYTES)?;
    }
    profile::pprof()
}

async fn heap() -> Result<Vec<u8>, (StatusCode, String)> {
    profile_so_far().map_err(|error| (StatusCode::SERVICE_UNAVAILABLE, error.to_string()))
}

fn main() -> std::io::Result<()> {
    rust_jobs::axum_json::main(Router::new().route("/debug/pprof/heap", get(heap)))
}
