//! Reads the records that the processes of a sample write: see `witness/witness.rs`.

use anyhow::{Context, Result};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

#[expect(dead_code, reason = "only the witness uses some fields")]
#[path = "../witness/layout.rs"]
pub(super) mod layout;

/// The shared object that records which object serves a process.
const WITNESS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libquarry-witness.so"));
/// Those that count the sizes and lifetimes of blocks, and that age the heap.
const RECORDER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libquarry-recorder.so"));
const AGER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libquarry-ager.so"));
const COUNTER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libquarry-counter.so"));

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProcessRecord {
    pub(super) pid: i32,
    pub(super) executable: PathBuf,
    /// The object in which the loader found `malloc`.
    pub(super) malloc: String,
    /// The next object after the executable that has a `malloc`.
    pub(super) next_malloc: String,
    pub(super) has_python: bool,
    /// Peak of resident memory in bytes; 0 if the process did not exit by itself.
    pub(super) peak_bytes: u64,
    /// How long the main thread waited for a CPU; 0 if the process did not exit by itself.
    pub(super) delay_ns: u64,
    pub(super) calls: Calls,
    /// See [`layout::AGED`].
    pub(super) aged: [u64; layout::AGED_FIELDS],
}

/// Calls of malloc and related functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Number of calls that allocate.
    pub allocations: u64,
    /// Number of calls that free.
    pub frees: u64,
    /// Bytes requested.
    pub bytes: u64,
    /// Time spent in all calls, in nanoseconds.
    pub ns: u64,
    /// Bytes of the blocks never freed, with their headers of glibc.
    pub held: u64,
}

impl std::ops::AddAssign for Calls {
    fn add_assign(&mut self, other: Self) {
        self.allocations += other.allocations;
        self.frees += other.frees;
        self.bytes += other.bytes;
        self.ns += other.ns;
        self.held += other.held;
    }
}

#[derive(Debug)]
pub(super) struct Witnesses {
    pub(super) witness: PathBuf,
    pub(super) counter: PathBuf,
    pub(super) recorder: PathBuf,
    pub(super) ager: PathBuf,
}

impl Witnesses {
    pub(super) fn unpack(folder: &Path) -> Result<Self> {
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            fs::write(&path, bytes).with_context(|| path.display().to_string()).map(|()| path)
        };
        Ok(Self {
            witness: write("libquarry-witness.so", WITNESS)?,
            counter: write("libquarry-counter.so", COUNTER)?,
            recorder: write("libquarry-recorder.so", RECORDER)?,
            ager: write("libquarry-ager.so", AGER)?,
        })
    }
}

/// Name of the variable that holds the path of the records' file.
pub(super) fn variable() -> &'static str {
    layout::VARIABLE.to_str().expect("the name is ASCII")
}

pub(super) fn create(path: &Path) -> Result<()> {
    let file = File::create(path).with_context(|| path.display().to_string())?;
    Ok(file.set_len(layout::FILE_BYTES as u64)?)
}

/// The files that a recorder has written beside that of the records: `FILE.PID`.
pub(super) fn histograms(path: &Path) -> Result<Vec<PathBuf>> {
    let folder = path.parent().context("a file is in a folder")?;
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let file = entry?.path();
        if file.file_stem() == path.file_name() && file.extension().is_some() {
            found.push(file);
        }
    }
    Ok(found)
}

/// The name of a process while its heap is aged.
pub(super) fn ageing() -> &'static str {
    layout::AGEING.to_str().expect("the name is ASCII")
}

/// Reads the records in the order in which programs were executed.
pub(super) fn read(path: &Path) -> Result<Vec<ProcessRecord>> {
    let bytes = quarry_wary::read(path, layout::FILE_BYTES as u64)
        .with_context(|| path.display().to_string())?;
    let taken = number32(&bytes, 0) as usize;
    let slots = bytes.get(layout::HEADER_BYTES..).unwrap_or_default().chunks(layout::SLOT_BYTES);
    Ok(slots.take(taken).filter_map(record).collect())
}

