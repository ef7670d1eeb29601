//! The start of the process.

/// Runs before the program's own constructors, because the library is loaded before it.
extern "C" fn at_start() {
    quarry::process::start();
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;
