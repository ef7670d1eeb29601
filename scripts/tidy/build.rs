//! Tells the tests which platform they run on, so that they ask cargo about no other.

fn main() {
    let host = std::env::var("TARGET").expect("cargo sets TARGET");
    println!("cargo::rustc-env=QUARRY_TIDY_HOST={host}");
    println!("cargo::rerun-if-changed=build.rs");
}
