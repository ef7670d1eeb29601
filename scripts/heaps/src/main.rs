//! Nanoseconds per object, each the least of many rounds, for the allocator that is preloaded:
//! objects of 16 to 255 bytes that come, are written to, and go one by one with `malloc` and
//! `free`, or all at once.

use bumpalo::Bump;
use std::alloc::Layout;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::ptr::null_mut;
use std::time::Instant;

/// Memory that goes at once.
trait Scope {
    fn begin(&mut self);
    fn alloc(&mut self, size: usize) -> *mut u8;
    fn end(&mut self);
}

type Create = unsafe extern "C" fn(*const c_char, usize) -> *mut c_void;
type New = unsafe extern "C" fn() -> *mut c_void;
type AllocIn = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type Destroy = unsafe extern "C" fn(*mut c_void);
type Control =
    unsafe extern "C" fn(*const c_char, *mut u32, *mut usize, *mut c_void, usize) -> c_int;
type AllocX = unsafe extern "C" fn(usize, c_int) -> *mut c_void;

fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends with a NUL.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// `quarry_heap` or `mi_heap`.
struct Heap {
    make: Box<dyn Fn() -> *mut c_void>,
    alloc: AllocIn,
    destroy: Destroy,
    heap: *mut c_void,
}

impl Scope for Heap {
    fn begin(&mut self) {
        self.heap = (self.make)();
    }

    fn alloc(&mut self, size: usize) -> *mut u8 {
        // SAFETY: the heap was just made.
        unsafe { (self.alloc)(self.heap, size).cast() }
    }

    fn end(&mut self) {
        // SAFETY: no object is used any more.
        unsafe { (self.destroy)(self.heap) };
    }
}

/// An arena of jemalloc, without the caches of threads, as one that is destroyed must be.
struct Arena {
    control: Control,
    alloc: AllocX,
    flags: c_int,
    number: u32,
}

impl Scope for Arena {
    fn begin(&mut self) {
        let mut length = size_of::<u32>();
        let (name, number) = (c"arenas.create".as_ptr(), &raw mut self.number);
        // SAFETY: the control writes the number of a new arena.
        let failed = unsafe { (self.control)(name, number, &raw mut length, null_mut(), 0) };
        assert_eq!(failed, 0, "an arena");
        const NO_CACHE: c_int = 1 << 8;
        self.flags = ((self.number as c_int + 1) << 20) | NO_CACHE;
    }

    fn alloc(&mut self, size: usize) -> *mut u8 {
        // SAFETY: the arena was just made.
        unsafe { (self.alloc)(size, self.flags).cast() }
    }

    fn end(&mut self) {
        let name = format!("arena.{}.destroy\0", self.number);
        // SAFETY: no object is used any more.
        unsafe { (self.control)(name.as_ptr().cast(), null_mut(), null_mut(), null_mut(), 0) };
    }
}

struct Bumps(Option<Bump>);

impl Scope for Bumps {
    fn begin(&mut self) {
        self.0 = Some(Bump::new());
    }

    fn alloc(&mut self, size: usize) -> *mut u8 {
        let layout = Layout::from_size_align(size, 16).expect("small");
        self.0.as_ref().map_or(null_mut(), |bump| bump.alloc_layout(layout).as_ptr())
    }

    fn end(&mut self) {
        self.0 = None;
    }
}

fn scopes() -> Vec<(&'static str, Box<dyn Scope>)> {
    let mut found: Vec<(&str, Box<dyn Scope>)> = vec![("bumpalo", Box::new(Bumps(None)))];
    // SAFETY: each symbol has the type that its library declares.
    unsafe {
        if let [Some(create), Some(alloc), Some(destroy)] =
            [c"quarry_heap_create", c"quarry_heap_malloc", c"quarry_heap_destroy"].map(symbol)
        {
            let create: Create = transmute(create);
            let make = Box::new(move || create(c"scope".as_ptr(), 0));
            let (alloc, destroy) = (transmute(alloc), transmute(destroy));
            found.push(("heap", Box::new(Heap { make, alloc, destroy, heap: null_mut() })));
        } else if let [Some(new), Some(alloc), Some(destroy)] =
            [c"mi_heap_new", c"mi_heap_malloc", c"mi_heap_destroy"].map(symbol)
        {
            let new: New = transmute(new);
            let make = Box::new(move || new());
            let (alloc, destroy) = (transmute(alloc), transmute(destroy));
            found.push(("heap", Box::new(Heap { make, alloc, destroy, heap: null_mut() })));
        } else if let [Some(control), Some(alloc)] = [c"mallctl", c"mallocx"].map(symbol) {
            let (control, alloc) = (transmute(control), transmute(alloc));
            found.push(("arena", Box::new(Arena { control, alloc, flags: 0, number: 0 })));
        }
    }
    found
}

fn sizes() -> impl Iterator<Item = usize> {
    let mut seed = 1u32;
    std::iter::from_fn(move || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some(16 + (seed >> 8) as usize % 240)
    })
}

fn write(object: *mut u8) -> *mut u8 {
    assert!(!object.is_null(), "there is memory");
    // SAFETY: objects have at least 16 bytes.
    unsafe { object.write_volatile(1) };
    object
}

fn least(objects: usize, mut round: impl FnMut()) -> f64 {
    let rounds = (2_000_000 / objects).clamp(20, 2000);
    let times = (0..rounds).map(|_| {
        let start = Instant::now();
        round();
        start.elapsed().as_nanos() as f64
    });
    times.fold(f64::MAX, f64::min) / objects as f64
}

fn main() {
    for objects in [100, 2000, 200_000] {
        let mut all = Vec::with_capacity(objects);
        let by_free = least(objects, || {
            // SAFETY: each object is freed once.
            unsafe {
                all.extend(sizes().take(objects).map(|size| write(libc::malloc(size).cast())));
                all.drain(..).for_each(|object: *mut u8| libc::free(object.cast()));
            }
        });
        println!("{objects} malloc {by_free:.2}");
        for (name, mut scope) in scopes() {
            let at_once = least(objects, || {
                scope.begin();
                for size in sizes().take(objects) {
                    write(scope.alloc(size));
                }
                scope.end();
            });
            println!("{objects} {name} {at_once:.2} {:.3}", at_once / by_free);
        }
    }
}
