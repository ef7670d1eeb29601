//! A shared object that is preloaded into the processes of a sample, in front of the allocator. At
//! start it writes to the sample's file the path of the object in which the loader finds `malloc`.
//! At the end it writes the peak of resident memory, because the kernel's own figure for a child
//! includes the time before the child's exec. It exports nothing, so it changes nothing.
//!
//! With `cfg(counting)` it also exports malloc and related functions, which call glibc's and count
//! calls, bytes and time. Counting slows a program down, so it is used only before the comparison.
//!
//! With `cfg(recording)` it also counts the sizes and lifetimes of blocks, and with `cfg(ageing)`
//! it ages the heap before the program's `main`.
//!
//! The build script of `quarry-compare` compiles this file. It uses nothing but the C library and
//! never allocates.
#![no_std]

#[cfg(ageing)]
mod ageing;
#[cfg(counting)]
mod counting;
#[expect(dead_code, reason = "no form of the witness writes all fields")]
mod layout;
#[cfg(recording)]
mod recording;

use core::ffi::{CStr, c_char, c_int, c_long, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

#[repr(C)]
struct DlInfo {
    file: *const c_char,
    base: *mut c_void,
    symbol: *const c_char,
    address: *mut c_void,
}

#[link(name = "c")]
unsafe extern "C" {
    fn getenv(name: *const c_char) -> *const c_char;
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn close(descriptor: c_int) -> c_int;
    fn mmap(
        place: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        descriptor: c_int,
        offset: c_long,
    ) -> *mut c_void;
    fn getpid() -> c_int;
    fn read(descriptor: c_int, buffer: *mut c_void, size: usize) -> isize;
    fn readlink(path: *const c_char, buffer: *mut c_char, size: usize) -> isize;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dladdr(address: *const c_void, info: *mut DlInfo) -> c_int;
}

/// Values that Linux has on every machine that Quarry runs on.
const O_RDWR_CLOEXEC: c_int = 0o2_000_002;
const O_RDONLY_CLOEXEC: c_int = 0o2_000_000;
/// Where `dlsym` looks: in all objects, or only in those after the calling object. The caller is
/// the witness, which is the first object after the executable.
const RTLD_DEFAULT: *mut c_void = ptr::null_mut();
const RTLD_NEXT: *mut c_void = ptr::without_provenance_mut(usize::MAX);
const PROT_READ_WRITE: c_int = 3;
const MAP_SHARED: c_int = 1;

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

/// The slot of this process; null where it has none.
static SLOT: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// Runs before the program's `main`.
extern "C" fn start() {
    // SAFETY: the slot lies in the mapped file, and only this process uses it until `FLAGS` is
    // stored. The C library is initialised before this object, which needs it.
    unsafe {
        let Some(slot) = take_slot() else { return };
        write_path_of_executable(slot.add(layout::EXECUTABLE).cast());
        write_object_of(RTLD_DEFAULT, c"malloc", slot.add(layout::MALLOC).cast());
        write_object_of(RTLD_NEXT, c"malloc", slot.add(layout::NEXT_MALLOC).cast());
        slot.add(layout::PID).cast::<u32>().write(getpid() as u32);
        let has_python = !dlsym(RTLD_DEFAULT, c"PyObject_Malloc".as_ptr()).is_null();
        let flags = layout::COMPLETE | if has_python { layout::HAS_PYTHON } else { 0 };
        #[cfg(counting)]
        counting::start(slot);
        #[cfg(recording)]
        recording::start(
            getenv(layout::VARIABLE.as_ptr()),
            slot.add(layout::EXECUTABLE).cast(),
            getpid() as u32,
        );
        #[cfg(ageing)]
        ageing::start(slot);
        AtomicU32::from_ptr(slot.add(layout::FLAGS).cast()).store(flags, Ordering::Release);
        SLOT.store(slot, Ordering::Release);
    }
}

/// Runs after the program's own handlers.
extern "C" fn end() {
    let slot = SLOT.load(Ordering::Acquire);
    if slot.is_null() {
        return;
    }
    let write = |field: usize, value: u64| {
        // SAFETY: the field lies in the slot and is aligned. Forked children use it as an atomic,
        // too.
        let field = unsafe { AtomicU64::from_ptr(slot.add(field).cast()) };
        field.fetch_max(value, Ordering::Relaxed);
    };
    let mut text = [0u8; 4096];
    write(layout::PEAK_KIB, number_after(b"VmHWM:", file(c"/proc/self/status", &mut text)));
    write(layout::DELAY_NS, number_after(b" ", file(c"/proc/self/schedstat", &mut text)));
}

/// Reads the beginning of a file; nothing if that fails.
fn file<'a>(path: &CStr, text: &'a mut [u8; 4096]) -> &'a [u8] {
    // SAFETY: the path is NUL-terminated and `text` is writable for its length.
    let length = unsafe {
        let descriptor = open(path.as_ptr(), O_RDONLY_CLOEXEC);
        if descriptor < 0 {
            return &[];
        }
        let length = read(descriptor, text.as_mut_ptr().cast(), text.len());
        close(descriptor);
        length
    };
    &text[..length.max(0) as usize]
}

