//! Carries shared objects inside the command where `QUARRY_EMBED` names them at build time: a list
//! of files as `PATH` has them, such as `target/release/libquarry.so`. Without it nothing is
//! carried and the command looks for them beside itself.

use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-env-changed=QUARRY_EMBED");
    let mut entries = String::new();
    for file in env::split_paths(&env::var_os("QUARRY_EMBED").unwrap_or_default()) {
        if file.as_os_str().is_empty() {
            continue;
        }
        let file = fs::canonicalize(&file)
            .unwrap_or_else(|error| panic!("QUARRY_EMBED: {}: {error}", file.display()));
        println!("cargo:rerun-if-changed={}", file.display());
        let name = file.file_name().expect("a file has a name").to_string_lossy();
        entries.push_str(&format!("({name:?}, include_bytes!({file:?}) as &[u8]),\n"));
    }
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("embedded.rs"), format!("&[\n{entries}]\n"))
        .expect("OUT_DIR is writable");
}
