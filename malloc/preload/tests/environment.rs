//! `QUARRY_*` variables with accepted and wrong values.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, chown, symlink};
use std::path::Path;

use crate::support::{
    DEFAULT_SLAB, Outcome, Run, is_full, libraries, library, program, scratch, slab_policy,
};
use quarry_mm::heap::options::OPTIONS;

fn environment() -> Run {
    Run::new(program("environment.c")).without_stats()
}

/// Demands that the program ran on Quarry and that standard error is one line with all `words`.
#[track_caller]
fn one_line_with(outcome: Outcome, words: &[&str]) {
    let outcome = outcome.success();
    assert_eq!(outcome.stdout, "quarry secure=0\n", "{outcome}");
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    let [line] = lines.as_slice() else { panic!("{} lines, not one\n{outcome}", lines.len()) };
    assert!(line.starts_with("quarry: "), "a line that is not ours\n{outcome}");
    for word in words {
        assert!(line.contains(word), "`{word}` is not named\n{outcome}");
    }
}

#[test]
fn silent_without_variables() {
    let outcome = environment().finish().success();
    assert_eq!(outcome.stdout, "quarry secure=0\n", "{outcome}");
    assert_eq!(outcome.stderr, "", "{outcome}");
}

/// One line names the likest option, and the place where all are listed.
#[test]
fn unknown_name() {
    for (name, likest) in [
        ("QUARRY_LIMT", "QUARRY_LIMIT"),
        ("QUARRY_MAX_LIMIT", "QUARRY_LIMIT"),
        ("QUARRY_purge_delay", "QUARRY_PURGE_DELAY"),
        ("QUARRY_PURGEDELAYS", "QUARRY_PURGE_DELAY"),
        ("QUARRY_STAT", "QUARRY_STATS"),
    ] {
        let outcome = environment().env(name, "1").finish();
        let guess = format!("{name} is not an option; did you mean {likest}? ");
        one_line_with(outcome, &[&guess, "libquarry(7)", "quarry run --help"]);
    }
    let long = format!("QUARRY_{}", "LIMIT".repeat(20));
    for name in ["QUARRY_FOO", "QUARRY_", &long] {
        let outcome = environment().env(name, "1").finish();
        assert!(!outcome.stderr.contains("did you mean"), "{outcome}");
        for option in OPTIONS.iter() {
            assert!(!outcome.stderr.contains(&format!("{}, ", option.name)), "{outcome}");
        }
        one_line_with(outcome, &[name, "is not an option", "libquarry(7)"]);
    }
}

/// The limit that a program has with this value of `QUARRY_LIMIT`, and the lines of its start.
fn limit_of(value: impl AsRef<std::ffi::OsStr>) -> (String, String) {
    let run = Run::new(program("environment_read.c")).without_stats();
    let outcome = run.env("QUARRY_LIMIT", value).finish().success();
    (outcome.stdout.trim_end().to_owned(), outcome.stderr)
}

/// Limits in the spellings of systemd and of Kubernetes are accepted without a line.
#[test]
fn a_limit_as_systemd_and_kubernetes_write_it() {
    const MIB: usize = 1 << 20;
    for (value, bytes) in [
        ("1Gi", 1024 * MIB),
        ("64Mi", 64 * MIB),
        ("65536Ki", 64 * MIB),
        ("0.5Ti", 512 * 1024 * MIB),
        ("1.5Gi", 1536 * MIB),
        ("64M", 64 * MIB),
        ("1.5G", 1536 * MIB),
        ("134217728", 128 * MIB),
        ("1e9", 1_000_000_000 / 4096 * 4096),
        ("134217728000m", 128 * MIB),
    ] {
        assert_eq!(limit_of(value), (bytes.to_string(), String::new()), "{value}");
    }
    for value in ["infinity", "max", "0"] {
        assert_eq!(limit_of(value), ("none".to_owned(), String::new()), "{value}");
    }
    let (half, all) = (limit_of("50%"), limit_of("100%"));
    assert_eq!((half.1.as_str(), all.1.as_str()), ("", ""));
    let bytes = |text: &str| text.parse::<u64>().expect("a limit");
    let off = bytes(&all.0).abs_diff(2 * bytes(&half.0));
    assert!(off <= 4 * 4096, "50% is {}, 100% {}", half.0, all.0);
}

