//! `quarry metrics`: statistics for Prometheus.

use crate::live::Running;
use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags, poll};
use quarry_harness::Usage;
use quarry_live::metrics::{self, Format};
use quarry_live::{Problem, Process, Snapshot, http, read_tree};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::AsFd;

/// Milliseconds between two checks that the process still runs.
const BETWEEN_LOOKS_MS: u16 = 500;

/// Metrics of a running process for Prometheus.
///
/// Prints them once, as the textfile collector of node_exporter takes them. With --listen it
/// answers scrapes of http://ADDRESS/metrics until the process ends.
#[derive(clap::Args)]
pub(crate) struct MetricsArgs {
    #[command(flatten)]
    running: Running,
    /// Answer scrapes there: 127.0.0.1:9464, [::1]:9464, or a port of this machine's own address.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Print OpenMetrics instead of the older text format.
    #[arg(long, conflicts_with = "listen")]
    openmetrics: bool,
}

pub(crate) fn run(args: &MetricsArgs, out: &mut dyn Write) -> Result<()> {
    let running = &args.running;
    // An unreadable process is reported at once, not at the first scrape.
    let snapshots = read(running)?;
    let Some(address) = &args.listen else {
        let format = if args.openmetrics { Format::OpenMetrics } else { Format::Text };
        out.write_all(metrics::text(&snapshots, format).as_bytes())?;
        return Ok(());
    };
    let process = Process::new(running.pid)?;
    let listener = listen(address)?;
    let bound = listener.local_addr()?;
    let _ =
        writeln!(io::stderr(), "quarry: metrics of {} at http://{bound}/metrics", process.who());
    while process.is_alive() {
        let mut waiting = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        match poll(&mut waiting, BETWEEN_LOOKS_MS) {
            Ok(0) | Err(nix::errno::Errno::EINTR) => {}
            Ok(_) => serve(&listener, running),
            Err(error) => return Err(error.into()),
        }
    }
    let _ = writeln!(io::stderr(), "quarry: {} has ended", process.who());
    Ok(())
}

fn read(running: &Running) -> Result<Vec<Snapshot>, Problem> {
    match running.tree {
        true => Ok(read_tree(running.pid)?.snapshots),
        false => Ok(vec![Process::new(running.pid)?.read()?]),
    }
}

/// Answers one request. The failure of a client matters only to that client.
fn serve(listener: &TcpListener, running: &Running) {
    let Ok((stream, _)) = listener.accept() else { return };
    let _ = http::answer(stream, |format| {
        read(running).map(|snapshots| metrics::text(&snapshots, format))
    });
}

fn listen(address: &str) -> Result<TcpListener> {
    let accepted = "accepted: ADDRESS:PORT such as 127.0.0.1:9464 or [::1]:9464, or PORT alone";
    let wrong = |why: String| Usage(format!("--listen {address}: {why}; {accepted}"));
    let addresses: Vec<SocketAddr> = match address.parse::<u16>() {
        Ok(port) => vec![SocketAddr::from(([127, 0, 0, 1], port))],
        Err(_) => address.to_socket_addrs().map_err(|error| wrong(error.to_string()))?.collect(),
    };
    let listener = TcpListener::bind(&*addresses).with_context(|| format!("--listen {address}"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
