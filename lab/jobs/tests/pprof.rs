//! The service hands out its heap profile.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

/// The status and the body of the answer.
fn get(socket: &std::path::Path, path: &str) -> (String, Vec<u8>) {
    let end = Instant::now() + Duration::from_secs(100);
    let mut stream = loop {
        match UnixStream::connect(socket) {
            Ok(stream) => break stream,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        std::thread::yield_now();
    };
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let head = answer.windows(4).position(|it| it == b"\r\n\r\n").expect("a head");
    (String::from_utf8_lossy(&answer[..head]).into_owned(), answer[head + 4..].to_vec())
}

#[test]
fn a_handler_answers_with_the_heap_profile() {
    let socket = std::env::temp_dir().join(format!("quarry-pprof-{}.sock", std::process::id()));
    let mut service = Command::new(env!("CARGO_BIN_EXE_axum-json-quarry"))
        .arg(&socket)
        .spawn()
        .expect("it was built");
    let (head, profile) = get(&socket, "/debug/pprof/heap");
    let _ = (service.kill(), service.wait(), std::fs::remove_file(&socket));
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let names = String::from_utf8_lossy(&profile).into_owned();
    assert!(names.contains("inuse_space") && names.contains("axum-json-quarry"), "{names}");
}
