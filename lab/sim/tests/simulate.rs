//! Recorded programs on the machine.
#![cfg(quarry_sim)]

use quarry_sim::simulate::{self, Answer, Cell, Load};
use quarry_sim::{Costs, Topology, Waiting};
use quarry_trace::layout::{self, CHUNK_BYTES, HEADER_BYTES};
use quarry_trace::{Call, Encoder, Event, LONGEST_EVENT};
use std::path::{Path, PathBuf};

/// The calls of a program of one thread that allocates 8,000 blocks, each of one of 57 sizes, frees
/// them, and begins again.
fn bursts(count: u64) -> Vec<Call> {
    let call = |number: u64| {
        let (burst, block) = (number / 8000, number % 8000);
        let address = 0x10000 + block * 1024;
        let size = 16 + (burst / 2 * 31 + block * 7) % 57 * 16;
        match burst % 2 {
            0 => Call::Alloc { address, size, align_shift: 0, zeroed: false },
            _ => Call::Free { address },
        }
    };
    (0..count).map(call).collect()
}

/// Writes a trace of the calls.
fn trace(name: &str, calls: Vec<Call>) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let (mut chunks, mut out) = (Vec::<Vec<u8>>::new(), [0; LONGEST_EVENT]);
    let mut encoder = Encoder::new(0);
    for (at_ns, call) in (0..).step_by(100).zip(calls) {
        if chunks.last().is_none_or(|it| it.len() + LONGEST_EVENT > CHUNK_BYTES) {
            let mut chunk = vec![0; layout::CHUNK_HEADER_BYTES];
            chunk[layout::AT_CHUNK_THREAD] = 1;
            let start = layout::AT_CHUNK_START;
            chunk[start..start + 8].copy_from_slice(&u64::to_le_bytes(at_ns));
            chunks.push(chunk);
            encoder = Encoder::new(at_ns);
        }
        let used = encoder.encode(&Event { at_ns, cpu: 0, call }, &mut out);
        chunks.last_mut().unwrap().extend(&out[..used]);
    }
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&layout::MAGIC);
    for (at, number) in [
        (layout::AT_VERSION, layout::VERSION),
        (layout::AT_CHUNK_BYTES, CHUNK_BYTES as u32),
        (layout::AT_CHUNKS, chunks.len() as u32),
        (layout::AT_USED_CHUNKS, chunks.len() as u32),
        (layout::AT_THREADS, 1),
    ] {
        bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
    }
    for mut chunk in chunks {
        let used = (chunk.len() - layout::CHUNK_HEADER_BYTES) as u32;
        let at = layout::AT_CHUNK_USED;
        chunk[at..at + 4].copy_from_slice(&used.to_le_bytes());
        chunk.resize(CHUNK_BYTES, 0);
        bytes.extend(chunk);
    }
    std::fs::write(&place, bytes).unwrap();
    place
}

fn on(load: Load, slab: &str, cpus: u32, costs: Costs, seed: u64) -> Answer {
    let (slab, pages) = (slab.to_owned(), "v6.18".to_owned());
    let topology = Topology::new(1, cpus);
    simulate::answer(&Cell { load, topology, costs, slab, pages, calls: 96_000, seed }).unwrap()
}

/// Two threads per copy: on two CPUs a block's line moves to the thread that frees it, and back.
#[test]
fn waits_are_told_by_lock_and_by_line() {
    let costs = Costs::from_toml(Costs::OF_2024).unwrap();
    let load = Load::Pattern("handover".to_owned());
    let on = |cpus| on(load.clone(), "sheaf", cpus, costs.clone(), 1);
    let (one, four) = (on(1), on(4));
    assert_eq!((one.copies, four.copies), (1, 2));
    assert!(one.line_waits.iter().all(|(_, ns)| *ns == 0.0), "{one:?}");
    assert!(four.lines_per_call > 1.0, "{four:?}");
    let wait = |name: &str| four.line_waits.iter().find(|(it, _)| it.contains(name));
    assert!(wait("program").is_some_and(|(_, ns)| *ns > 1.0), "{four:?}");
    assert!(wait("barn->lock").is_some() && wait("slab/barn.rs:").is_some(), "{four:?}");
    let share: f64 = four.lock_waits.iter().map(|(_, share)| share).sum();
    assert!((share - four.waiting).abs() < 1e-9, "{four:?}");
    assert!(four.lock_waits.is_sorted_by(|(_, one), (_, other)| one >= other), "{four:?}");
}

/// Readings of the memory wait for locks that the program holds, and so may overlap. The lock that
/// a reading takes must still be left out only once; if it were left out twice, four copies of a
/// program would seem to take far fewer locks for each call than one copy. (2 % fewer they do take,
/// because a refill that ends with a slab finds more in the slabs of four.)
#[test]
fn readings_of_the_memory_do_not_count_as_the_programs_locks() {
    let trace = trace("readings", bursts(96_000));
    for seed in 1..=2 {
        let on = |cpus: u32| {
            let costs = Costs { waiting: Waiting::Futex, ..Costs::default() };
            on(Load::Trace(trace.clone()), "slam", cpus, costs, seed).locks_per_1000
        };
        let (one, many) = (on(1), on(4));
        println!("{seed}: {one} {many}");
        assert!(one > 0.0 && (0.9 * one..2.0 * one).contains(&many), "{seed}: {one}, {many}");
    }
}
