//! Answers scrapes: one request `GET /metrics` on each connection.
//!
//! A server of one web page needs little of HTTP/1.1 (RFC 9112): a request line, fields up to an
//! empty line, and `Connection: close`. One thread serves all clients by `poll`, so that a silent
//! client keeps no other waiting. A request may have 8 KiB. A client has some seconds to send it,
//! and as many to take the answer. If there are too many clients, the one that has been silent
//! longest loses its connection.

use crate::metrics::Format;
use nix::poll::{PollFd, PollFlags, poll};
use std::fmt::Display;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

const MOST_BYTES: usize = 8 << 10;
/// Time for a client to send its request, and then again to take the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections at a time: a quarter of the descriptors that a process may usually have.
const MOST_CLIENTS: usize = 256;
/// Connections that are accepted, and parts that a client is read or written, in one turn.
const TURN: usize = 16;

/// A listener and its clients, the oldest first.
pub struct Server {
    listener: TcpListener,
    clients: Vec<Client>,
    patience: Duration,
}

struct Client {
    stream: TcpStream,
    /// When it connected or, if its answer has begun, when that was.
    since: Instant,
    state: State,
}

enum State {
    /// The request so far.
    Reads(Vec<u8>),
    /// The answer, and the bytes of it that the client has.
    Writes(Vec<u8>, usize),
    /// The answer is sent. A connection that is closed with unread bytes is reset, and the client
    /// could lose the answer: what it still sends is read first.
    Drains,
}

impl Server {
    /// A server without clients.
    ///
    /// # Errors
    /// The listener cannot become non-blocking.
    pub fn new(listener: TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { listener, clients: Vec::new(), patience: PATIENCE })
    }

    /// Waits for at most `wait_ms` until a client connects or goes on, and serves those that do:
    /// with the result of `metrics`, whose error becomes status 503. Failures of clients are not
    /// reported.
    ///
    /// # Errors
    /// The error of `poll`.
    pub fn turn<E: Display>(
        &mut self,
        wait_ms: u16,
        mut metrics: impl FnMut(Format) -> Result<String, E>,
    ) -> nix::Result<()> {
        let mut waiting = vec![PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
        waiting.extend(self.clients.iter().map(Client::waits_for));
        poll(&mut waiting, wait_ms)?;
        let is_ready: Vec<bool> = waiting.iter().map(|it| it.any() == Some(true)).collect();
        let (mut ready, now) = (is_ready[1..].iter(), Instant::now());
        self.clients.retain_mut(|client| {
            let goes_on = ready.next() == Some(&true);
            now < client.since + self.patience && (!goes_on || client.go_on(&mut metrics).is_ok())
        });
        if is_ready[0] {
            self.accept();
        }
        Ok(())
    }

    fn accept(&mut self) {
        for _ in 0..TURN {
            if self.clients.len() == MOST_CLIENTS {
                self.drop_one();
            }
            match self.listener.accept().and_then(|(stream, _)| Client::new(stream)) {
                Ok(client) => self.clients.push(client),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // There may be no descriptor left.
                Err(_) if self.clients.is_empty() => return thread::sleep(PATIENCE / 100),
                Err(_) => self.drop_one(),
            }
        }
    }

    fn drop_one(&mut self) {
        let reads = |client: &Client| matches!(client.state, State::Reads(_));
        self.clients.remove(self.clients.iter().position(reads).unwrap_or(0));
    }
}

impl Client {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, since: Instant::now(), state: State::Reads(Vec::new()) })
    }

    fn waits_for(&self) -> PollFd<'_> {
        let writes = matches!(self.state, State::Writes(..));
        let event = if writes { PollFlags::POLLOUT } else { PollFlags::POLLIN };
        PollFd::new(self.stream.as_fd(), event)
    }

    /// Reads and writes as much as the client sends and takes now; an error ends the connection.
    fn go_on<E: Display>(
        &mut self,
        metrics: &mut impl FnMut(Format) -> Result<String, E>,
    ) -> io::Result<()> {
        for _ in 0..TURN {
            match self.step(metrics) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                done => done?,
            }
        }
        Ok(())
    }

    fn step<E: Display>(
        &mut self,
        metrics: &mut impl FnMut(Format) -> Result<String, E>,
    ) -> io::Result<()> {
        let mut bytes = [0; 1024];
        match &mut self.state {
            State::Reads(request) => {
                let read = self.stream.read(&mut bytes)?;
                request.extend_from_slice(&bytes[..read]);
                let is_whole = request.windows(4).any(|it| it == b"\r\n\r\n");
                if read == 0 || is_whole || request.len() >= MOST_BYTES {
                    let answer = answer(request, metrics);
                    self.since = Instant::now();
                    self.state = State::Writes(answer, 0);
                }
                Ok(())
            }
            State::Writes(answer, written) if *written < answer.len() => {
                *written += self.stream.write(&answer[*written..])?;
                Ok(())
            }
            State::Writes(..) => {
                self.state = State::Drains;
                self.stream.shutdown(Shutdown::Write)
            }
            State::Drains => match self.stream.read(&mut bytes)? {
                0 => Err(ErrorKind::UnexpectedEof.into()),
                _ => Ok(()),
            },
        }
    }
}

