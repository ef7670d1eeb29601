//! Makes, at the start of the process, system calls that must not be made later. Prints a line if a
//! program that `quarry run` has started executes another one that Quarry does not serve.
//!
//! `quarry run` itself checks only the program on its command line. If this is a script or a
//! wrapper that executes another program, only the library, which is loaded into that program too,
//! can check it. Only the process that `quarry run` becomes prints the line, not its children.

use crate::abi::front;
use quarry_sys::report::warn;
use quarry_sys::system_call::checked;

/// Runs before the program's own constructors, because the library is loaded before it.
extern "C" fn at_start() {
    quarry::process::start();
    if quarry::process::is_of_quarry_run()
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

/// The path of the program, truncated to the buffer.
fn executable(buffer: &mut [u8; 256]) -> &str {
    let (link, start, bytes) = (c"/proc/self/exe".as_ptr(), buffer.as_mut_ptr(), buffer.len());
    // SAFETY: the path is NUL-terminated, and the buffer writable for its length.
    let length =
        checked(unsafe { libc::syscall(libc::SYS_readlinkat, libc::AT_FDCWD, link, start, bytes) });
    let path = length.ok().and_then(|length| buffer.get(..length));
    path.and_then(|path| core::str::from_utf8(path).ok()).unwrap_or("this program")
}
