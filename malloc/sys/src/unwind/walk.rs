//! Walks up the thread's stack from frame to frame.

use super::rule::{Base, Rule, Rules, Saved};
use super::stack::Stack;
use super::tables;

/// The way in which the unwinder finds callers on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwinder {
    /// By the tables for exceptions, and by frame pointers where code has none.
    Tables,
    /// By frame pointers alone: without glibc 2.35 or newer, or not on x86-64.
    FramePointers,
}

static RULES: Rules = Rules::new();

/// Returns how the unwinder finds callers. Clears its cache, which may have rules of unloaded code.
pub fn unwinder() -> Unwinder {
    RULES.clear();
    if tables::are_known() { Unwinder::Tables } else { Unwinder::FramePointers }
}

/// The registers from which the caller's registers are computed.
#[derive(Clone, Copy)]
struct Registers {
    code: usize,
    stack: usize,
    frame: usize,
    /// True if `code` is a return address: then the call is the instruction before it.
    is_return: bool,
}

/// The offsets of rbp, rsp and rip in the `ucontext_t` of x86-64 (Linux,
/// `arch/x86/include/uapi/asm/sigcontext.h`).
const SAVED_FRAME: usize = 120;
const SAVED_STACK: usize = 160;
const SAVED_CODE: usize = 168;

impl Registers {
    /// Returns the registers of the function into which this is inlined; zeros without assembler.
    #[inline(always)]
    fn here() -> Self {
        let (code, stack, frame);
        // SAFETY: reads three registers.
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        unsafe {
            core::arch::asm!(
                "lea {}, [rip]", "mov {}, rsp", "mov {}, rbp",
                out(reg) code, out(reg) stack, out(reg) frame,
                options(nostack, nomem, preserves_flags)
            );
        }
        // SAFETY: as above.
        #[cfg(all(target_arch = "aarch64", not(miri)))]
        unsafe {
            core::arch::asm!(
                "adr {}, .", "mov {}, sp", "mov {}, x29",
                out(reg) code, out(reg) stack, out(reg) frame,
                options(nostack, nomem, preserves_flags)
            );
        }
        #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
        {
            (code, stack, frame) = (0, 0, 0);
        }
        Self { code, stack, frame, is_return: false }
    }

    /// Returns the registers of the caller; `None` if there is none, or it cannot be found.
    fn caller(self, stack: &mut Stack) -> Option<Self> {
        let code = self.code - usize::from(self.is_return);
        let rule = RULES.find(code).unwrap_or_else(|| {
            let rule = tables::rule(code);
            RULES.keep(code, rule);
            rule
        });
        let by = |register: usize| register.wrapping_add_signed(rule.offset as isize);
        let next = match rule.base {
            Base::Outermost => return None,
            Base::Unknown => return self.caller_by_frame_pointer(stack),
            Base::Signal => return self.interrupted(stack),
            Base::Stack => by(self.stack),
            Base::Frame => by(self.frame),
            Base::AtFrame => stack.word(by(self.frame))?,
        };
        self.caller_by_rule(rule, next, stack)
    }

    fn caller_by_rule(self, rule: Rule, next: usize, stack: &mut Stack) -> Option<Self> {
        // Each caller's frame must be higher on the stack, or the trace could loop.
        if next <= self.stack {
            return None;
        }
        let code = stack.word(next.checked_sub(8)?)?;
        let at = |address: usize, offset: i16| address.wrapping_add_signed(offset.into());
        let frame = match rule.saved {
            Saved::Same => self.frame,
            Saved::At(offset) => stack.word(at(next, offset))?,
            Saved::AtFrame(offset) => stack.word(at(self.frame, offset))?,
        };
        Self { code, stack: next, frame, is_return: true }.at_some_code(stack)
    }

    /// The caller of a function that saves the frame pointer and then points it at the saved one.
    fn caller_by_frame_pointer(self, stack: &mut Stack) -> Option<Self> {
        let (frame, code) = (stack.word(self.frame)?, stack.word(self.frame + 8)?);
        let next = self.frame.checked_add(16)?;
        Self { code, stack: next, frame, is_return: true }.at_some_code(stack)
    }

