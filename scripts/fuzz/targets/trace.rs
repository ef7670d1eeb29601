//! A file that should be a trace: it is read or refused, and a refusal names the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quarry_trace::layout::{CHUNK_HEADER_BYTES, HEADER_BYTES};
use quarry_trace::{CHUNK_BYTES, Decoder, Encoder, LONGEST_EVENT, Trace};
use std::{env, fs, process};

fuzz_target!(|bytes: &[u8]| {
    encode_again(bytes);
    // A short input stands for a header and chunks whose other bytes are zero.
    let mut file = vec![0; HEADER_BYTES + 2 * CHUNK_BYTES];
    let mut rest = bytes;
    for (at, most) in [(0, 128), (HEADER_BYTES, 512), (HEADER_BYTES + CHUNK_BYTES, CHUNK_BYTES)] {
        let part = rest.len().min(most);
        file[at..at + part].copy_from_slice(&rest[..part]);
        rest = &rest[part..];
    }
    let path = env::temp_dir().join(format!("fuzz-trace-{}", process::id()));
    fs::write(&path, &file).expect("a file in the temporary folder");
    match Trace::read(&path) {
        Ok(trace) => {
            assert!(trace.event_bytes <= 2 * (CHUNK_BYTES - CHUNK_HEADER_BYTES) as u64);
            assert!(trace.calls() as u64 <= trace.event_bytes, "a call takes a byte at least");
        }
        Err(error) => assert!(error.to_string().contains("fuzz-trace"), "{error}"),
    }
});

/// Decoded events are encoded to bytes that decode to the same events.
fn encode_again(bytes: &[u8]) {
    let (mut decoder, mut encoder) = (Decoder::new(0, bytes), Encoder::new(0));
    let mut events = Vec::new();
    while let Ok(Some(event)) = decoder.next_event() {
        events.push(event);
    }
    let mut encoded = Vec::new();
    for event in &events {
        let mut room = [0; LONGEST_EVENT];
        let length = encoder.encode(event, &mut room);
        encoded.extend_from_slice(&room[..length]);
    }
    let mut decoder = Decoder::new(0, &encoded);
    for event in &events {
        assert_eq!(decoder.next_event().expect("it was encoded"), Some(*event));
    }
}