/// A limit that is not accepted is the smallest that it may mean, or all memory. One line tells it.
#[test]
fn a_limit_that_cannot_be_read_still_limits() {
    let (all, _) = limit_of("100%");
    let told = |value: &str, bytes: &str| {
        let (limit, lines) = limit_of(value);
        assert_eq!(limit, bytes, "{value}");
        assert_eq!(lines.lines().count(), 1, "{lines}");
        let kib = bytes.parse::<u64>().expect("a number") / 1024;
        let told = format!("QUARRY_LIMIT={value} is not accepted, and counts as {kib} KiB; use ");
        assert!(lines.contains(&told), "{told}\n{lines}");
    };
    let frames = |bytes: usize| (bytes / 4096 * 4096).to_string();
    told("1Gb", &frames(1_000_000_000));
    told("200 MB", &frames(200_000_000));
    told("1.5 gigabytes", &frames(1_500_000_000));
    for value in ["", "lots", "-1", "1_000_000_000", "150%", "4095"] {
        told(value, &all);
    }
    let (limit, lines) = limit_of(std::ffi::OsStr::from_bytes(b"\xff1G"));
    assert_eq!((limit, lines.lines().count()), (all, 1), "{lines}");
    let outcome = environment().env("QUARRY_LIMIT", "1GB").env("QUARRY_SANDBOX", "1").finish();
    one_line_with(outcome, &["QUARRY_LIMIT=1GB is not accepted"]);
}

/// With `QUARRY_STRICT=1` each mistake ends a program before its first instruction, with a line for
/// the mistake, a line for the end, and the status `EX_CONFIG`.
#[test]
fn strict() {
    for (name, value) in [
        ("QUARRY_FOO", "1"),
        ("QUARRY_LIMIT", "1Gb"),
        ("QUARRY_LIMIT", "lots"),
        ("QUARRY_PURGE_DELAY", "500ms"),
        ("QUARRY_BACKGROUND", "yes"),
        ("QUARRY_SLAB", "slob"),
        ("QUARRY_WATERMARK_SCALE", "10%"),
        ("QUARRY_NUMA", "remote"),
        ("QUARRY_STATS", "%x"),
        ("QUARRY_PROFILE", "%x"),
        ("QUARRY_PROFILE_MEAN", "often"),
        ("QUARRY_SIGNAL", "SIGKILL"),
        ("QUARRY_STRICT", "yes"),
    ] {
        let made = scratch().join("made");
        for run in [environment(), Run::new("touch").without_stats().arg(&made)] {
            let outcome = run.env("QUARRY_STRICT", "1").env(name, value).finish();
            assert_eq!(outcome.status.code(), Some(78), "{name}={value}: {outcome}");
            assert_eq!(outcome.stdout, "", "{outcome}");
            let lines: Vec<&str> = outcome.stderr.lines().collect();
            let [mistake, end] = lines[..] else { panic!("{name}={value}: {outcome}") };
            assert!(mistake.contains(name), "{outcome}");
            assert!(end.ends_with("does not start, because of QUARRY_STRICT"), "{outcome}");
        }
        assert!(!made.exists(), "{name}={value}");
    }
    if let Some(library) = library().filter(|library| !is_full(library)) {
        let run = environment().env("QUARRY_STRICT", "1").env("QUARRY_HARDEN", "1");
        assert_eq!(run.env("LD_PRELOAD", library).finish().status.code(), Some(78));
    }
    let right = environment().env("QUARRY_STRICT", "1").env("QUARRY_LIMIT", "1Gi");
    assert_eq!(right.finish().success().stderr, "");
    for value in ["0", ""] {
        let lax = environment().env("QUARRY_STRICT", value).env("QUARRY_FOO", "1");
        assert_eq!(lax.finish().success().stdout, "quarry secure=0\n");
    }
}