fn record(slot: &[u8]) -> Option<ProcessRecord> {
    let flags = number32(slot, layout::FLAGS);
    if slot.len() < layout::SLOT_BYTES || flags & layout::COMPLETE == 0 {
        return None;
    }
    Some(ProcessRecord {
        pid: number32(slot, layout::PID) as i32,
        executable: PathBuf::from(path(slot, layout::EXECUTABLE)),
        malloc: path(slot, layout::MALLOC),
        next_malloc: path(slot, layout::NEXT_MALLOC),
        has_python: flags & layout::HAS_PYTHON != 0,
        peak_bytes: number64(slot, layout::PEAK_KIB) * 1024,
        delay_ns: number64(slot, layout::DELAY_NS),
        calls: calls(slot),
        aged: std::array::from_fn(|field| number64(slot, layout::AGED + 8 * field)),
    })
}

fn calls(slot: &[u8]) -> Calls {
    let sum = |field: usize| {
        let stripes = (0..layout::STRIPES).map(|it| layout::COUNTERS + it * layout::STRIPE_BYTES);
        stripes.map(|at| number64(slot, at + field)).fold(0, u64::wrapping_add)
    };
    let per_ms = number64(slot, layout::TICKS_PER_MS).max(1);
    Calls {
        allocations: sum(layout::ALLOCATIONS),
        frees: sum(layout::FREES),
        bytes: sum(layout::BYTES),
        ns: (u128::from(sum(layout::TICKS)) * 1_000_000 / u128::from(per_ms)) as u64,
        // The children of a fork may free memory that their parent has allocated.
        held: sum(layout::HELD).cast_signed().max(0).cast_unsigned(),
    }
}

fn number32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |it| u32::from_ne_bytes(it.try_into().unwrap_or_default()))
}

fn number64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |it| u64::from_ne_bytes(it.try_into().unwrap_or_default()))
}

fn path(slot: &[u8], at: usize) -> String {
    let field = &slot[at..at + layout::PATH_BYTES];
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn run(program: &str, preload: fn(&Witnesses) -> &Path) -> Vec<ProcessRecord> {
        let folder = tempfile::tempdir().unwrap();
        let witnesses = Witnesses::unpack(folder.path()).unwrap();
        let file = folder.path().join("file");
        create(&file).unwrap();
        assert_eq!(read(&file).unwrap(), []);
        let mut command = Command::new("sh");
        command.args(["-c", program]).env("LD_PRELOAD", preload(&witnesses));
        let output = command.env(variable(), &file).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        read(&file).unwrap()
    }

    #[test]
    fn each_executed_program_says_what_serves_it() {
        let said = run("ls / && sort /dev/null", |it| &it.witness);
        assert_eq!(said.len(), 3, "{said:?}");
        for one in &said {
            assert!(one.malloc.contains("libc"), "{one:?}");
            assert!(!one.has_python && one.calls == Calls::default(), "{one:?}");
        }
        // dash exits without running destructors.
        assert!(said[1].peak_bytes > 100_000 && said[2].peak_bytes > 100_000, "{said:?}");
        assert!(said[1].executable.ends_with("ls"), "{said:?}");
        assert_ne!(said[1].pid, said[0].pid);
    }

    #[test]
    fn the_counter_counts_what_forks_and_programs_call() {
        let said = run("ls -l / > /dev/null; (ls / | sort)", |it| &it.counter);
        assert!(said.len() >= 4, "{said:?}");
        for one in &said {
            assert!(one.malloc.ends_with("libquarry-counter.so"), "{one:?}");
            let Calls { allocations, bytes, ns, .. } = one.calls;
            assert!(allocations > 5 && bytes > allocations && ns > 0, "{one:?}");
        }
    }

    #[test]
    fn the_counter_knows_what_was_never_freed() {
        let script = "kept = [bytes(1 << 20) for n in range(50)]; import os; os._exit(0)";
        let said = run(&format!("exec python3 -c '{script}'"), |it| &it.counter);
        let held = |name: &str| {
            let of = |it: &&ProcessRecord| it.executable.to_string_lossy().contains(name);
            said.iter().find(of).map(|it| it.calls.held >> 20)
        };
        assert!(held("python").is_some_and(|mib| (50..70).contains(&mib)), "{said:?}");
        let said = run("exec sort /dev/null", |it| &it.counter);
        assert!(said.iter().all(|it| it.calls.held < 1 << 20), "{said:?}");
    }

    #[test]
    fn a_program_that_is_killed_has_been_heard() {
        let said = run("{ sh -c 'kill -9 $$'; true; } 2> /dev/null", |it| &it.witness);
        assert_eq!(said.len(), 2, "{said:?}");
    }
}
