//! Link options of the shared object, and the choice between its two fast paths.

fn main() {
    // Never unload: with a stale `rseq_cs` after dlclose, the next preemption raises SIGSEGV.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,nodelete");
    // The library does nothing at exit, because that would add a page fault in each forked child.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-fini=no_such_function");
    // Bind all symbols at load: the first call of a lazily bound symbol may happen inside the
    // allocator.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,now");
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,separate-loadable-segments");
    let name = if cfg!(feature = "full") { "libquarry-full.so.0" } else { "libquarry.so.0" };
    println!("cargo::rustc-link-arg-cdylib=-Wl,-soname,{name}");
    // Places the functions of the fast path side by side.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-T,{}/text.ld", env!("CARGO_MANIFEST_DIR"));
    println!("cargo::rerun-if-changed=text.ld");
    println!("cargo::rerun-if-changed=build.rs");
    // The assembler fast path is for the default slab policy, and for policies with the same fast
    // path.
    const OF_ARRAYS: [&str; 2] = ["sheaf", "slam"];
    println!("cargo::rustc-check-cfg=cfg(quarry_portable)");
    if option_env!("QUARRY_BUILD_SLAB").is_some_and(|slab| !OF_ARRAYS.contains(&slab)) {
        println!("cargo::rustc-cfg=quarry_portable");
    }
}
