//! Answers scrapes: one request `GET /metrics` on each connection.
//!
//! A server of one web page needs little of HTTP/1.1 (RFC 9112): a request line, fields up to an
//! empty line, and `Connection: close`. A request may have 8 KiB and take a second.

use crate::metrics::Format;
use std::fmt::Display;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const MOST_BYTES: usize = 8 << 10;
/// Time for a client to send its request, and to take each part of the answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Reads a request and answers it with the result of `metrics`, whose error becomes status 503.
///
/// # Errors
/// The error of the connection, also if the client is too slow.
pub fn answer<E: Display>(
    mut stream: TcpStream,
    metrics: impl FnOnce(Format) -> Result<String, E>,
) -> io::Result<()> {
    // Some systems let the stream inherit the listener's non-blocking mode.
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = read(&mut stream)?;
    let answer = respond(&request, metrics).unwrap_or_else(|status| Answer::plain(status, status));
    answer.write(&mut stream, request.starts_with(b"HEAD "))
}

fn read(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + PATIENCE;
    let mut request = Vec::new();
    let mut bytes = [0; 1024];
    while !request.windows(4).any(|it| it == b"\r\n\r\n") && request.len() < MOST_BYTES {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut bytes)? {
            0 => break,
            read => request.extend_from_slice(&bytes[..read]),
        }
    }
    Ok(request)
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

    fn write(&self, stream: &mut TcpStream, is_head_only: bool) -> io::Result<()> {
        let Self { status, kind, text } = self;
        let length = text.len();
        let mut answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n"
        );
        if !is_head_only {
            answer.push_str(text);
        }
        stream.write_all(answer.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    fn ask(request: &[u8]) -> String {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("its address");
        thread::scope(|scope| {
            scope.spawn(|| {
                let (stream, _) = listener.accept().expect("a client");
                let _ = answer(stream, |format| match format {
                    Format::OpenMetrics => Ok("open\n# EOF\n".to_owned()),
                    Format::Text => Err("it has ended"),
                });
            });
            let mut client = TcpStream::connect(address).expect("a server");
            let _ = client.write_all(request);
            let _ = client.shutdown(std::net::Shutdown::Write);
            let mut text = String::new();
            let _ = client.read_to_string(&mut text);
            text
        })
    }

    #[test]
    fn a_scrape_gets_the_format_that_it_takes() {
        let open =
            ask(b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\naccept: application/openmetrics-text; \
            version=1.0.0,text/plain;q=0.5\r\n\r\n");
        assert!(open.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"));
        assert!(open.contains("Content-Length: 11\r\n") && open.ends_with("\r\n\r\nopen\n# EOF\n"));
        let failed = ask(b"GET /metrics HTTP/1.0\r\n\r\n");
        assert!(failed.starts_with("HTTP/1.1 503 ") && failed.ends_with("it has ended\n"));
        let head = ask(b"HEAD / HTTP/1.1\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 OK") && head.ends_with("\r\n\r\n"));
    }

    #[test]
    fn other_requests_are_refused() {
        for (request, status) in [
            (&b"GET /other HTTP/1.1\r\n\r\n"[..], "404 "),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405 "),
            (b"GET /metrics HTTP/2\r\n\r\n", "505 "),
            (b"GET /metrics\r\n\r\n", "400 "),
            (b"\xff\xfe\r\n\r\n", "400 "),
            (b"GET /metrics HTTP/1.1\r\n", "400 "),
            (b"", "400 "),
            (&[b'a'; 20_000], "400 "),
        ] {
            let answer = ask(request);
            // The kernel resets a connection that is closed with unread bytes.
            let was_reset = request.len() > MOST_BYTES && answer.is_empty();
            assert!(was_reset || answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        }
    }
}
