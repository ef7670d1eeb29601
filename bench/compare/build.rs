//! Compiles the forms of the witness, the shared object that the command preloads into the
//! programs that it compares (`witness/witness.rs`). The command carries all forms inside itself,
//! because cargo cannot build a shared object as a dependency of a program.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=witness");
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    build(&Path::new(&out).join("libquarry-witness.so"), &[]);
    build(&Path::new(&out).join("libquarry-counter.so"), &["--cfg", "counting"]);
    let recording = ["--cfg", "counting", "--cfg", "recording"];
    build(&Path::new(&out).join("libquarry-recorder.so"), &recording);
    build(&Path::new(&out).join("libquarry-ager.so"), &["--cfg", "ageing"]);
}

fn build(output: &Path, options: &[&str]) {
    let mut rustc = Command::new(env::var_os("RUSTC").expect("cargo sets RUSTC"));
    rustc.args(["--edition=2024", "--crate-type=cdylib", "--crate-name=witness"]);
    rustc.args(["-Copt-level=2", "-Cpanic=abort", "-Cstrip=symbols"]);
    // The witness must stay mapped as long as any code may call it.
    rustc.args(["-Clink-arg=-Wl,-z,nodelete", "-Clink-arg=-Wl,-z,now"]);
    rustc.args(["--check-cfg", "cfg(counting,recording,ageing)"]).args(options);
    rustc.arg("--target").arg(env::var_os("TARGET").expect("cargo sets TARGET"));
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={}", linker.display()));
    }
    rustc.arg("-o").arg(output).arg("witness/witness.rs");
    let status = rustc.status().expect("rustc starts");
    assert!(status.success(), "rustc could not build {}", output.display());
}
