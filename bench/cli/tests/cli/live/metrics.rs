//! Prometheus scrapes a running process.

use super::served::{Served, eventually, python};
use crate::support::skipped;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

/// Kills a program at the end of a test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `quarry metrics --listen`, and the address at which it listens.
fn exporter(served: &Served, level: &str) -> (Killed, String) {
    served.text(&["metrics"]);
    let mut child = Command::new(env!("CARGO_BIN_EXE_quarry"))
        .args(["metrics", level, "--pid", &served.pid(), "--listen", "127.0.0.1:0"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split("http://").nth(1).and_then(|it| it.split('/').next());
    let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
    (Killed(child), address)
}

fn get(address: &str, path: &str) -> Result<String, String> {
    let text = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(address).map_err(text)?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(text)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(text)?;
    Ok(answer)
}

#[test]
fn prometheus_scrapes_it() {
    let installed = Command::new("prometheus").arg("--version").output();
    if installed.is_err() {
        return skipped("Debian's package prometheus is not installed");
    }
    let Some(served) = Served::python("") else { return };
    let (_exporter, target) = exporter(&served, "--level=all");
    let folder = tempfile::tempdir().unwrap();
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let settings = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: quarry\n  \
         static_configs: [{{targets: ['{target}']}}]\n"
    );
    let file = folder.path().join("prometheus.yml");
    fs::write(&file, settings).unwrap();
    let prometheus = Command::new("prometheus")
        .arg(format!("--config.file={}", file.display()))
        .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
        .arg(format!("--web.listen-address={address}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _prometheus = Killed(prometheus);
    let ask = |query: &str| {
        let answer = get(&address, &format!("/api/v1/query?query={query}"))?;
        let is_there = answer.contains("\"status\":\"success\"") && answer.contains("\"value\"");
        if is_there { Ok(answer) } else { Err(answer) }
    };
    let up = eventually("a scrape", || {
        let answer = ask("up")?;
        if answer.contains(",\"1\"]") { Ok(answer) } else { Err(answer) }
    });
    assert!(up.contains(&target), "{up}");
    // A counter, a gauge with labels, and metadata in the form that only OpenMetrics has.
    for query in [
        "quarry_cache_allocations_total",
        "quarry_memory_bytes%7Bstate=%22objects%22%7D",
        "quarry_lock_acquisitions_total",
        "quarry_age_seconds",
    ] {
        let answer = eventually(query, || ask(query));
        assert!(answer.contains(&format!("\"pid\":\"{}\"", served.pid())), "{answer}");
    }
    let metadata = get(&address, "/api/v1/targets/metadata?metric=quarry_cache_allocations");
    assert!(metadata.unwrap().contains("\"type\":\"counter\""));
}

#[test]
fn the_exporter_ends_with_the_process() {
    let Some(mut served) = Served::python("") else { return };
    let (mut exporter, address) = exporter(&served, "--level=essential");
    assert!(get(&address, "/metrics").unwrap().contains("\nquarry_used_bytes{"));
    served.kill();
    let status = exporter.0.wait().unwrap();
    assert!(status.success(), "{status}");
    assert!(get(&address, "/metrics").is_err());
}

/// Clients that connect and stay silent keep no scrape waiting until they lose their connection.
#[test]
fn silent_clients_do_not_blind_the_monitoring() {
    let Some(served) = Served::python("") else { return };
    let (_exporter, address) = exporter(&served, "--level=essential");
    let silent: Vec<_> = (0..20).map(|_| TcpStream::connect(&address).unwrap()).collect();
    assert!(get(&address, "/metrics").unwrap().contains("\nquarry_used_bytes{"));
    for client in silent {
        client.set_nonblocking(true).unwrap();
        let state = client.peek(&mut [0]).map_err(|error| error.kind());
        assert_eq!(state, Err(ErrorKind::WouldBlock), "it was closed before the scrape's answer");
    }
}

#[test]
fn an_address_that_is_none_is_refused() {
    let Some(served) = Served::python("") else { return };
    served.text(&["metrics"]);
    let output = served.look(&["metrics", "--listen", "nowhere"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("accepted: ADDRESS:PORT such as 127.0.0.1:9464"), "{error}");
}

/// Words of a text that begin as a series does.
fn series_of(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("quarry_")).map(str::to_owned).collect()
}

/// The dashboard and the alerts work with the essential series, and with all.
#[test]
fn dashboards_and_alerts_ask_for_series_that_exist() {
    let Some(served) =
        Served::start(&["/usr/bin/env", "QUARRY_LIMIT=1G", "/usr/bin/python3", "-c", &python("")])
    else {
        return;
    };
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/deploy/");
    for level in ["--level=essential", "--level=all"] {
        let text = served.text(&["metrics", level]);
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let series = series_of(&samples.collect::<Vec<_>>().join("\n"));
        for file in ["grafana.json", "alerts.yml", "alerts-test.yml"] {
            let wanted = series_of(&fs::read_to_string(format!("{folder}{file}")).unwrap());
            assert!(wanted.len() >= 7, "{file} has {wanted:?}");
            let missing: Vec<_> = wanted.difference(&series).collect();
            assert!(missing.is_empty(), "{file} has {missing:?}, {level} does not: {series:?}");
        }
    }
}
