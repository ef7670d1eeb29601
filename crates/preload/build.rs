//! Link options of the shared object, and which of its two fast paths it gets.

fn main() {
    // A stale `rseq_cs` after dlclose is a SIGSEGV at the next preemption: never unload.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,nodelete");
    // The library does nothing at exit: a handler would cost each child of a fork a page fault.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-fini=no_such_function");
    // Bind everything when loaded: the first call of a lazily bound symbol may come from inside
    // the allocator.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,now");
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,separate-loadable-segments");
    let name = if cfg!(feature = "full") { "libquarry-full.so.0" } else { "libquarry.so.0" };
    println!("cargo::rustc-link-arg-cdylib=-Wl,-soname,{name}");
    // Puts the functions of the fast path together.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-T,{}/text.ld", env!("CARGO_MANIFEST_DIR"));
    println!("cargo::rerun-if-changed=text.ld");
    println!("cargo::rerun-if-changed=build.rs");
    // The fast path in assembler is that of the default slab policy, and of those whose fast path
    // is the same.
    const OF_ARRAYS: [&str; 2] = ["sheaf", "slam"];
    println!("cargo::rustc-check-cfg=cfg(quarry_portable)");
    if option_env!("QUARRY_BUILD_SLAB").is_some_and(|slab| !OF_ARRAYS.contains(&slab)) {
        println!("cargo::rustc-cfg=quarry_portable");
    }
}
