//! A receiver of HTTP requests.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// An answer of a receiver.
#[derive(Clone)]
pub(super) struct Answer {
    status: u16,
    content_type: &'static str,
    body: Vec<u8>,
}

impl Answer {
    pub(super) const OK: Self = Self { status: 200, content_type: "text/plain", body: Vec::new() };

    pub(super) fn text(status: u16, body: &str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: body.as_bytes().to_vec() }
    }

    pub(super) fn message(status: u16, body: Vec<u8>) -> Self {
        Self { status, content_type: "application/x-protobuf", body }
    }
}

/// A request as it came.
pub(super) struct Request {
    pub(super) target: String,
    headers: HashMap<String, String>,
    pub(super) body: Vec<u8>,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// Receives until the test ends.
pub(super) struct Receiver {
    pub(super) address: SocketAddr,
    requests: mpsc::Receiver<Request>,
}

impl Receiver {
    /// Gives these answers in turn, and then 200.
    pub(super) fn new(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("its number");
        let (sender, requests) = mpsc::channel();
        let mut answers = answers.into_iter();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let answer = answers.next().unwrap_or(Answer::OK);
                let request = serve(stream.expect("a connection"), &answer);
                // The test has what it waits for.
                let _ = sender.send(request);
            }
        });
        Self { address, requests }
    }

    pub(super) fn next(&self) -> Request {
        self.requests.recv_timeout(Duration::from_secs(300)).expect("a request")
    }
}

fn serve(stream: TcpStream, answer: &Answer) -> Request {
    let mut input = BufReader::new(&stream);
    let mut line = || {
        let mut line = String::new();
        input.read_line(&mut line).expect("a line of the head");
        line.trim_end().to_owned()
    };
    let first = line();
    let [method, target, "HTTP/1.1"] = first.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{first}")
    };
    assert_eq!(method, "POST");
    let mut headers = HashMap::new();
    while let Some((name, value)) = line().split_once(": ") {
        let old = headers.insert(name.to_ascii_lowercase(), value.to_owned());
        assert_eq!(old, None, "{name} is there once");
    }
    let mut body = vec![0; headers["content-length"].parse().expect("a length")];
    input.read_exact(&mut body).expect("a body");
    let Answer { status, content_type, body: text } = answer;
    let head = format!(
        "HTTP/1.1 {status} Some Reason\r\nContent-Type: {content_type}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    (&stream).write_all(&[head.as_bytes(), text].concat()).expect("an answer");
    Request { target: target.to_owned(), headers, body }
}