/// The first number after `name` in a text, else 0.
fn number_after(name: &[u8], text: &[u8]) -> u64 {
    let Some(at) = text.windows(name.len()).position(|window| window == name) else { return 0 };
    let mut digits = text[at + name.len()..].iter().skip_while(|byte| !byte.is_ascii_digit());
    let mut number = 0u64;
    while let Some(digit) = digits.next().filter(|byte| byte.is_ascii_digit()) {
        number = number * 10 + u64::from(digit - b'0');
    }
    number
}

/// A slot of the sample's file, mapped for as long as the process lives.
///
/// # Safety
/// The C library is initialised.
unsafe fn take_slot() -> Option<*mut u8> {
    // SAFETY: the strings end with a NUL, and `mmap` chooses a free place. The process that sets
    // the variable has made the file `FILE_BYTES` long, so the slot lies in the mapping.
    unsafe {
        let path = getenv(layout::VARIABLE.as_ptr());
        if path.is_null() {
            return None;
        }
        let descriptor = open(path, O_RDWR_CLOEXEC);
        if descriptor < 0 {
            return None;
        }
        let length = layout::FILE_BYTES;
        let place = mmap(ptr::null_mut(), length, PROT_READ_WRITE, MAP_SHARED, descriptor, 0);
        close(descriptor);
        if place as isize == -1 {
            return None;
        }
        let number = AtomicU32::from_ptr(place.cast()).fetch_add(1, Ordering::Relaxed) as usize;
        let offset = layout::HEADER_BYTES + number * layout::SLOT_BYTES;
        (number < layout::SLOTS).then(|| place.cast::<u8>().add(offset))
    }
}

/// # Safety
/// `field` is writable for `PATH_BYTES`, all of them zero.
unsafe fn write_path_of_executable(field: *mut c_char) {
    // SAFETY: as promised; the last byte stays zero.
    unsafe { readlink(c"/proc/self/exe".as_ptr(), field, layout::PATH_BYTES - 1) };
}

/// Writes the path of the object in which the loader finds `name` first, from `place` on.
///
/// # Safety
/// `field` is writable for `PATH_BYTES`, all of them zero.
unsafe fn write_object_of(place: *mut c_void, name: &CStr, field: *mut c_char) {
    let mut info = DlInfo {
        file: ptr::null(),
        base: ptr::null_mut(),
        symbol: ptr::null(),
        address: ptr::null_mut(),
    };
    // SAFETY: `place` is `RTLD_DEFAULT` or `RTLD_NEXT`; `info` is writable; `file` is a
    // NUL-terminated string of the loader's; the last byte of the field stays zero.
    unsafe {
        let address = dlsym(place, name.as_ptr());
        if address.is_null() || dladdr(address, &mut info) == 0 || info.file.is_null() {
            return;
        }
        for at in 0..layout::PATH_BYTES - 1 {
            let byte = *info.file.add(at);
            if byte == 0 {
                break;
            }
            *field.add(at) = byte;
        }
    }
}

/// The compiler demands a handler, though nothing here panics.
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

// The precompiled core refers to this symbol, though nothing unwinds with panic = "abort".
core::arch::global_asm!(
    ".pushsection .text.rust_eh_personality, \"ax\"",
    ".hidden rust_eh_personality",
    ".globl rust_eh_personality",
    "rust_eh_personality:",
    ".long 0",
    ".popsection",
);