#[test]
fn wrong_values() {
    for (name, value, accepted) in [
        ("QUARRY_DISABLE", "yes", ["0", "1"].as_slice()),
        ("QUARRY_LIMIT", "12Q", [].as_slice()),
        ("QUARRY_LIMIT", "-1", [].as_slice()),
        ("QUARRY_LIMIT", "4095", ["4K or more", "0 for none"].as_slice()),
        ("QUARRY_LIMIT", "99999999999999999999", [].as_slice()),
        ("QUARRY_RESERVE", "much", [].as_slice()),
    ] {
        let outcome = environment().env(name, value).finish();
        one_line_with(outcome, &[&[name, value], accepted].concat());
    }
}

#[test]
fn one_line_for_each_mistake() {
    let outcome =
        environment().env("QUARRY_FOO", "1").env("QUARRY_THP", "bogus").finish().success();
    assert_eq!(outcome.stderr.lines().count(), 2, "{outcome}");
}

/// Programs run with each accepted value of these variables.
#[test]
fn every_accepted_value() {
    for (name, values) in
        [("QUARRY_RESERVE", ["1G", "64G"].as_slice()), ("QUARRY_LIMIT", ["8G", "0"].as_slice())]
    {
        for value in values {
            let outcome = environment().env(name, value).finish().success();
            assert_eq!(outcome.stderr, "", "{outcome}");
            let stress = Run::new(program("stress.c")).args(["31", "4", "8000", "fork"]);
            stress.env(name, value).finish().success();
        }
    }
}

#[test]
fn limit_is_kept() {
    Run::new(program("environment_limit.c"))
        .env("QUARRY_LIMIT", "200M")
        .arg("200")
        .finish()
        .success();
}

#[test]
fn disabled() {
    let outcome = environment().env("QUARRY_DISABLE", "1").finish().success();
    assert_eq!(outcome.stdout, "libc secure=0\n", "{outcome}");
    assert_eq!(outcome.stderr, "", "{outcome}");
    let outcome = environment().env("QUARRY_DISABLE", "0").finish().success();
    assert_eq!(outcome.stdout, "quarry secure=0\n", "{outcome}");
}

/// With `QUARRY_DISABLE`, each function calls the C library's, from the first request on.
#[test]
fn disabled_for_every_entry_point() {
    for source in [
        "abi_basic.c",
        "abi_aligned.c",
        "abi_calloc.c",
        "abi_realloc.c",
        "abi_errors.c",
        "abi_sized.c",
        "abi_info.c",
        "cxx_operators.cpp",
        "cxx_failure.cpp",
        "life_early.cpp",
        "life_tls.cpp",
        "life_threads.c",
        "life_fork.c",
        "life_exec.c",
    ] {
        let run = Run::new(program(source)).without_stats();
        run.env("QUARRY_DISABLE", "1").env("TEST_PEER", "1").finish().success();
    }
}

/// The search for the C library's `free` frees the message of a search that has failed.
#[test]
fn disabled_after_a_search_that_failed() {
    let run = Run::new(program("environment_message.c")).without_stats();
    run.env("QUARRY_DISABLE", "1").finish().success();
}

#[test]
fn statistics_on_standard_error() {
    let outcome = environment().env("QUARRY_STATS", "1").finish().success();
    assert!(outcome.stderr.contains("slabinfo - version: 2.1"), "{outcome}");
    let outcome = environment().env("QUARRY_STATS", "0").finish().success();
    assert_eq!(outcome.stderr, "", "{outcome}");
}

