//! The heap profile: switched while all kinds of work run, and with nearly every object a sample.

use std::fs;
use std::path::Path;

use crate::support::{Run, linked_program, plugin, program, scratch};

/// The first word of a profile (`layout` of `quarry_watch`).
const MAGIC: &[u8] = b"QUARRYHP";

/// Switches the profile on and off a thousand times, while threads make all kinds of requests,
/// libraries are opened and closed, signals interrupt the threads, and the process forks.
#[test]
fn switched_a_thousand_times_under_load() {
    let run = || Run::new(program("profile_switch.c")).arg(plugin("life_plugin.c"));
    run().finish().success();
    run().env("QUARRY_SANDBOX", "1").finish().success();
}

/// To sample an allocation never waits for a thread that holds the loader's lock.
#[test]
fn nobody_waits_for_the_loader() {
    let holder = plugin("profile_loader_plugin.c");
    Run::new(program("profile_loader.c")).arg(holder).finish().success();
}

/// Programs cannot detect that their objects are samples (except by `mallinfo`, which counts the
/// pages of samples).
#[test]
fn programs_run_the_same_with_nearly_every_object_a_sample() {
    let programs = [
        "abi_basic.c",
        "abi_aligned.c",
        "abi_calloc.c",
        "abi_realloc.c",
        "abi_sized.c",
        "around_atfork.c",
        "around_fork_handler.c",
        "cxx_operators.cpp",
        "life_early.cpp",
        "life_fork.c",
        "life_signals.c",
        "life_small_stack.c",
        "life_threads.c",
        "life_tls.cpp",
    ];
    for mean in ["16", "4096"] {
        for source in programs {
            let file = scratch().join("profile");
            let run = Run::new(program(source));
            run.env("QUARRY_PROFILE", &file).env("QUARRY_PROFILE_MEAN", mean).finish().success();
            let written = fs::read(&file).unwrap_or_else(|error| panic!("{source}: {error}"));
            assert!(written.starts_with(MAGIC), "{source}");
            let maps = String::from_utf8_lossy(&written[written.len() - 4096..]).into_owned();
            assert!(maps.contains("[stack]"), "{source}: {maps}");
        }
    }
}

#[test]
fn a_child_has_a_profile_of_its_own_where_files_are() {
    let folder = scratch();
    let run = Run::new(program("life_fork.c"));
    run.env("QUARRY_PROFILE", folder.join("%p.raw")).finish().success();
    let files: Vec<_> = fs::read_dir(&folder).expect("a folder").flatten().collect();
    assert!(!files.is_empty(), "the parent's at least");
    for file in files {
        let written = fs::read(file.path()).expect("readable");
        let pid = u64::from_le_bytes(written[32..40].try_into().expect("eight bytes"));
        let name = format!("{pid}.raw");
        assert_eq!(file.file_name().to_str(), Some(name.as_str()), "each has its own");
    }
}

/// The start tells it, in a program that closes standard error before its end; nothing is made.
#[test]
fn a_file_that_cannot_be_written_is_told_at_the_start() {
    let folder = scratch();
    let missing = folder.join("no/such/profile");
    let link = folder.join("link");
    std::os::unix::fs::symlink(folder.join("nowhere"), &link).expect("scratch is writable");
    for (file, reason) in [
        (missing.as_path(), "cannot be opened (no such folder)"),
        (&folder, "is not a regular file"),
        (&link, "is not a regular file"),
        (Path::new("/dev/null"), "is not a regular file"),
    ] {
        let run = Run::new("sh").without_stats().args(["-c", "exec 2>&-"]);
        let outcome = run.env("QUARRY_PROFILE", file).finish().success();
        let name = file.display();
        let line = format!("quarry: no heap profile: QUARRY_PROFILE={name} {reason}; use 0 or a ");
        assert!(outcome.stderr.starts_with(&line), "{line}\n{outcome}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome}");
    }
    assert!(!folder.join("no").exists() && !folder.join("nowhere").exists());
    let run = Run::new(program("abi_basic.c"));
    let outcome = run.env("QUARRY_PROFILE_MEAN", "none").finish();
    assert!(outcome.stderr.contains("QUARRY_PROFILE_MEAN=none is not accepted"));
}

/// The program may make the folder itself. The look at the start makes no file.
#[test]
fn a_profile_in_a_folder_that_the_program_makes() {
    let folder = scratch().join("made");
    let file = folder.join("profile");
    let run = Run::new("mkdir").without_stats().arg(&folder);
    let outcome = run.env("QUARRY_PROFILE", &file).finish().success();
    assert_eq!(outcome.stderr.matches("no such folder").count(), 1, "{outcome}");
    assert!(fs::read(file).expect("its profile").starts_with(MAGIC));
}

/// Objects of 1,000 to 3,000 bytes in a profile: how many were allocated, and how many live.
fn counted(file: &Path) -> (u64, u64) {
    const HEAD_WORDS: usize = 512;
    let written = fs::read(file).expect("a profile");
    let words: Vec<u64> =
        written.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    let buckets = words[HEAD_WORDS..].chunks_exact(8).take(words[2] as usize);
    buckets
        .filter(|bucket| (900..3000).contains(&bucket[2]))
        .fold((0, 0), |sum, bucket| (sum.0 + bucket[3], sum.1 + bucket[3] - bucket[5]))
}

/// A leak in a heap, and one in a group, is found like any other; a heap that goes leaves none.
#[test]
fn objects_of_heaps_and_groups_are_sampled() {
    for (part, live) in [("", 1950..2050), ("free", 0..50), ("destroy", 950..1050)] {
        let file = scratch().join("profile");
        let run = Run::full(linked_program("profile_heaps.c")).without_stats();
        let run = if part.is_empty() { run } else { run.arg(part) };
        run.env("QUARRY_PROFILE", &file).env("QUARRY_PROFILE_MEAN", "64").finish().success();
        let (allocated, found) = counted(&file);
        assert!((1950..2100).contains(&allocated), "{part}: {allocated} allocated");
        assert!(live.contains(&found), "{part}: {found} of {allocated} live");
    }
}