    /// The code that a signal has interrupted. When a handler returns, it runs code that calls the
    /// kernel; there the stack pointer points to the registers that the kernel has saved.
    fn interrupted(self, stack: &mut Stack) -> Option<Self> {
        let [frame, pointer, code] =
            [SAVED_FRAME, SAVED_STACK, SAVED_CODE].map(|at| stack.word(self.stack + at));
        let next = Self { code: code?, stack: pointer?, frame: frame?, is_return: false };
        next.at_some_code(stack)
    }

    fn at_some_code(self, stack: &mut Stack) -> Option<Self> {
        (self.code > 0x1000 && stack.go_to(self.stack)).then_some(self)
    }
}

/// Writes the addresses of the running code and its callers into `frames`, the callee first, and
/// returns how many. They are return addresses, except the first and those of code interrupted by a
/// signal. O(frames). Makes a system call for each page of stack. A code address without a
/// cached rule takes microseconds.
#[inline(never)]
pub fn trace(frames: &mut [u64]) -> usize {
    let mut registers = Registers::here();
    if registers.stack == 0 {
        return 0;
    }
    // SAFETY: the stack pointer of this function.
    let mut stack = unsafe { Stack::of(registers.stack) };
    let mut count = 0;
    while let Some(place) = frames.get_mut(count) {
        *place = registers.code as u64;
        count += 1;
        match registers.caller(&mut stack) {
            Some(caller) => registers = caller,
            None => break,
        }
    }
    count
}

#[cfg(all(test, target_env = "gnu", not(any(miri, quarry_model, quarry_sim))))]
mod tests {
    use super::*;

    fn traced() -> Vec<u64> {
        let mut frames = [0; 64];
        let count = trace(&mut frames);
        frames[..count].to_vec()
    }

    #[inline(never)]
    fn deeper(depth: usize) -> Vec<u64> {
        let ballast = core::hint::black_box([depth; 50]);
        let mut found = if depth == 0 { traced() } else { deeper(depth - 1) };
        found.truncate(60 + ballast[0] % 2);
        found
    }

    #[test]
    fn callers_are_found_up_to_the_start_of_the_thread() {
        let frames = std::thread::spawn(|| [deeper(0), deeper(10), deeper(10)]);
        let [short, long, again] = frames.join().expect("the thread does not panic");
        assert_eq!(long.len(), short.len() + 10, "{short:x?} {long:x?}");
        assert!(short.len() > 5, "{short:x?}");
        // The closure's two calls of the same depth differ in its own frame, the outermost of ours.
        let differs = |at: &usize| long[*at] != again[*at];
        let closure = (0..long.len()).rfind(differs).expect("a place of its own for each call");
        let start = &long[closure + 1..];
        assert!(start.len() >= 2, "{long:x?} {again:x?}");
        assert!(short.ends_with(start), "the same thread's start: {short:x?} {long:x?}");
        assert_eq!(long[..12], again[..12], "rules that are kept lead the same way");
    }

    #[test]
    fn a_signal_is_traced_through() {
        use crate::primitive::{AtomicUsize, Ordering};
        static FOUND: AtomicUsize = AtomicUsize::new(0);
        extern "C" fn handler(_: libc::c_int) {
            let mut frames = [0; 64];
            FOUND.store(trace(&mut frames), Ordering::Relaxed);
        }
        // SAFETY: the handler only uses its own stack and an atomic; no other code uses the signal.
        unsafe {
            libc::signal(libc::SIGUSR2, handler as *const () as libc::sighandler_t);
            libc::raise(libc::SIGUSR2);
        }
        let outside = traced().len();
        let inside = FOUND.load(Ordering::Relaxed);
        assert!(inside > outside, "{inside} frames in the handler, {outside} outside");
    }

    #[test]
    fn registers_that_point_nowhere_lead_nowhere() {
        let here = Registers::here();
        // SAFETY: the stack pointer of this function.
        let mut stack = unsafe { Stack::of(here.stack) };
        for frame in [0, 1, 8, here.stack - 64, usize::MAX - 7, usize::MAX, 1 << 46, 0x1000] {
            let lost = Registers { frame, code: 0x5000, ..here };
            assert!(lost.caller(&mut stack).is_none(), "{frame:#x}");
        }
    }
}
