//! The constructor of the program or shared object that Quarry is linked into.

use crate::settings::settings;
use crate::{process, record, signal, statistics};

/// A shared object with Quarry inside must not be unloaded: handlers of `fork`, the reclaim thread
/// and the `rseq_cs` of every thread that allocated point into it, and its heap may hold objects.
///
/// Constructors are the best place to pin it: they run under the loader's lock, which the first
/// allocation could only wait for, with unknown locks of the program held.
///
/// The settings are read here, too. So a program that never allocates still reports itself as such,
/// and a user learns at the start if statistics cannot be written. A process that should be visible
/// live publishes at once.
extern "C" fn at_load() {
    quarry_sys::object::pin();
    let settings = settings();
    statistics::register();
    record::begin();
    if let Some(number) = settings.signal {
        signal::install(number);
    }
    if record::wants_thread() {
        process::show_live();
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;
