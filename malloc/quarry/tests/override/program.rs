//! A program in Rust whose C and C++ code is on Quarry, too: see `tests/override.rs`.

use quarry::Quarry;
use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{CStr, CString, c_char, c_int, c_void};

#[global_allocator]
static A: Quarry = Quarry;

unsafe extern "C" {
    fn c_object(size: usize) -> *mut c_void;
    fn c_release(object: *mut c_void, size: usize);
    fn cxx_string(size: usize) -> *mut c_void;
    fn cxx_release(string: *mut c_void);
    fn cxx_fails() -> c_int;
    fn strdup(text: *const c_char) -> *mut c_char;
}

fn owned(object: *mut c_void) -> bool {
    Quarry::owns(object.cast())
}

/// Each language frees what another one has allocated.
fn one_heap() {
    for size in [1, 100, 5000, 100_000, 3 << 20] {
        // SAFETY: the functions of `work.c` and `work.cpp` have these types, and each object is
        // freed once.
        unsafe {
            let (of_c, of_cxx) = (c_object(size), cxx_string(size));
            assert!(owned(of_c) && owned(of_cxx), "{size}");
            libc::free(of_c);
            cxx_release(of_cxx);
            let layout = Layout::array::<u8>(size).expect("a small layout");
            let of_rust = A.alloc(layout);
            c_release(of_rust.cast(), size);
            let of_c = c_object(size);
            A.dealloc(of_c.cast(), layout);
        }
    }
    // SAFETY: the C library's function gets a text, and its result is freed once.
    unsafe {
        let text = strdup(c"of the C library".as_ptr());
        assert!(owned(text.cast()));
        assert_eq!(CStr::from_ptr(text), c"of the C library");
        drop(CString::from_raw(text));
    }
}

/// C and C++ have the limit of the heap.
fn one_limit() {
    let used = Quarry::stats().expect("Quarry serves").budget.used;
    Quarry::set_limit(used + (8 << 20)).expect("a limit");
    // SAFETY: as above.
    unsafe {
        assert!(c_object(64 << 20).is_null(), "beyond the limit");
        assert_eq!(cxx_fails(), 7, "bad_alloc, null and bad_alloc");
    }
    Quarry::set_limit(usize::MAX).expect("no limit");
}

fn main() {
    one_heap();
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(one_heap))));
    one_limit();
    if let Some(path) = std::env::args().nth(1) {
        let path = CString::new(path).expect("no NUL in it");
        // SAFETY: the path is NUL-terminated; the object's constructors have no preconditions. The
        // function, if it has one of this name, is `c_release`.
        unsafe {
            let opened = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_DEEPBIND);
            assert!(!opened.is_null(), "{path:?} is opened");
            let release = libc::dlsym(opened, c"c_release".as_ptr());
            if !release.is_null() {
                type Release = unsafe extern "C" fn(*mut c_void, usize);
                let release = std::mem::transmute::<*mut c_void, Release>(release);
                release(c_object(100), 100);
            }
        }
    }
    Quarry::validate().expect("every invariant holds");
    println!("one heap");
}
