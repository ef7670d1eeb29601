//! A service: orders as JSON over HTTP, on two threads.
//!
//! `POST /orders` reads an order as a struct, keeps it in place of an older one, and answers with
//! its sum. `POST /echo` reads any document as a value, and answers with it.

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};
use tokio::net::UnixListener;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

/// Orders that are kept.
const KEPT: u64 = 50_000;

/// An order of a client.
#[derive(Deserialize)]
#[expect(dead_code, reason = "what a service keeps it may be asked for later")]
pub struct Order {
    id: u64,
    lines: Vec<Line>,
    customer: String,
    tags: Vec<String>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "as above")]
struct Line {
    article: String,
    count: u64,
    cents: u64,
}

#[derive(Serialize)]
struct Sum {
    id: u64,
    cents: u64,
}

/// The orders that are kept, by their numbers.
pub type Orders = Arc<Mutex<HashMap<u64, Order>>>;

async fn take(State(orders): State<Orders>, Json(order): Json<Order>) -> Json<Sum> {
    let cents = order.lines.iter().map(|line| line.count * line.cents).sum();
    let id = order.id;
    let before = orders.lock().expect("no task panics with it").insert(id % KEPT, order);
    drop(before);
    Json(Sum { id, cents })
}

async fn echo(Json(value): Json<Value>) -> Json<Value> {
    Json(value)
}

/// Serves these and `more` at the unix socket that the first argument names, until SIGTERM.
///
/// # Errors
/// If there is no argument, the socket cannot be made, or the runtime not be started.
pub fn main(more: Router<Orders>) -> io::Result<()> {
    let socket = std::env::args_os().nth(1);
    let socket = socket.ok_or_else(|| io::Error::other("usage: axum-json SOCKET"))?;
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_io().build()?;
    runtime.block_on(async {
        let mut asked = signal(SignalKind::terminate())?;
        let service = more
            .route("/orders", post(take))
            .route("/echo", post(echo))
            .with_state(Orders::default());
        let end = async move {
            asked.recv().await;
        };
        axum::serve(UnixListener::bind(socket)?, service).with_graceful_shutdown(end).await
    })
}
