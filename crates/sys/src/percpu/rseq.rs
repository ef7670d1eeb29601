//! Restartable sequences on x86-64: the object fast path.
//!
//! glibc registers one `struct rseq` per thread (2.35 and later) and says where it lies by
//! `__rseq_offset`; we store to its `rseq_cs` field only. The slot is chosen by `mm_cid` where the
//! kernel keeps it (Linux 6.3, AT_RSEQ_FEATURE_SIZE >= 28), else by `cpu_id`. A negative `cpu_id`
//! (a thread without registration) is rejected inside the sequence.
//!
//! Shape of every sequence, `t` = the slot's address:
//!
//! ```text
//! 2: rseq_cs = descriptor        ; from here the kernel sends an interrupted thread to 88
//! 3: t = slots + (cid << 17)     ; the sequence proper begins
//!    if cpu_id < 0, or the bounds refuse: leave
//!    ...                         ; loads, and stores to memory that nobody reads yet
//!    [t + cell] = new word       ; the committing store
//! 5:                             ; past the end: it has happened
//! 88: jmp 2b                     ; abort handler, behind the signature that glibc registered
//! ```
//!
//! Bounds are loaded before the header: see `SlotArea::open`.

use super::locked::{ChooseSlot, Stripes, ThreadStripe};
use super::slot::{CELL_SHIFT, STOPPED, STOPPED_LIST};
use super::{ArrayId, Object, PerCpu, Push, SlotArea, SlotIndex};
use crate::lock::CountedLock;
use crate::os::{Os, OsResult};
use crate::primitive::{AtomicBool, AtomicIsize, Ordering, relax};
use core::arch::{asm, global_asm};
use core::mem::MaybeUninit;

// A stand-in for `struct rseq` that no kernel knows: cpu_id (offset 4) is -1, so that sequences of
// a process without rseq refuse without a branch of their own. The symbol is read through
// @GOTTPOFF because `thread_local!` in a shared object calls __tls_get_addr, which may allocate.
global_asm!(
    ".pushsection .tdata.quarry_no_rseq, \"awT\", @progbits",
    ".balign 32",
    ".hidden quarry_no_rseq",
    ".globl quarry_no_rseq",
    "quarry_no_rseq:",
    ".long 0, -1",
    ".quad 0, 0, 0",
    ".popsection",
);

/// Offsets of fields of `struct rseq`, `include/uapi/linux/rseq.h`, Linux 6.3.
const CPU_ID: isize = 4;
const MM_CID: isize = 24;
/// `AT_RSEQ_FEATURE_SIZE`, `include/uapi/linux/auxvec.h`, Linux 6.3.
const AT_RSEQ_FEATURE_SIZE: u64 = 27;
/// The smallest feature size that includes `mm_cid`.
const FEATURE_SIZE_MM_CID: u64 = 28;

/// Commands of membarrier(2), `include/uapi/linux/membarrier.h`, Linux 5.10.
const MEMBARRIER_PRIVATE_EXPEDITED_RSEQ: i32 = 1 << 7;
const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED_RSEQ: i32 = 1 << 8;

/// Slots of CPUs, driven by restartable sequences, followed by locked stripes for threads that
/// cannot run them.
pub struct RseqSlots {
    area: SlotArea,
    /// Offset of the thread's `struct rseq` from the thread pointer.
    rseq: AtomicIsize,
    /// Offset of the field that numbers the slot.
    index: AtomicIsize,
    /// Whether the process runs sequences at all.
    active: AtomicBool,
    stripes: Stripes,
    once: CountedLock<bool>,
}

/// `__rseq_offset` where glibc defines it and has registered this process.
fn glibc_rseq_offset() -> Option<isize> {
    let (offset, size): (*const isize, *const u32);
    // SAFETY: weak references read through the GOT: null where the symbol is absent. A strong one
    // would keep the library from loading on older glibc and on musl.
    unsafe {
        asm!(
            ".weak __rseq_offset",
            ".weak __rseq_size",
            "mov {0}, qword ptr [rip + __rseq_offset@GOTPCREL]",
            "mov {1}, qword ptr [rip + __rseq_size@GOTPCREL]",
            out(reg) offset, out(reg) size, options(nostack, preserves_flags, readonly, pure)
        );
    }
    if offset.is_null() || size.is_null() {
        return None;
    }
    // SAFETY: glibc defines them as const ptrdiff_t and const unsigned int.
    let (offset, size) = unsafe { (offset.read(), size.read()) };
    (size != 0).then_some(offset)
}

