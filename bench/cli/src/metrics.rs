//! `quarry metrics`: statistics for Prometheus.

use crate::live::Running;
use anyhow::{Context, Result};
use nix::errno::Errno;
use quarry_harness::Usage;
use quarry_live::http::Server;
use quarry_live::metrics::{Exporter, Format, Level};
use quarry_live::{Problem, Process};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;

/// Milliseconds between two checks that the process still runs.
const BETWEEN_LOOKS_MS: u16 = 500;

/// Metrics of running processes for Prometheus.
///
/// Prints the metrics once, in the form that the textfile collector of node_exporter reads. With
/// --listen it answers scrapes of http://ADDRESS/metrics: about one process (--pid) until that
/// ends, otherwise about all processes on Quarry that --name or --cgroup choose at the time, so
/// that a sidecar outlives restarts of its service.
///
/// A service is the processes of one name in one systemd unit, pod, container or control group. It
/// has a dozen series, which stay the same when its workers are replaced. --level=all has several
/// hundred for each process instead, with its number as a label.
#[derive(clap::Args)]
pub(crate) struct MetricsArgs {
    #[command(flatten)]
    running: Running,
    /// Answer scrapes there: 127.0.0.1:9464, [::1]:9464, or a port of this machine's own address.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// A dozen series for each service, or all for each process.
    #[arg(long, value_enum, default_value_t, value_name = "LEVEL")]
    level: Level,
    /// Folder with a folder NAMESPACE_POD_UID for each pod of a node of Kubernetes.
    #[arg(long, value_name = "FOLDER", default_value = "/var/log/pods")]
    pods: PathBuf,
    /// Print OpenMetrics instead of the older text format.
    #[arg(long, conflicts_with = "listen")]
    openmetrics: bool,
}

pub(crate) fn run(args: &MetricsArgs, out: &mut dyn Write) -> Result<()> {
    let Running { choice, tree } = &args.running;
    let read = || choice.read(*tree).map(|it| it.snapshots);
    let mut exporter = Exporter::new(args.level, args.pods.clone());
    let Some(address) = &args.listen else {
        let format = if args.openmetrics { Format::OpenMetrics } else { Format::Text };
        out.write_all(exporter.text(&read()?, format).as_bytes())?;
        return Ok(());
    };
    // An unreadable process is reported at once, not at the first scrape.
    let process = choice.pid.map(|pid| Process::new(pid).and_then(|it| read().map(|_| it)));
    let process = process.transpose()?;
    let listener = listen(address)?;
    let bound = listener.local_addr()?;
    let who = process.as_ref().map_or("processes on Quarry".to_owned(), |it| it.who().to_string());
    let _ = writeln!(io::stderr(), "quarry: metrics of {who} at http://{bound}/metrics");
    let mut server = Server::new(listener)?;
    let mut text = |format| match read() {
        Err(Problem::NoneChosen { .. }) => Ok(exporter.text(&[], format)),
        read => read.map(|it| exporter.text(&it, format)),
    };
    while process.as_ref().is_none_or(Process::is_alive) {
        match server.turn(BETWEEN_LOOKS_MS, &mut text) {
            Ok(()) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let _ = writeln!(io::stderr(), "quarry: {who} has ended");
    Ok(())
}

fn listen(address: &str) -> Result<TcpListener> {
    let accepted = "accepted: ADDRESS:PORT such as 127.0.0.1:9464 or [::1]:9464, or PORT alone";
    let wrong = |why: String| Usage(format!("--listen {address}: {why}; {accepted}"));
    let addresses: Vec<SocketAddr> = match address.parse::<u16>() {
        Ok(port) => vec![SocketAddr::from(([127, 0, 0, 1], port))],
        Err(_) => address.to_socket_addrs().map_err(|error| wrong(error.to_string()))?.collect(),
    };
    TcpListener::bind(&*addresses).with_context(|| format!("--listen {address}"))
}
