//! Sequences of calls of the C ABI against an oracle. The program itself runs on Quarry. Each
//! object's bytes are a function of its number, and no two objects overlap.
#![no_main]

use libc::c_void;
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;
use std::ptr::null_mut;

use quarry as _;

unsafe extern "C" {
    fn reallocarray(pointer: *mut c_void, count: usize, size: usize) -> *mut c_void;
    fn memalign(alignment: usize, size: usize) -> *mut c_void;
    fn malloc_trim(pad: usize) -> i32;
}

/// Objects by their addresses: their sizes, and the numbers that fill them.
#[derive(Default)]
struct Oracle {
    objects: BTreeMap<usize, (usize, u8)>,
    numbers: u8,
}

/// The input, as numbers.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Mostly small: the first byte is a number of bits, the others are the lowest of them.
    fn size(&mut self) -> Option<usize> {
        let bits = u32::from(self.byte()?) % 24;
        let low = usize::from(self.byte()?) | usize::from(self.byte()?) << 8;
        Some(((1 << bits) >> 1) + low % (1 << bits))
    }
}

impl Oracle {
    fn add(&mut self, pointer: *mut c_void, size: usize) {
        assert!(!pointer.is_null(), "no memory for {size} bytes");
        // SAFETY: the allocator has just returned it.
        let usable = unsafe { libc::malloc_usable_size(pointer) };
        assert!(usable >= size, "{usable} usable bytes of {size}");
        let at = pointer as usize;
        assert!(at.is_multiple_of(if size >= 16 { 16 } else { 8 }), "{pointer:?} of {size} bytes");
        let before = self.objects.range(..at + size.max(1)).next_back();
        if let Some((other, (bytes, _))) = before {
            assert!(other + (*bytes).max(1) <= at, "{pointer:?} lies in the object at {other:#x}");
        }
        self.numbers = self.numbers.wrapping_add(1);
        // SAFETY: the object has `size` bytes.
        unsafe { pointer.cast::<u8>().write_bytes(self.numbers, size) };
        self.objects.insert(at, (size, self.numbers));
    }

    /// Takes an object out, whose bytes have to be as they were written.
    fn take(&mut self, which: u8) -> Option<(*mut c_void, usize, u8)> {
        let at = *self.objects.keys().nth(usize::from(which) % self.objects.len().max(1))?;
        let (size, number) = self.objects.remove(&at)?;
        check(at as *const u8, size, number);
        Some((at as *mut c_void, size, number))
    }
}

fn check(at: *const u8, size: usize, number: u8) {
    // SAFETY: an object in use has `size` bytes, which were written.
    let bytes = unsafe { std::slice::from_raw_parts(at, size) };
    let wrong = bytes.iter().position(|byte| *byte != number);
    assert!(wrong.is_none(), "byte {wrong:?} of {size} at {at:?} has changed");
}

/// One call; `None` at the end of the input.
fn call(oracle: &mut Oracle, input: &mut Input<'_>) -> Option<()> {
    let kind = input.byte()?;
    // SAFETY: sizes and alignments are valid, and `take` returns objects in use, only once.
    unsafe {
        match kind % 10 {
            0 | 1 => {
                let size = input.size()?;
                oracle.add(libc::malloc(size), size);
            }
            2 => {
                let size = input.size()?;
                let pointer = libc::calloc(1, size);
                check(pointer.cast(), size, 0);
                oracle.add(pointer, size);
            }
            3 => {
                let (alignment, size) = (8 << (input.byte()? % 14), input.size()?);
                let mut pointer = null_mut();
                assert_eq!(libc::posix_memalign(&mut pointer, alignment, size), 0);
                assert!((pointer as usize).is_multiple_of(alignment));
                oracle.add(pointer, size);
            }
            4 => {
                let (alignment, size) = (1 << (input.byte()? % 14), input.size()?);
                let pointer = memalign(alignment, size);
                assert!((pointer as usize).is_multiple_of(alignment));
                oracle.add(pointer, size);
            }
            5 | 6 => {
                let (which, size) = (input.byte()?, input.size()?.max(1));
                let Some((pointer, before, number)) = oracle.take(which) else { return Some(()) };
                let moved = match kind % 2 {
                    0 => libc::realloc(pointer, size),
                    _ => reallocarray(pointer, 1, size),
                };
                check(moved.cast(), before.min(size), number);
                oracle.add(moved, size);
            }
            7 => {
                let (pointer, ..) = oracle.take(input.byte()?)?;
                let address = pointer as usize;
                let other = move || libc::free(address as *mut c_void);
                std::thread::spawn(other).join().expect("it frees");
            }
            8 if kind == 8 => drop(malloc_trim(0)),
            _ => {
                let (pointer, ..) = oracle.take(input.byte()?)?;
                libc::free(pointer);
            }
        }
    }
    Some(())
}

fuzz_target!(|bytes: &[u8]| {
    let (mut oracle, mut input) = (Oracle::default(), Input(bytes));
    while oracle.objects.len() < 200 && call(&mut oracle, &mut input).is_some() {}
    while let Some((pointer, ..)) = oracle.take(0) {
        // SAFETY: it is in use.
        unsafe { libc::free(pointer) };
    }
    if bytes.first() == Some(&255) {
        quarry::Quarry::validate().expect("every invariant holds");
    }
});