/// No statistics go to a file that has the descriptor of standard error, or its copy, at the exit.
#[test]
fn statistics_in_no_file_of_the_program() {
    for (all, is_printed) in [(None, true), (Some("all"), false)] {
        let file = scratch().join("file");
        let run = Run::new(program("environment_descriptor.c")).without_stats();
        let outcome = run.env("QUARRY_STATS", "1").arg(&file).args(all).finish().success();
        assert_eq!(fs::read_to_string(file).expect("the file"), "mine\n", "{outcome}");
        let in_error = outcome.stderr.contains("slabinfo - version: 2.1");
        assert_eq!(in_error, is_printed, "{all:?}\n{outcome}");
    }
}

/// No statistics go to a pipe, which could block, or through a link, which may lead anywhere.
#[test]
fn statistics_in_regular_files_only() {
    let folder = scratch();
    let (pipe, link, other) = (folder.join("pipe"), folder.join("link"), folder.join("other"));
    make_pipe(&pipe);
    fs::write(&other, "of another owner\n").expect("scratch is writable");
    symlink(&other, &link).expect("scratch is writable");
    let dangling = folder.join("dangling");
    symlink(folder.join("nowhere"), &dangling).expect("scratch is writable");
    let refused = |file: &Path, reason: &str| {
        let run = environment().env("QUARRY_STATS", file).limit_s(20);
        one_line_with(run.finish(), &[&file.display().to_string(), reason]);
    };
    refused(&pipe, "not a regular file");
    // Opened for reading and writing, a pipe has a reader; text written to it would stay in it.
    let mut options = File::options();
    options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
    let mut reader = options.open(&pipe).expect("the pipe is ours");
    refused(&pipe, "not a regular file");
    let nothing = reader.read(&mut [0; 1]).map_err(|error| error.kind());
    assert_eq!(nothing, Err(ErrorKind::WouldBlock), "something was written into the pipe");
    for link in [&link, &dangling] {
        refused(link, "not a regular file");
    }
    assert_eq!(fs::read_to_string(&other).expect("the file"), "of another owner\n");
    assert!(!folder.join("nowhere").exists());
    refused(Path::new("/dev/null"), "not a regular file");
    refused(&folder, "not a regular file");
    refused(&folder.join("no/such/folder"), "cannot be opened");
}

fn make_pipe(path: &Path) {
    let path = CString::new(path.as_os_str().as_bytes()).expect("no NUL in it");
    // SAFETY: the path is NUL-terminated.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0, "{path:?}");
}

/// A large request that a cached mapping serves is counted in statistics like any other.
#[test]
fn statistics_count_every_large_request() {
    let outcome = Run::new(program("stats_large.c")).finish().success();
    let stats = outcome.stats();
    let line = |name: &str| {
        let mut lines = stats.text().lines();
        lines.find(|line| line.split_whitespace().next() == Some(name) && line.contains(':'))
    };
    for name in ["blocks", "mappings"] {
        let line = line(name).unwrap_or_else(|| panic!("no line of {name}\n{}", stats.text()));
        let (_, counts) = line.split_once(": operations").expect("the counts of a line");
        let counts: Vec<u64> =
            counts.split_whitespace().map(|word| word.parse().expect("a count")).collect();
        assert_eq!(counts, [80, 80, 0], "{line}");
    }
}

/// Reports errors at the start, because `ls` and others close standard error before the exit.
#[test]
fn statistics_that_cannot_be_written_are_told_before_standard_error_is_closed() {
    let folder = scratch();
    let missing = folder.join("no/such/folder");
    let read_only = folder.join("read-only");
    fs::write(&read_only, "of another owner\n").expect("scratch is writable");
    let refusals = [(&missing, "no such folder"), (&folder, "is not a regular file")];
    for (file, reason) in refusals {
        let run = Run::new("ls").without_stats().env("QUARRY_STATS", file).arg(&folder);
        let outcome = run.finish().success();
        assert_eq!(outcome.stdout, "read-only\n", "{outcome}");
        let expected = format!("quarry: no statistics: QUARRY_STATS={} ", file.display());
        assert!(outcome.stderr.starts_with(&expected), "{outcome}");
        assert!(outcome.stderr.contains(reason), "{outcome}");
        assert!(outcome.stderr.ends_with("; use 0, 1 or a regular file\n"), "{outcome}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome}");
    }
}

