//! Statistics at exit.

/// Runs after the program's own destructors, because the library is loaded before it.
extern "C" fn at_exit() {
    quarry::statistics::print_at_exit();
}

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;
