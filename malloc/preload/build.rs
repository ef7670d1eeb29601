//! Link options of the shared object.

fn main() {
    link(env!("CARGO_MANIFEST_DIR"));
}

/// `folder` is that of this file; `lab/library` calls this too.
pub(crate) fn link(folder: &str) {
    // Never unload: with a stale `rseq_cs` after dlclose, the next preemption raises SIGSEGV.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,nodelete");
    // The library does nothing at exit, because that would add a page fault in each forked child.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-fini=no_such_function");
    // Bind all symbols at load: the first call of a lazily bound symbol may happen inside the
    // allocator.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,now");
    // Without the first, GNU ld puts the functions after .bss into the segment of the data, which
    // is writable. LLD knows both, and the last one counts.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,separate-code");
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,separate-loadable-segments");
    let name = if cfg!(feature = "full") { "libquarry-full.so.0" } else { "libquarry.so.0" };
    println!("cargo::rustc-link-arg-cdylib=-Wl,-soname,{name}");
    // Places the functions of the fast path side by side.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-T,{folder}/text.ld");
    println!("cargo::rerun-if-changed={folder}/text.ld");
    println!("cargo::rerun-if-changed={folder}/build.rs");
    // Slab policies with a fast path of their own set it.
    println!("cargo::rustc-check-cfg=cfg(quarry_portable)");
}
