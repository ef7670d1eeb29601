//! The clients of a server: several connections over a unix socket. Each sends requests in batches
//! and compares every reply.

use anyhow::{Context, Result, bail, ensure};
use quarry_compare::Served;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

const CONNECTIONS: usize = 8;
/// Requests that a connection sends before it reads the replies.
const DEPTH: u64 = 16;
/// How often a sample opens its connections: once at its start, and later anew.
const GENERATIONS: u64 = 4;
/// A server that sends nothing for longer than this counts as stopped.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(1);

pub(super) trait Protocol {
    /// Creates the files that requests will ask for.
    fn prepare(&self, _folder: &Path) -> Result<()> {
        Ok(())
    }

    /// The requests of a connection, one by one; `number` is also their seed.
    fn connection(&self, number: usize) -> Connection;

    /// The last request, after all replies.
    fn farewell(&self) -> Option<Exchange> {
        None
    }
}

pub(super) type Connection = Box<dyn FnMut() -> Exchange>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Exchange {
    pub(super) request: Vec<u8>,
    pub(super) reply: Reply,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Exactly(Vec<u8>),
    /// A page with status 200 and this body.
    Page(Vec<u8>),
    /// A page whose body is this document of JSON, in any order of its names.
    Document(Vec<u8>),
}

impl From<&str> for Reply {
    fn from(text: &str) -> Self {
        Self::Exactly(text.as_bytes().to_vec())
    }
}

impl Exchange {
    pub(super) fn new(request: Vec<u8>, reply: impl Into<Reply>) -> Self {
        Self { request, reply: reply.into() }
    }

    fn hear(&self, from: &mut impl BufRead) -> Result<bool> {
        match &self.reply {
            Reply::Exactly(expected) => {
                let mut found = vec![0; expected.len()];
                from.read_exact(&mut found)?;
                Ok(found == *expected)
            }
            Reply::Page(expected) => Ok(page(from)? == *expected),
            Reply::Document(expected) => {
                let read = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text);
                Ok(read(&page(from)?)? == read(expected)?)
            }
        }
    }
}

/// Makes `amount` requests to the server at `socket` and compares all replies. `runs` returns
/// whether the server still runs.
///
/// # Errors
/// A wrong reply, with its request; or a connection that fails or is closed.
pub(super) fn ask(
    protocol: &dyn Protocol,
    socket: &Path,
    amount: u64,
    runs: &dyn Fn() -> bool,
) -> Result<Served> {
    let mut sources: Vec<Connection> = (0..CONNECTIONS).map(|it| protocol.connection(it)).collect();
    // Connecting waits for the server's start, which is not measured.
    let mut lines = connect_all(socket, runs)?;
    let start = Instant::now();
    let mut served = Served::default();
    let rounds = amount.div_ceil(CONNECTIONS as u64 * DEPTH);
    let lifetime = rounds.div_ceil(GENERATIONS);
    for round in 0..rounds {
        if round > 0 && round % lifetime == 0 {
            lines = connect_all(socket, runs)?;
        }
        let batch =
            |source: &mut Connection| -> Vec<Exchange> { (0..DEPTH).map(|_| source()).collect() };
        let batches: Vec<Vec<Exchange>> = sources.iter_mut().map(batch).collect();
        for (line, batch) in lines.iter_mut().zip(&batches) {
            let requests: Vec<&[u8]> = batch.iter().map(|it| &it.request[..]).collect();
            line.get_mut().write_all(&requests.concat()).context("sending")?;
        }
        for (line, batch) in lines.iter_mut().zip(&batches) {
            for exchange in batch {
                listen(line, exchange, &mut served)?;
            }
        }
    }
    if let Some(farewell) = protocol.farewell() {
        lines[0].get_mut().write_all(&farewell.request)?;
        listen(&mut lines[0], &farewell, &mut served)?;
    }
    served.wall_ns = start.elapsed().as_nanos() as u64;
    Ok(served)
}

fn listen(
    line: &mut BufReader<UnixStream>,
    exchange: &Exchange,
    served: &mut Served,
) -> Result<()> {
    let asked = || String::from_utf8_lossy(&exchange.request).chars().take(60).collect::<String>();
    let is_right = exchange.hear(line).with_context(|| format!("no reply to {:?}", asked()))?;
    served.requests += 1;
    // After a wrong reply, replies no longer match their requests.
    ensure!(is_right, "a wrong reply to {:?}", asked());
    served.right += 1;
    Ok(())
}

