//! `scripts/demo.sh` on a machine that lacks all that it would show.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// Tools that the script needs on a bare machine.
const TOOLS: [&str; 5] = ["awk", "bash", "dirname", "mktemp", "rm"];

#[test]
fn a_machine_without_programs_is_told_what_it_lacks() {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("demo");
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).unwrap();
    let path = env::var_os("PATH").expect("there is a search path");
    for tool in TOOLS {
        let mut found = env::split_paths(&path).map(|folder| folder.join(tool));
        let found = found.find(|file| file.is_file()).expect("it is installed");
        symlink(found, place.join(tool)).unwrap();
    }
    let output = Command::new(place.join("bash"))
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/demo.sh"))
        // Any program: nothing here is run with it.
        .arg(place.join("bash"))
        .env("PATH", &place)
        .env("TMPDIR", &place)
        .output()
        .expect("bash runs");
    let text = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{text}\n{said}");
    for step in 1..=4 {
        assert!(text.contains(&format!("    skipped: step {step}: ")), "{text}");
    }
    assert!(text.contains("redis-server (Debian's redis-server) is missing"), "{text}");
    let own = place.to_str().unwrap();
    let wide = text.lines().filter(|line| !line.contains(own) && line.chars().count() > 80);
    assert_eq!(wide.count(), 0, "{text}");
    assert!(!text.contains('\x1b'), "a pipe gets no colours: {text}");
    let left = fs::read_dir(&place).unwrap().count();
    assert_eq!(left, TOOLS.len(), "files are left in {}", place.display());
}
