//! A program closes a shared object whose global allocator is Quarry. Handlers of `fork`, the
//! background thread and the `rseq_cs` of threads still point into the object.

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Builds the shared object of `tests/plugin`.
fn plugin() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("<target>/tmp");
    let output = Command::new(env!("CARGO"))
        .args(["build", "--package", env!("CARGO_PKG_NAME"), "--example", "plugin", "--target-dir"])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join("debug/examples/libplugin.so")
}

fn loader_error() -> String {
    // SAFETY: dlerror gives null or a NUL-terminated string that stays until its next call.
    unsafe {
        let error = libc::dlerror();
        if error.is_null() { String::new() } else { CStr::from_ptr(error).to_string_lossy().into() }
    }
}

/// An open shared object, closed when dropped.
struct Opened(*mut c_void);

impl Opened {
    fn new(path: &CStr, flags: i32) -> Option<Self> {
        // SAFETY: the path is NUL-terminated; the constructors of the object have no preconditions.
        let handle = unsafe { libc::dlopen(path.as_ptr(), flags) };
        (!handle.is_null()).then(|| Self(handle))
    }

    fn work(&self, entries: usize) -> usize {
        // SAFETY: the symbol is a function of this type, and the object is open.
        unsafe {
            let symbol = libc::dlsym(self.0, c"plugin_work".as_ptr());
            assert!(!symbol.is_null(), "{}", loader_error());
            std::mem::transmute::<*mut c_void, extern "C" fn(usize) -> usize>(symbol)(entries)
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: the handle is open and not used any more.
        assert_eq!(unsafe { libc::dlclose(self.0) }, 0, "{}", loader_error());
    }
}

fn fork_and_wait() {
    // SAFETY: the child leaves at once, by a call that may be made after fork.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above.
        unsafe { libc::_exit(0) };
    }
    let mut status = -1;
    // SAFETY: `status` is writable.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
}

/// Runs an ignored test of this file in another process.
fn run_apart(test: &str, plugin: &Path) {
    let program = std::env::current_exe().expect("the path of this program");
    let output = Command::new(program)
        .args([test, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env("TEST_PLUGIN", plugin)
        // The objects use too little memory to make their pages without this.
        .env("QUARRY_RECORD", "1")
        .output()
        .expect("this program runs");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{}\n{text}", output.status);
}

fn named_plugin() -> PathBuf {
    PathBuf::from(std::env::var_os("TEST_PLUGIN").expect("the caller names it"))
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("no NUL in it")
}

/// Each object publishes in a page of its own; the symbol has the same name in all of them.
#[test]
fn two_objects_have_a_page_each() {
    run_apart("opened_for_all", &plugin());
}

#[test]
#[ignore = "run by the test above, in a process without other objects"]
fn opened_for_all() {
    let (first, second) = (named_plugin(), named_plugin().with_file_name("libplugin2.so"));
    std::fs::copy(&first, &second).expect("the folder is writable");
    let objects = [first, second].map(|path| {
        let object = Opened::new(&c_path(&path), libc::RTLD_NOW | libc::RTLD_GLOBAL);
        object.unwrap_or_else(|| panic!("{}", loader_error()))
    });
    let pages = objects.each_ref().map(|object| {
        // SAFETY: the symbol is a word, and the object is open.
        unsafe {
            let symbol = libc::dlsym(object.0, c"quarry_record".as_ptr());
            assert!(!symbol.is_null(), "{}", loader_error());
            *symbol.cast::<usize>()
        }
    });
    assert!(pages[0] != 0 && pages[1] != 0 && pages[0] != pages[1], "{pages:x?}");
}

#[test]
fn an_object_that_is_closed_stays() {
    run_apart("opened_and_closed", &plugin());
}

#[test]
#[ignore = "run by the test above, in a process that may crash"]
fn opened_and_closed() {
    let path = c_path(&named_plugin());
    // The object was never used, so nothing points into it; it may be unloaded or not.
    drop(Opened::new(&path, libc::RTLD_NOW).unwrap_or_else(|| panic!("{}", loader_error())));
    let mut calls = 0;
    for round in 0..40 {
        let object = Opened::new(&path, libc::RTLD_NOW | libc::RTLD_LOCAL);
        let object = object.unwrap_or_else(|| panic!("{}", loader_error()));
        // Enough to start the background thread once.
        calls += 1;
        assert_eq!(object.work(if round == 0 { 60_000 } else { 300 }), calls, "the heap was kept");
        drop(object);
        fork_and_wait();
        let open = Opened::new(&path, libc::RTLD_NOW | libc::RTLD_NOLOAD);
        assert!(open.is_some(), "round {round}: the object is gone");
    }
    on_threads_that_go_on(&path, calls);
}

/// Threads that have run sequences are preempted after the object was closed.
fn on_threads_that_go_on(path: &CStr, calls: usize) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let object = Opened::new(path, libc::RTLD_NOW).expect("it is loaded");
                assert!(object.work(200) > calls);
                drop(object);
                while !done.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
            });
        }
        let forks = scope.spawn(|| (0..100).for_each(|_| fork_and_wait())).join();
        done.store(true, Ordering::Relaxed);
        forks.expect("every child ends well");
    });
}