fn connect_all(socket: &Path, runs: &dyn Fn() -> bool) -> Result<Vec<BufReader<UnixStream>>> {
    (0..CONNECTIONS).map(|_| connect(socket, runs)).collect()
}

fn connect(socket: &Path, runs: &dyn Fn() -> bool) -> Result<BufReader<UnixStream>> {
    let asked = Instant::now();
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                return Ok(BufReader::new(stream));
            }
            Err(error) if !runs() || asked.elapsed() > PATIENCE => {
                bail!("{}: {error}", socket.display());
            }
            Err(_) => thread::sleep(PAUSE),
        }
    }
}

fn page(from: &mut impl BufRead) -> Result<Vec<u8>> {
    let status = line(from)?;
    ensure!(status.starts_with("HTTP/1.1 200 "), "the status is {status:?}");
    let (mut length, mut is_chunked) = (None, false);
    loop {
        let header = line(from)?.to_ascii_lowercase();
        match header.split_once(": ") {
            None => break,
            Some(("content-length", text)) => length = Some(text.parse()?),
            Some(("transfer-encoding", text)) => is_chunked = text == "chunked",
            Some(_) => {}
        }
    }
    if is_chunked {
        return chunks(from);
    }
    let mut body = vec![0; length.context("neither a length nor chunks")?];
    from.read_exact(&mut body)?;
    Ok(body)
}

fn chunks(from: &mut impl BufRead) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = line(from)?;
        let length = u64::from_str_radix(&size, 16).with_context(|| format!("chunk {size:?}"))?;
        from.by_ref().take(length).read_to_end(&mut body)?;
        ensure!(line(from)?.is_empty(), "a chunk of {length} bytes is longer");
        if length == 0 {
            return Ok(body);
        }
    }
}

fn line(from: &mut impl BufRead) -> Result<String> {
    let mut text = String::new();
    ensure!(from.read_line(&mut text)? > 0, "the connection was closed");
    Ok(text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn pages_come_with_a_length_or_in_chunks() {
        let whole = "HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 3\r\n\r\nabcHTTP";
        assert_eq!(page(&mut whole.as_bytes()).unwrap(), b"abc");
        let parts =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
        assert_eq!(page(&mut parts.as_bytes()).unwrap(), b"abc");
        let error = page(&mut &b"HTTP/1.1 404 Not Found\r\n\r\n"[..]).unwrap_err().to_string();
        assert!(error.contains("404"), "{error}");
        assert!(page(&mut &b""[..]).is_err());
    }

    struct Echo;

    impl Protocol for Echo {
        fn connection(&self, number: usize) -> Connection {
            Box::new(move || Exchange::new(format!("say {number}\n").into_bytes(), "yes\n"))
        }
    }

    fn serve(answers: usize) -> Result<Served> {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let server = thread::spawn(move || {
            let mut said = 0;
            for stream in listener.incoming().take(CONNECTIONS) {
                let mut stream = BufReader::new(stream.unwrap());
                for _ in 0..DEPTH {
                    line(&mut stream).unwrap();
                    said += 1;
                    let answer = if said <= answers { b"yes\n" } else { b"no!\n" };
                    // The client hangs up after a wrong answer.
                    let _ = stream.get_mut().write_all(answer);
                }
            }
        });
        let served = ask(&Echo, &socket, CONNECTIONS as u64 * DEPTH, &|| true);
        server.join().unwrap();
        served
    }

    #[test]
    fn every_reply_is_compared() {
        let served = serve(1000).unwrap();
        assert_eq!((served.requests, served.right), (128, 128));
        let error = format!("{:#}", serve(100).unwrap_err());
        assert_eq!(error, r#"a wrong reply to "say 6\n""#);
    }

    #[test]
    fn a_server_that_has_ended_is_not_waited_for() {
        let error = connect(Path::new("/no/such/socket"), &|| false).unwrap_err().to_string();
        assert!(error.starts_with("/no/such/socket: No such file"), "{error}");
    }
}
