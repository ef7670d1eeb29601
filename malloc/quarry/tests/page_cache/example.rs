//! The example `store`: more data than its limit, read back by another process.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Builds the example.
fn program() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("<target>/tmp");
    let output = Command::new(env!("CARGO"))
        .args(["build", "--package", env!("CARGO_PKG_NAME"), "--example", "store", "--target-dir"])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join("debug/examples/store")
}

fn run(program: &Path, file: &Path, limit: &str, commands: &str) -> Output {
    let mut child = Command::new(program)
        .arg(file)
        .arg(limit)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the example is built");
    let mut input = child.stdin.take().expect("it is piped");
    std::thread::scope(|scope| {
        scope.spawn(move || input.write_all(commands.as_bytes()).expect("it reads"));
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output
    })
}

#[test]
fn a_store_keeps_more_than_its_memory_holds() {
    let program = program();
    let file = std::env::temp_dir().join(format!("quarry-store-{}", std::process::id()));
    let _ = std::fs::remove_file(&file);
    let key = |number: u32| format!("key-{}", number.wrapping_mul(2_654_435_761));
    // Most of these are on different pages: 20,000 keys in a file of 64 MiB, with 12 MiB of memory.
    let sets: String = (0..20_000).map(|n| format!("set {} value {n}\n", key(n))).collect();
    let written = run(&program, &file, "12", &sets);
    assert!(String::from_utf8_lossy(&written.stdout).lines().all(|line| line == "ok"));
    let said = String::from_utf8_lossy(&written.stderr);
    let cached: u64 = said.split(' ').next().and_then(|count| count.parse().ok()).expect("a count");
    assert!(cached < 12 << 20 >> 12, "within its limit: {said}");
    let gets: String = (0..20_001).map(|n| format!("get {}\n", key(n))).collect();
    let read = run(&program, &file, "12", &gets);
    let told = String::from_utf8_lossy(&read.stdout);
    for (number, line) in told.lines().enumerate() {
        let expected = if number < 20_000 { format!("value {number}") } else { "-".to_owned() };
        assert_eq!(line, expected);
    }
    assert_eq!(told.lines().count(), 20_001);
    std::fs::remove_file(&file).expect("it was written");
}
