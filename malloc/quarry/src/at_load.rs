//! The constructor that runs when the program or shared object with Quarry is loaded.

use crate::process::{Mode, ensure_ready};
use crate::settings::settings;
use crate::{background, record, signal, statistics};
use quarry_sys::errno::KeepErrno;
use quarry_sys::{object, watchers};

/// Keeps the shared object that contains Quarry loaded for ever: handlers of `fork`, the background
/// thread and the `rseq_cs` of threads point into it, and its heap may hold objects. A constructor
/// does this, because the loader's lock is held already when it runs. If the first allocation did
/// it, it would wait for that lock, maybe while its thread holds locks of the program. The
/// constructor also reads the settings: so even a program that never allocates prints statistics,
/// and a user learns at the start if they cannot be written.
extern "C" fn at_load() {
    object::pin();
    watchers::look_for();
    let settings = settings();
    if settings.strict {
        // Reads the options of the instance, too, and ends the process if one is wrong.
        ensure_ready();
    }
    statistics::register();
    record::begin();
    if let Some(number) = settings.signal {
        signal::install(number);
    }
    if record::wants_thread() {
        show_live();
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

/// Publishes statistics, and starts the background thread, if allowed, to go on publishing.
fn show_live() {
    let _errno = KeepErrno::new();
    if ensure_ready() == Mode::Ready {
        background::start_while_allocating();
        record::publish();
    }
}