fn stand_in_offset() -> isize {
    let offset: isize;
    // SAFETY: loads the initial-exec TLS offset of our own symbol from the GOT.
    unsafe {
        asm!("mov {}, qword ptr [rip + quarry_no_rseq@GOTTPOFF]", out(reg) offset,
            options(nostack, preserves_flags, readonly, pure));
    }
    offset
}

fn membarrier(command: i32) -> bool {
    // SAFETY: membarrier reads no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Descriptor and abort handler shared by all sequences (labels 2, 3, 5 are the caller's).
macro_rules! descriptor {
    () => {
        concat!(
            ".pushsection __rseq_cs, \"aw\"\n",
            ".balign 32\n",
            "77: .long 0, 0\n",
            ".quad 3b, 5b-3b, 88f\n",
            ".popsection\n",
            ".pushsection .text.quarry_rseq_abort, \"ax\"\n",
            // ud1 with the signature as its operand, so that disassemblers stay in step.
            ".byte 0x0f, 0xb9, 0x3d\n",
            ".long 0x53053053\n",
            "88: jmp 2b\n",
            ".popsection"
        )
    };
}

/// Opens a sequence: arms the descriptor, finds the slot's address in `t`, or leaves to 6.
macro_rules! enter {
    () => {
        concat!(
            "2:\n",
            "lea {t}, [rip + 77f]\n",
            "mov qword ptr fs:[{rseq} + 8], {t}\n",
            "3:\n",
            "cmp dword ptr fs:[{rseq} + 4], 0\n",
            "jl 6f\n",
            "mov {t:e}, dword ptr fs:[{index}]\n",
            "shl {t}, 17\n",
            "add {t}, {slots}"
        )
    };
}

impl RseqSlots {
    #[inline(always)]
    fn registers(&self) -> (isize, isize, usize) {
        (
            self.rseq.load(Ordering::Relaxed),
            self.index.load(Ordering::Relaxed),
            self.area.base.load(Ordering::Relaxed),
        )
    }

    #[inline(always)]
    fn sequence_pop(&self, array: ArrayId) -> Option<Object> {
        let (rseq, index, slots) = self.registers();
        let object: *mut u8;
        // SAFETY: `rseq` is the offset of this thread's registered struct rseq or of the stand-in
        // (init ran before any caller could know an ArrayId). The slot is inside the area because
        // mm_cid and cpu_id are below the number of possible CPUs. All stores but the last go to
        // registers; the last commits `top - 1` and one more operation.
        unsafe {
            asm!(
                enter!(),
                "movzx {o:e}, word ptr [{t} + {cell} + 8]",
                "mov {h}, qword ptr [{t} + {cell}]",
                "movzx {r:e}, {h:x}",
                "cmp {r:e}, {o:e}",
                "jbe 6f",
                "mov {r}, qword ptr [{t} + {r}*8 - 8]",
                "add {h}, 0xffff",
                "mov qword ptr [{t} + {cell}], {h}",
                "5:",
                "jmp 7f",
                "6: xor {r:e}, {r:e}",
                "7:",
                descriptor!(),
                t = out(reg) _, h = out(reg) _, o = out(reg) _, r = out(reg) object,
                rseq = in(reg) rseq, index = in(reg) index, slots = in(reg) slots,
                cell = in(reg) array.index() << CELL_SHIFT,
                options(nostack)
            );
        }
        Object::new(object)
    }

    #[inline(always)]
    fn sequence_push(&self, array: ArrayId, object: Object) -> Push {
        let (rseq, index, slots) = self.registers();
        let result: u64;
        // SAFETY: as for `sequence_pop`; the store into the array lies at `top < end`, above what
        // any reader considers, and the committing store publishes it. `[top - 1]` is an element
        // or the guard word in front of the array.
        unsafe {
            asm!(
                enter!(),
                "movzx {o:e}, word ptr [{t} + {cell} + 10]",
                "mov {h}, qword ptr [{t} + {cell}]",
                "movzx {r:e}, {h:x}",
                "cmp {r:e}, {o:e}",
                "jae 6f",
                "cmp {object}, qword ptr [{t} + {r}*8 - 8]",
                "je 8f",
                "mov qword ptr [{t} + {r}*8], {object}",
                "add {h}, 0x10001",
                "mov qword ptr [{t} + {cell}], {h}",
                "5:",
                "xor {r:e}, {r:e}",
                "jmp 7f",
                "6: mov {r:e}, 1",
                "jmp 7f",
                "8: mov {r:e}, 2",
                "7:",
                descriptor!(),
                t = out(reg) _, h = out(reg) _, o = out(reg) _, r = out(reg) result,
                rseq = in(reg) rseq, index = in(reg) index, slots = in(reg) slots,
                cell = in(reg) array.index() << CELL_SHIFT, object = in(reg) object.as_ptr(),
                options(nostack)
            );
        }
        match result {
            0 => Push::Stored,
            1 => Push::Refused,
            _ => Push::Duplicate,
        }
    }

    fn sequence_pop_batch(&self, array: ArrayId, out: &mut [MaybeUninit<Object>]) -> bool {
        let (rseq, index, slots) = self.registers();
        let done: u64;
        // SAFETY: as for `sequence_pop`; the copy reads `[top - n, top)` of the array and writes
        // the caller's buffer, which is overwritten by the next attempt if this one aborts.
        unsafe {
            asm!(
                enter!(),
                "movzx {o:e}, word ptr [{t} + {cell} + 8]",
                "mov {h}, qword ptr [{t} + {cell}]",
                "movzx {r:e}, {h:x}",
                "add {o:e}, {n:e}",
                "cmp {r:e}, {o:e}",
                "jb 6f",
                "sub {r:e}, {n:e}",
                "lea {r}, [{t} + {r}*8]",
                "xor {o:e}, {o:e}",
                "9:",
                "mov {x}, qword ptr [{r} + {o}*8]",
                "mov qword ptr [{buffer} + {o}*8], {x}",
                "inc {o:e}",
                "cmp {o:e}, {n:e}",
                "jb 9b",
                "sub {h}, {n}",
                "mov qword ptr [{t} + {cell}], {h}",
                "5:",
                "mov {r:e}, 1",
                "jmp 7f",
                "6: xor {r:e}, {r:e}",
                "7:",
                descriptor!(),
                t = out(reg) _, h = out(reg) _, o = out(reg) _, x = out(reg) _, r = out(reg) done,
                rseq = in(reg) rseq, index = in(reg) index, slots = in(reg) slots,
                cell = in(reg) array.index() << CELL_SHIFT,
                n = in(reg) out.len(), buffer = in(reg) out.as_mut_ptr(),
                options(nostack)
            );
        }
        done != 0
    }

    fn sequence_push_batch(&self, array: ArrayId, objects: &[Object]) -> bool {
        let (rseq, index, slots) = self.registers();
        let done: u64;
        // SAFETY: as for `sequence_push`; the copy writes `[top, top + n)`, which lies below `end`
        // and above what any reader considers until the committing store.
        unsafe {
            asm!(
                enter!(),
                "movzx {o:e}, word ptr [{t} + {cell} + 10]",
                "mov {h}, qword ptr [{t} + {cell}]",
                "movzx {r:e}, {h:x}",
                "sub {o}, {r}",
                "cmp {o}, {n}",
                "jl 6f",
                "lea {r}, [{t} + {r}*8]",
                "xor {o:e}, {o:e}",
                "9:",
                "mov {x}, qword ptr [{buffer} + {o}*8]",
                "mov qword ptr [{r} + {o}*8], {x}",
                "inc {o:e}",
                "cmp {o:e}, {n:e}",
                "jb 9b",
                "add {h}, {n}",
                "mov qword ptr [{t} + {cell}], {h}",
                "5:",
                "mov {r:e}, 1",
                "jmp 7f",
                "6: xor {r:e}, {r:e}",
                "7:",
                descriptor!(),
                t = out(reg) _, h = out(reg) _, o = out(reg) _, x = out(reg) _, r = out(reg) done,
                rseq = in(reg) rseq, index = in(reg) index, slots = in(reg) slots,
                cell = in(reg) array.index() << CELL_SHIFT,
                n = in(reg) objects.len(), buffer = in(reg) objects.as_ptr(),
                options(nostack)
            );
        }
        done != 0
    }

    #[inline(always)]
    fn sequence_list_pop(&self, array: ArrayId) -> Option<Object> {
        let (rseq, index, slots) = self.registers();
        let object: *mut u8;
        // SAFETY: as for `sequence_pop`; the head's link is read inside the sequence, so nobody on
        // this CPU has taken the object since. The count in word2 may include aborted attempts.
        unsafe {
            asm!(
                enter!(),
                "cmp qword ptr [{t} + {cell} + 8], -1",
                "je 6f",
                "mov {h}, qword ptr [{t} + {cell}]",
                "mov {r}, {h}",
                "shr {r}, 20",
                "jz 6f",
                "shl {r}, 4",
                "and {h:e}, 0xfffff",
                "dec {h:e}",
                "mov {o}, qword ptr [{r}]",
                "shl {o}, 16",
                "or {h}, {o}",
                "inc qword ptr [{t} + {cell} + 16]",
                "mov qword ptr [{t} + {cell}], {h}",
                "5:",
                "jmp 7f",
                "6: xor {r:e}, {r:e}",
                "7:",
                descriptor!(),
                t = out(reg) _, h = out(reg) _, o = out(reg) _, r = out(reg) object,
                rseq = in(reg) rseq, index = in(reg) index, slots = in(reg) slots,
                cell = in(reg) array.index() << CELL_SHIFT,
                options(nostack)
            );
        }
        Object::new(object)
    }

    #[inline(always)]
    fn sequence_list_push(&self, array: ArrayId, guard: u64, object: Object) -> Push {
        let (rseq, index, slots) = self.registers();
        let result: u64;
        // SAFETY: as for `sequence_push`; the link is stored into the caller's own object.
        unsafe {
            asm!(
                enter!(),
                "cmp {guard}, qword ptr [{t} + {cell} + 8]",
                "jne 6f",
                "mov {h}, qword ptr [{t} + {cell}]",
                "mov {r}, {h}",
                "shr {r}, 20",
                "shl {r}, 4",
                "cmp {r}, {object}",
                "je 8f",
                "mov qword ptr [{object}], {r}",
                "and {h:e}, 0xfffff",
                "inc {h:e}",
                "mov {r}, {object}",
                "shl {r}, 16",
                "or {h}, {r}",
                "inc qword ptr [{t} + {cell} + 24]",
                "mov qword ptr [{t} + {cell}], {h}",
                "5:",
                "xor {r:e}, {r:e}",
                "jmp 7f",
                "6: mov {r:e}, 1",
                "jmp 7f",
                "8: mov {r:e}, 2",
                "7:",
                descriptor!(),
                t = out(reg) _, h = out(reg) _, r = out(reg) result,
                rseq = in(reg) rseq, index = in(reg) index, slots = in(reg) slots,
                cell = in(reg) array.index() << CELL_SHIFT,
                guard = in(reg) guard, object = in(reg) object.as_ptr(),
                options(nostack)
            );
        }
        match result {
            0 => Push::Stored,
            1 => Push::Refused,
            _ => Push::Duplicate,
        }
    }

    fn sequence_compare_store(
        &self,
        slot: SlotIndex,
        array: ArrayId,
        word: usize,
        expected: u64,
        new: u64,
    ) -> bool {
        let (rseq, index, slots) = self.registers();
        let done: u64;
        // SAFETY: as for `sequence_pop`; the slot's address is compared with the wanted one.
        unsafe {
            asm!(
                enter!(),
                "cmp {t}, {wanted}",
                "jne 6f",
                "cmp {expected}, qword ptr [{t} + {cell}]",
                "jne 6f",
                "mov qword ptr [{t} + {cell}], {new}",
                "5:",
                "mov {t:e}, 1",
                "jmp 7f",
                "6: xor {t:e}, {t:e}",
                "7:",
                descriptor!(),
                t = out(reg) done,
                rseq = in(reg) rseq, index = in(reg) index, slots = in(reg) slots,
                cell = in(reg) (array.index() << CELL_SHIFT) + word * 8,
                wanted = in(reg) slots + (slot.index() << super::slot::SLOT_SHIFT),
                expected = in(reg) expected, new = in(reg) new,
                options(nostack)
            );
        }
        done != 0
    }

    /// Whether the running thread can run sequences now.
    fn registered(&self) -> bool {
        self.field(self.rseq.load(Ordering::Relaxed) + CPU_ID) >= 0
    }

    fn field(&self, offset: isize) -> i32 {
        let value: i32;
        // SAFETY: both offsets lie inside the thread's struct rseq (32 bytes registered) or the
        // stand-in (32 bytes).
        unsafe {
            asm!("mov {0:e}, dword ptr fs:[{1}]", out(reg) value, in(reg) offset,
                options(nostack, preserves_flags, readonly));
        }
        value
    }

    fn cpu_slots(&self) -> impl Iterator<Item = SlotIndex> {
        (0..self.stripes.first.load(Ordering::Relaxed)).map(SlotIndex)
    }

    /// Whether sequences are in use; false where the process lacks rseq or membarrier.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed)
    }

    fn stop(&self, slot: SlotIndex, array: ArrayId) {
        self.area.word(slot, array, 1).store(STOPPED, Ordering::Release);
    }

    /// After it no sequence that began earlier is still running.
    fn barrier(&self) {
        if self.is_active() {
            while !membarrier(MEMBARRIER_PRIVATE_EXPEDITED_RSEQ) {
                // Registered at init, so only a signal-like transient could refuse.
                relax();
            }
        }
    }
}

