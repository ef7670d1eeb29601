//! Files that are traces, and files that are not.

use quarry_trace::layout::{
    AT_CHUNK_BYTES, AT_CHUNK_START, AT_CHUNK_THREAD, AT_CHUNK_USED, AT_COMMAND, AT_COMMAND_LENGTH,
    AT_USED_CHUNKS, AT_VERSION, CHUNK_HEADER_BYTES, MAGIC, VERSION, file_bytes,
};
use quarry_trace::{CHUNK_BYTES, Call, Encoder, Event, LONGEST_EVENT, Trace};

fn put(file: &mut [u8], at: usize, number: u32) {
    file[at..at + 4].copy_from_slice(&number.to_le_bytes());
}

/// A trace whose chunks have these threads and events.
fn file_of(chunks: &[(u32, &[Event])]) -> Vec<u8> {
    let mut file = vec![0; file_bytes(chunks.len())];
    file[..8].copy_from_slice(&MAGIC);
    put(&mut file, AT_VERSION, VERSION);
    put(&mut file, AT_CHUNK_BYTES, CHUNK_BYTES as u32);
    put(&mut file, AT_USED_CHUNKS, chunks.len() as u32);
    put(&mut file, AT_COMMAND_LENGTH, 8);
    file[AT_COMMAND..AT_COMMAND + 8].copy_from_slice(b"prog\0arg");
    for (number, (thread, events)) in chunks.iter().enumerate() {
        let at = file_bytes(number);
        let start = events.first().map_or(0, |event| event.at_ns);
        let (mut encoder, mut used) = (Encoder::new(start), 0);
        for event in *events {
            let mut out = [0; LONGEST_EVENT];
            let bytes = encoder.encode(event, &mut out);
            let to = at + CHUNK_HEADER_BYTES + used;
            file[to..to + bytes].copy_from_slice(&out[..bytes]);
            used += bytes;
        }
        put(&mut file, at + AT_CHUNK_THREAD, *thread);
        put(&mut file, at + AT_CHUNK_USED, used as u32);
        file[at + AT_CHUNK_START..][..8].copy_from_slice(&start.to_le_bytes());
    }
    file
}

fn read(bytes: &[u8]) -> Result<Trace, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let name = file.path().display().to_string();
    Trace::read(file.path()).map_err(|error| error.to_string().replace(&name, "FILE"))
}

fn alloc(at_ns: u64, address: u64) -> Event {
    let call = Call::Alloc { address, size: 24, align_shift: 0, zeroed: false };
    Event { at_ns, cpu: 1, call }
}

#[test]
fn chunks_of_a_thread_are_joined() {
    let (a, b, c) = (alloc(100, 0x1000), alloc(200, 0x2000), alloc(300, 0x3000));
    let trace = read(&file_of(&[(2, &[a]), (1, &[b]), (2, &[c]), (0, &[])])).unwrap();
    assert_eq!(trace.command, "prog arg");
    assert_eq!((trace.calls(), trace.chunks), (3, 4));
    assert_eq!(trace.threads, [vec![b], vec![a, c]]);
}

#[test]
fn what_is_no_trace_is_named() {
    let file = file_of(&[(1, &[alloc(1, 0x10)])]);
    let mut newer = file.clone();
    put(&mut newer, AT_VERSION, 9);
    let mut wide = file.clone();
    put(&mut wide, AT_CHUNK_BYTES, 4096);
    let mut overfull = file.clone();
    put(&mut overfull, file_bytes(0) + AT_CHUNK_USED, 9000);
    let mut wrong = file.clone();
    wrong[file_bytes(0) + CHUNK_HEADER_BYTES] = 77;
    let mut unowned = file.clone();
    put(&mut unowned, file_bytes(0) + AT_CHUNK_THREAD, 0);
    let cases = [
        (&b""[..], "FILE: not a trace of `quarry record`: it begins with \"\""),
        (b"#!/bin/sh\n", "FILE: not a trace of `quarry record`: it begins with \"#!/bin/s\""),
        (
            &file[..100],
            "FILE: not a trace of `quarry record`: it has 100 bytes, less than a header",
        ),
        (&newer, "FILE: a trace of version 9, and this quarry reads version 1"),
        (&wide, "FILE: not a trace of `quarry record`: its chunks have 4096 bytes, not 8192"),
        (&file[..9000], "FILE: damaged in chunk 0 of 1: the file ends before it"),
        (&overfull, "FILE: damaged in chunk 0 of 1: it has more events than room"),
        (&wrong, "FILE: damaged in chunk 0 of 1: there is no such kind of event"),
        (&unowned, "FILE: damaged in chunk 0 of 1: it belongs to no thread"),
    ];
    for (bytes, expected) in cases {
        assert_eq!(read(bytes).unwrap_err(), expected);
    }
}
