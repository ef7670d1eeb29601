//! Link options of the shared object.

fn main() {
    // A stale `rseq_cs` after dlclose is a SIGSEGV at the next preemption: never unload.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,nodelete");
    println!("cargo::rustc-link-arg-cdylib=-Wl,-soname,libquarry_sqlite.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