/// The program may make the folder of the file itself. The check at the start makes no file.
#[test]
fn statistics_in_a_folder_that_the_program_makes() {
    let folder = scratch().join("made");
    let file = folder.join("stats");
    let script = format!("test -e {0} && exit 3; mkdir {0}", folder.display());
    let run = Run::new("sh").without_stats().args(["-c", &script]);
    let outcome = run.env("QUARRY_STATS", &file).finish().success();
    assert!(outcome.stderr.contains("no such folder"), "{outcome}");
    let text = fs::read_to_string(file).expect("its statistics");
    assert!(text.contains("slabinfo - version: 2.1"), "{text}");
}

/// A limit of file sizes, in place of a full disk, prevents the statistics.
#[test]
fn statistics_that_no_disk_holds_are_told() {
    let file = scratch().join("stats");
    // The limit counts blocks of 512 bytes; the program's standard output is a file too.
    fs::write(&file, [b'\n'; 8 * 512]).expect("scratch is writable");
    let script = "trap '' XFSZ; ulimit -f 8; exec \"$0\"";
    let run = Run::new("sh").without_stats().args(["-c", script]).arg(program("environment.c"));
    let outcome = run.env("QUARRY_STATS", &file).finish();
    one_line_with(outcome, &[&file.display().to_string(), "cannot be written (file size limit)"]);
}

/// For a program without requests, the statistics are one line that states this.
#[test]
fn statistics_of_a_program_that_allocates_nothing() {
    let source = "int main(void) { return 0; }\n";
    let folder = scratch();
    let (file, program) = (folder.join("nothing.c"), folder.join("nothing"));
    fs::write(&file, source).expect("scratch is writable");
    let mut compile = std::process::Command::new("cc");
    assert!(compile.arg("-o").arg(&program).arg(&file).status().expect("cc runs").success());
    let outcome = Run::new(&program).without_stats().env("QUARRY_STATS", "1").finish().success();
    let line = outcome.stderr.strip_prefix("quarry ").unwrap_or_default();
    assert!(line.contains(": nothing["), "{outcome}");
    assert!(line.ends_with("]: nothing was asked of it\n"), "{outcome}");
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome}");
}

/// `libquarry.so` has no records: one line names the library that has them.
#[test]
fn checks_that_the_library_has_not() {
    let Some(library) = library().filter(|library| !is_full(library)) else { return };
    let run = |name: &str, value: &str| {
        environment().env(name, value).env("LD_PRELOAD", library).finish()
    };
    for (name, value) in [("QUARRY_DEBUG", "FZ"), ("QUARRY_HARDEN", "1")] {
        let words = [&*format!("{name}={value}: "), "libquarry-full.so", "quarry run"];
        one_line_with(run(name, value), &words);
    }
    for (name, value) in [("QUARRY_DEBUG", "-"), ("QUARRY_HARDEN", "0"), ("QUARRY_GUARD", "all")] {
        assert_eq!(run(name, value).success().stderr, "", "{name}={value}");
    }
}

/// The slab policy is compiled in: if the variable names another, one line says how to get it.
#[test]
fn a_slab_policy_that_the_library_has_not() {
    let mut tried = 0;
    for library in libraries() {
        let own = slab_policy(&library);
        let run =
            |slab| environment().env("LD_PRELOAD", &library).env("QUARRY_SLAB", slab).finish();
        for name in ["sheaf", "slub-4.9", "slub", "slam", "slob", ""] {
            if name == own || (name, own) == ("slub", "slub-4.9") {
                let outcome = run(name).success();
                assert_eq!(outcome.stdout, "quarry secure=0\n", "{outcome}");
                assert_eq!(outcome.stderr, "", "{outcome}");
            } else {
                let expected =
                    format!("QUARRY_SLAB={name}: {own} is compiled in here, and no other");
                one_line_with(run(name), &[&expected, "quarry run --slab NAME"]);
            }
        }
        tried += 1;
    }
    assert!(tried > 0, "no library is there");
}