// SAFETY: a sequence either commits on the CPU whose slot it read or starts again, and nobody else
// writes that slot's cell meanwhile: `open` writes only cells that every sequence refuses, drains
// write only after the bounds are stopped and the barrier has flushed running sequences.
unsafe impl PerCpu for RseqSlots {
    const INERT: Self = Self {
        area: SlotArea::new(),
        rseq: AtomicIsize::new(0),
        index: AtomicIsize::new(0),
        active: AtomicBool::new(false),
        stripes: Stripes::new(),
        once: CountedLock::new(false),
    };

    fn init(&self, os: &'static dyn Os) -> OsResult<()> {
        let mut done = self.once.lock();
        if *done {
            return Ok(());
        }
        let cpus = crate::topology::cpu_number_limit();
        self.stripes.first.store(cpus, Ordering::Relaxed);
        self.stripes.count.store(ThreadStripe.slots(), Ordering::Relaxed);
        self.area.reserve(os, cpus + ThreadStripe.slots())?;
        let offset =
            glibc_rseq_offset().filter(|_| membarrier(MEMBARRIER_REGISTER_PRIVATE_EXPEDITED_RSEQ));
        let base = offset.unwrap_or_else(stand_in_offset);
        // SAFETY: getauxval has no preconditions.
        let features = unsafe { libc::getauxval(AT_RSEQ_FEATURE_SIZE) };
        let has_mm_cid = offset.is_some() && features >= FEATURE_SIZE_MM_CID;
        self.rseq.store(base, Ordering::Relaxed);
        self.index.store(base + if has_mm_cid { MM_CID } else { CPU_ID }, Ordering::Relaxed);
        self.active.store(offset.is_some(), Ordering::Release);
        *done = true;
        Ok(())
    }

