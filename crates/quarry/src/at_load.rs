//! The constructor of the program or shared object that Quarry is linked into.

use crate::settings::settings;
use crate::{process, record, signal, statistics};

/// A shared object with Quarry inside must not be unloaded: handlers of `fork`, the reclaim thread
/// and the `rseq_cs` of threads point into it, and its heap may hold objects. A constructor pins
/// it, because it runs under the loader's lock; the first allocation would have to wait for that
/// lock, maybe with locks of the program held. The settings are read here as well: then a program
/// that never allocates reports itself as such, and a user learns at the start if statistics cannot
/// be written.
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
