//! The start of the process: asks the system what it may not be asked later. Where `quarry run` has
//! started a program that became another one, which Quarry does not serve, it prints a line.
//!
//! `quarry run` looks at the program that it is told to run. A script or a proxy executes another
//! program in its place, and only the library sees that one, because it is loaded into it all the
//! same.

use crate::front;
use core::ffi::CStr;
use quarry_sys::report::warn;

/// The variable that names the process that `quarry run` became. It stays the same process whatever
/// it executes, and of the many that it may start not every one need speak.
const VARIABLE: &CStr = c"QUARRYRUN_PID";

/// Runs before the program's own constructors, because the library is loaded before it.
extern "C" fn at_start() {
    quarry::process::start();
    if is_the_process_of_quarry_run()
        && let Some(owner) = front::malloc_of_another()
    {
        let mut buffer = [0; 256];
        let program = executable(&mut buffer);
        if owner.is_program {
            warn(format_args!(
                "{program} defines malloc itself, which is preferred to any other; \
                 it runs without Quarry"
            ));
        } else {
            let file = owner.file.to_str().unwrap_or("?");
            warn(format_args!("{program} has its malloc from {file}; it runs without Quarry"));
        }
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

fn is_the_process_of_quarry_run() -> bool {
    // SAFETY: the name is NUL-terminated, and the C library was initialised before this library,
    // which needs it; nobody changes the environment before main. getpid has no preconditions.
    unsafe {
        let value = libc::getenv(VARIABLE.as_ptr());
        let number = (!value.is_null()).then(|| CStr::from_ptr(value).to_str().ok()).flatten();
        let number = number.and_then(|number| number.parse().ok());
        // Only a process that has the variable asks for its number.
        number.is_some_and(|number: libc::pid_t| number == libc::getpid())
    }
}

/// The path of the program, as much as fits.
fn executable(buffer: &mut [u8; 256]) -> &str {
    let link = c"/proc/self/exe";
    // SAFETY: the path is NUL-terminated, and the buffer writable for its length.
    let length = unsafe { libc::readlink(link.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) };
    let path = usize::try_from(length).ok().and_then(|length| buffer.get(..length));
    path.and_then(|path| core::str::from_utf8(path).ok()).unwrap_or("this program")
}
