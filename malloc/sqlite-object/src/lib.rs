//! `libquarry_sqlite.so`: for programs in C, linked, opened or preloaded.

use quarry::Quarry;
use quarry_sqlite::{ConfigFn, InstallError, install};
use std::env;
use std::ffi::{c_char, c_int};
use std::mem::transmute;

const OK: c_int = 0;
const ERROR: c_int = 1;
const MISUSE: c_int = 21;

/// The object's name, as it stands in `LD_PRELOAD`.
const NAME: &str = "libquarry_sqlite";

/// Makes Quarry the page cache and the heap of the process's SQLite, which is not in use yet.
/// Returns a result code of SQLite: SQLITE_OK; SQLITE_MISUSE if SQLite is in use; SQLITE_ERROR if
/// the process has no `sqlite3_config`, or Quarry serves nothing.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_sqlite_install() -> c_int {
    let Some(config) = find_config() else { return ERROR };
    // SAFETY: the caller promises that SQLite is not in use; otherwise SQLite refuses by itself.
    match unsafe { install(config) } {
        Ok(()) => OK,
        Err(InstallError::TooLate) => MISUSE,
        Err(InstallError::Refused(code)) => code,
        Err(InstallError::Unavailable(_)) => ERROR,
    }
}

/// Sets the maximum number of bytes that SQLite's heap and all its page caches may have together,
/// instead of `QUARRY_LIMIT`. May be called at any time. Returns SQLITE_OK, or SQLITE_ERROR below 4
/// KiB or if Quarry serves nothing.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_sqlite_set_limit(bytes: u64) -> c_int {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    if Quarry::set_limit(bytes).is_ok() { OK } else { ERROR }
}

/// `sqlite3_config` of an object of the process that exports it.
fn find_config() -> Option<ConfigFn> {
    const SYMBOL: &[u8] = b"sqlite3_config\0";
    // SAFETY: the name ends with a NUL.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, SYMBOL.as_ptr().cast::<c_char>()) };
    // SAFETY: a function of this name is SQLite's, and has this type; null is `None`.
    unsafe { transmute::<*mut libc::c_void, Option<ConfigFn>>(address) }
}

/// Installs Quarry if the object is preloaded, before the program begins.
extern "C" fn at_load() {
    let is_preloaded =
        env::var_os("LD_PRELOAD").is_some_and(|names| names.to_string_lossy().contains(NAME));
    if is_preloaded {
        // No message: a program without SQLite is preloaded like any other.
        quarry_sqlite_install();
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;