/// A mechanism may be switched off even in a policy that lacks it. The default policy has no
/// optional mechanism, and does not know the option.
#[test]
fn mechanisms_can_be_left_out() {
    for library in libraries() {
        if slab_policy(&library) == DEFAULT_SLAB {
            let run = environment().env("LD_PRELOAD", &library);
            let outcome = run.env("QUARRY_SLAB_WITHOUT", "merging").finish();
            one_line_with(outcome, &["QUARRY_SLAB_WITHOUT is not an option"]);
            continue;
        }
        let several = "alien,shared,cpu-partial";
        for without in ["merging", "cpu-partial", "alien", "shared", "local-memory", several] {
            let stress = Run::new(program("stress.c")).args(["7", "4", "4000", "fork"]);
            let run = stress.env("LD_PRELOAD", &library).env("QUARRY_SLAB_WITHOUT", without);
            let outcome = run.finish().success();
            assert_eq!(outcome.stderr, "", "{outcome}");
            let served = format!("(quarry, {})", slab_policy(&library));
            assert!(outcome.stats().text().contains(&served), "{served}\n{outcome}");
        }
        let bogus = environment().env("LD_PRELOAD", &library).env("QUARRY_SLAB_WITHOUT", "luck");
        let accepted = ["QUARRY_SLAB_WITHOUT=luck", "merging", "cpu-partial", "alien", "shared"];
        one_line_with(bogus.finish(), &accepted);
    }
}

/// Parent and children append their own tables to one file.
#[test]
fn statistics_of_parent_and_child() {
    let outcome = Run::new(program("environment.c")).arg("fork").finish().success();
    assert_eq!(outcome.stdout, "quarry secure=0\n".repeat(2), "{outcome}");
    let stats = outcome.stats();
    assert_eq!(stats.processes(), 2, "{}", stats.text());
}

/// A program with raised privileges ignores `QUARRY_*`. The loader ignores LD_PRELOAD for it: so
/// this program is linked with the library, and is setgid to another group.
#[test]
fn raised_privileges() {
    let library = library().expect("the library is under test");
    let folder = scratch();
    let file = folder.join("environment-setgid");
    let mut compile = std::process::Command::new("cc");
    let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/environment.c");
    // The loader searches a bare soname in the standard folders only, but uses a path as it is.
    let path = format!("-Wl,-rpath,{}", library.parent().expect("a file in a folder").display());
    compile.args(["-std=gnu11", "-fno-builtin", "-Wl,--no-as-needed"]).arg(path);
    let answer = compile.arg("-o").arg(&file).arg(sources).arg(library).output().expect("cc runs");
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    chown(&file, None, Some(other_group())).expect("the file is ours, the group too");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o2755)).expect("the file is ours");

    let run = Run::bare(&file).env("QUARRY_FOO", "1").env("QUARRY_DISABLE", "1");
    let outcome = run.env("QUARRY_STATS", "1").finish().success();
    assert_eq!(outcome.stdout, "quarry secure=1\n", "{outcome}");
    assert_eq!(outcome.stderr, "", "{outcome}");
}

/// A group that this user may give to a file, other than the group of its processes.
fn other_group() -> u32 {
    // SAFETY: getegid and geteuid have no preconditions.
    let (own, root) = unsafe { (libc::getegid(), libc::geteuid() == 0) };
    if root {
        return own + 1;
    }
    let mut groups = [0; 1024];
    // SAFETY: `groups` has room for as many entries as the first argument says.
    let count = unsafe { libc::getgroups(1024, groups.as_mut_ptr()) };
    let count = usize::try_from(count).expect("getgroups works");
    *groups[..count].iter().find(|group| **group != own).expect(
        "this test makes a set-group-ID program: run it as root or as a member of a second group",
    )
}
