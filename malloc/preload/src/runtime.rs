//! The items that the compiler requires in a `no_std` shared object.

quarry::without_std! {
    /// A panic inside the allocator is a broken invariant: prints one line, then aborts.
    #[panic_handler]
    fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
        match info.location() {
            Some(place) => quarry_sys::report::fatal(format_args!(
                "internal error at {}:{}: {}",
                place.file(),
                place.line(),
                info.message()
            )),
            None => quarry_sys::report::fatal(format_args!("internal error: {}", info.message())),
        }
    }

    // The precompiled core refers to this symbol, though with panic = "abort" no panic unwinds. It
    // is hidden, so that it does not become part of the ABI.
    core::arch::global_asm!(
        ".pushsection .text.rust_eh_personality, \"ax\"",
        ".hidden rust_eh_personality",
        ".globl rust_eh_personality",
        "rust_eh_personality:",
        ".long 0",
        ".popsection",
    );
}