    fn area(&self) -> &SlotArea {
        &self.area
    }

    #[inline]
    fn current(&self) -> SlotIndex {
        if self.registered() {
            SlotIndex(self.field(self.index.load(Ordering::Relaxed)) as u32)
        } else {
            self.stripes.current(&ThreadStripe)
        }
    }

    #[inline(always)]
    fn pop(&self, array: ArrayId) -> Option<Object> {
        self.sequence_pop(array)
    }

    #[inline(always)]
    fn push(&self, array: ArrayId, object: Object) -> Push {
        self.sequence_push(array, object)
    }

    fn pop_unregistered(&self, array: ArrayId) -> Option<Object> {
        if self.registered() { None } else { self.stripes.pop(&self.area, &ThreadStripe, array) }
    }

    fn push_unregistered(&self, array: ArrayId, object: Object) -> Push {
        if self.registered() {
            return Push::Refused;
        }
        self.stripes.push(&self.area, &ThreadStripe, array, object)
    }

    fn pop_batch(&self, array: ArrayId, out: &mut [MaybeUninit<Object>]) -> bool {
        if self.registered() {
            self.sequence_pop_batch(array, out)
        } else {
            self.stripes.pop_batch(&self.area, &ThreadStripe, array, out)
        }
    }

    fn push_batch(&self, array: ArrayId, objects: &[Object]) -> bool {
        if objects.is_empty() {
            return true;
        }
        if self.registered() {
            self.sequence_push_batch(array, objects)
        } else {
            self.stripes.push_batch(&self.area, &ThreadStripe, array, objects)
        }
    }

