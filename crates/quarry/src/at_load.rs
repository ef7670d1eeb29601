//! The constructor of the program or shared object that Quarry is linked into.

use crate::settings::settings;
use crate::{process, record, signal, statistics};

/// A shared object with Quarry inside must not be unloaded: handlers of `fork`, the reclaim thread
/// and the `rseq_cs` of every thread that allocated point into it, and its heap may hold objects.
///
/// This is the best moment for it: constructors run under the loader's lock, which the first
/// allocation could only wait for, with unknown locks of the program held.
///
/// The settings are read here, too: the user of a program that never allocates is told that it did
/// not, and learns at the start if statistics cannot be written. A process that is to be seen live
/// publishes at once.
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