fn answer<E: Display>(
    request: &[u8],
    metrics: impl FnOnce(Format) -> Result<String, E>,
) -> Vec<u8> {
    let answer = respond(request, metrics).unwrap_or_else(|status| Answer::plain(status, status));
    answer.into_bytes(request.starts_with(b"HEAD "))
}

/// The answer to a request; an error is a status line.
fn respond<E: Display>(
    request: &[u8],
    metrics: impl FnOnce(Format) -> Result<String, E>,
) -> Result<Answer, &'static str> {
    let bad = "400 Bad Request";
    let text = std::str::from_utf8(request).map_err(|_| bad)?;
    let (head, _) = text.split_once("\r\n\r\n").ok_or(bad)?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(path), Some(version)) = (words.next(), words.next(), words.next())
    else {
        return Err(bad);
    };
    if !version.starts_with("HTTP/1.") {
        return Err("505 HTTP Version Not Supported");
    }
    if !["GET", "HEAD"].contains(&method) {
        return Err("405 Method Not Allowed");
    }
    let takes_openmetrics = lines.filter_map(|line| line.split_once(':')).any(|(name, value)| {
        name.eq_ignore_ascii_case("accept") && value.contains("application/openmetrics-text")
    });
    let format = if takes_openmetrics { Format::OpenMetrics } else { Format::Text };
    Ok(match path.split('?').next().unwrap_or_default() {
        "/metrics" => match metrics(format) {
            Ok(text) => Answer { status: "200 OK", kind: format.content_type(), text },
            Err(error) => Answer::plain("503 Service Unavailable", &error.to_string()),
        },
        "/" => Answer::plain("200 OK", "quarry: the metrics are at /metrics"),
        _ => Answer::plain("404 Not Found", "the metrics are at /metrics"),
    })
}

struct Answer {
    status: &'static str,
    kind: &'static str,
    text: String,
}

impl Answer {
    fn plain(status: &'static str, text: &str) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", text: format!("{text}\n") }
    }

    fn into_bytes(self, is_head_only: bool) -> Vec<u8> {
        let Self { status, kind, text } = self;
        let length = text.len();
        let mut answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n"
        );
        if !is_head_only {
            answer.push_str(&text);
        }
        answer.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn serving<T>(work: impl FnOnce(SocketAddr) -> T) -> T {
        serving_with(Duration::from_secs(600), work)
    }