    #[inline(always)]
    unsafe fn list_pop(&self, array: ArrayId) -> Option<Object> {
        if let Some(object) = self.sequence_list_pop(array) {
            return Some(object);
        }
        if self.registered() {
            return None;
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { self.stripes.list_pop(&self.area, &ThreadStripe, array) }
    }

    #[inline(always)]
    unsafe fn list_push(&self, array: ArrayId, guard: u64, object: Object) -> Push {
        let push = self.sequence_list_push(array, guard, object);
        if push != Push::Refused || self.registered() {
            return push;
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { self.stripes.list_push(&self.area, &ThreadStripe, array, guard, object) }
    }

    fn compare_store(
        &self,
        slot: SlotIndex,
        array: ArrayId,
        word: usize,
        expected: u64,
        new: u64,
    ) -> bool {
        if slot.0 < self.stripes.first.load(Ordering::Relaxed) {
            self.sequence_compare_store(slot, array, word, expected, new)
        } else {
            self.stripes.compare_store(&self.area, slot, array, word, expected, new)
        }
    }

    fn prepare(&self, array: ArrayId) -> OsResult<()> {
        let slot = self.current();
        if slot.0 >= self.stripes.first.load(Ordering::Relaxed) {
            self.stripes.prepare(&self.area, slot, array);
        } else if !self.area.is_open(slot, array) {
            let bounds = self.area.bounds_lock.lock();
            self.area.open(&bounds, slot, array);
        }
        Ok(())
    }

    fn drain(&self, array: ArrayId, take: &mut dyn FnMut(&[Object])) {
        let _bounds = self.area.bounds_lock.lock();
        let open = || self.cpu_slots().filter(|slot| self.area.is_open(*slot, array));
        open().for_each(|slot| self.stop(slot, array));
        self.barrier();
        for slot in open() {
            self.area.empty_stopped(slot, array, take);
            self.area.reopen(slot, array);
        }
        self.stripes.drain(&self.area, array, take);
    }

    fn drain_lists(&self, array: ArrayId, take: &mut dyn FnMut(u64, Option<Object>, usize)) {
        let _bounds = self.area.bounds_lock.lock();
        let used = |slot: &SlotIndex| {
            (0..2).any(|word| self.area.word(*slot, array, word).load(Ordering::Relaxed) != 0)
        };
        // A `compare_store` that began before the stop may still write the guard over the mark, so
        // stop and flush until a round finds every mark in place.
        loop {
            let mut stopped_now = false;
            for slot in self.cpu_slots().filter(used) {
                let guard = self.area.word(slot, array, 1).swap(STOPPED_LIST, Ordering::AcqRel);
                if guard != STOPPED_LIST {
                    self.area.saved_guard(slot).store(guard, Ordering::Relaxed);
                    stopped_now = true;
                }
            }
            if !stopped_now {
                break;
            }
            self.barrier();
        }
        for slot in self.cpu_slots().filter(used) {
            let guard = self.area.saved_guard(slot).load(Ordering::Relaxed);
            self.area.empty_list(slot, array, guard, take);
        }
        self.stripes.drain_lists(&self.area, array, take);
    }

    fn lock_for_fork(&self) {
        self.area.bounds_lock.lock_for_fork();
        self.stripes.lock_for_fork(&self.area);
    }

    unsafe fn unlock_after_fork(&self) {
        self.stripes.unlock_after_fork(&self.area);
        // SAFETY: the caller took it by `lock_for_fork`.
        unsafe { self.area.bounds_lock.unlock_after_fork() };
    }
}