    /// Runs `work` with the address of a server that has large metrics.
    fn serving_with<T>(patience: Duration, work: impl FnOnce(SocketAddr) -> T) -> T {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("its address");
        let mut server = Server { patience, ..Server::new(listener).expect("a server") };
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            let (done, serves) = (&is_done, &mut server);
            scope.spawn(move || {
                while !done.load(Ordering::Acquire) {
                    let metrics = |format| match format {
                        Format::OpenMetrics => Ok(LINE.repeat(LINES)),
                        Format::Text => Err("it has ended"),
                    };
                    serves.turn(10, metrics).expect("poll");
                }
            });
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(address)));
            is_done.store(true, Ordering::Release);
            result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    const LINE: &str = "a_line_of_metrics 1\n";
    const LINES: usize = 500_000;
    const SCRAPE: &[u8] = b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\
        accept: application/openmetrics-text; version=1.0.0,text/plain;q=0.5\r\n\r\n";

    fn connect(address: SocketAddr) -> TcpStream {
        let client = TcpStream::connect(address).expect("a server");
        client.set_read_timeout(Some(Duration::from_secs(300))).expect("a socket");
        client
    }

    fn rest_of(client: &mut TcpStream) -> String {
        let mut text = String::new();
        client.read_to_string(&mut text).expect("no reset, and an end");
        text
    }

    fn ask_at(address: SocketAddr, request: &[u8]) -> String {
        let mut client = connect(address);
        client.write_all(request).expect("the server reads");
        rest_of(&mut client)
    }

    fn ask(request: &[u8]) -> String {
        serving(|address| ask_at(address, request))
    }

    fn is_whole(answer: &str) -> bool {
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with(&LINE.repeat(LINES))
    }

    /// More than the server has room for: the oldest of them lose their connections.
    #[test]
    fn silent_clients_keep_no_scrape_waiting() {
        serving(|address| {
            for silent in [20, 2 * MOST_CLIENTS] {
                let before: Vec<TcpStream> = (0..silent).map(|_| connect(address)).collect();
                assert!(is_whole(&ask_at(address, SCRAPE)), "{silent}");
                // The newest of the silent ones still has its connection.
                let newest = before.last().expect("a client");
                newest.set_nonblocking(true).expect("a socket");
                let state = newest.peek(&mut [0]).map_err(|error| error.kind());
                assert_eq!(state, Err(ErrorKind::WouldBlock), "{silent}");
            }
        });
    }

    /// A client sends letter after letter, another half a request and the end of its own side,
    /// another takes nothing of its answer: none keeps the next from its scrape.
    #[test]
    fn slow_clients_keep_no_scrape_waiting() {
        serving(|address| {
            let (mut drips, mut half, mut deaf) =
                (connect(address), connect(address), connect(address));
            deaf.write_all(SCRAPE).expect("the server reads");
            half.write_all(b"GET /metrics HT").expect("the server reads");
            half.shutdown(Shutdown::Write).expect("half closed");
            for letter in SCRAPE {
                drips.write_all(&[*letter]).expect("the server reads");
                assert!(ask_at(address, b"HEAD / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
            }
            assert!(rest_of(&mut half).starts_with("HTTP/1.1 400 "));
            assert!(is_whole(&rest_of(&mut drips)), "a request of many pieces");
            assert!(is_whole(&ask_at(address, SCRAPE)));
            assert!(is_whole(&rest_of(&mut deaf)), "an answer that is taken late");
        });
    }

    /// A silent client is told that it has no request, or loses its connection: it does not stay.
    #[test]
    fn patience_ends() {
        serving_with(Duration::from_millis(100), |address| {
            let (mut silent, mut talks) = (connect(address), connect(address));
            talks.write_all(b"GET /metrics HT").expect("the server reads");
            assert_eq!(rest_of(&mut silent), "");
            let mut text = Vec::new();
            // The connection is closed, or reset because of the unread half of a request.
            let _ = talks.read_to_end(&mut text);
            assert_eq!(text, b"");
        });
    }

    /// Requests on one connection get one answer, which announces the end of the connection.
    #[test]
    fn pipelined_requests_get_one_answer() {
        let answer = ask(&SCRAPE.repeat(100));
        assert!(is_whole(&answer) && answer.contains("\r\nConnection: close\r\n"));
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1);
    }

    #[test]
    fn a_scrape_gets_the_format_that_it_takes() {
        let open = ask(SCRAPE);
        assert!(open.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"));
        let length = format!("Content-Length: {}\r\n", LINE.len() * LINES);
        assert!(open.contains(&length) && is_whole(&open));
        let failed = ask(b"GET /metrics HTTP/1.0\r\n\r\n");
        assert!(failed.starts_with("HTTP/1.1 503 ") && failed.ends_with("it has ended\n"));
        let head = ask(b"HEAD / HTTP/1.1\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 OK") && head.ends_with("\r\n\r\n"));
    }

    #[test]
    fn other_requests_are_refused() {
        let refused = |request: &[u8], status| {
            let answer = serving(|address| {
                let mut client = connect(address);
                client.write_all(request).expect("the server reads");
                client.shutdown(Shutdown::Write).expect("half closed");
                rest_of(&mut client)
            });
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        };
        for (request, status) in [
            (&b"GET /other HTTP/1.1\r\n\r\n"[..], "404 "),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405 "),
            (b"GET /metrics HTTP/2\r\n\r\n", "505 "),
            (b"GET /metrics\r\n\r\n", "400 "),
            (b"\xff\xfe\r\n\r\n", "400 "),
            (b"GET /metrics HTTP/1.1\r\n", "400 "),
            (b"", "400 "),
            (&[b'a'; 20_000], "400 "),
            (&[b'a'; 2_000_000], "400 "),
        ] {
            refused(request, status);
        }
    }
}
