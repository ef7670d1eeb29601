//! The kind of an access that faulted, from the context of its signal.

use core::ffi::c_void;

/// Returns whether the access that a signal reports was a write; `None` if the system leaves that
/// open.
///
/// On x86-64 it is bit 1 of the error code of a page fault (Intel SDM volume 3, section 4.7). On
/// aarch64 the kernel appends the exception's syndrome to the context; an emulator may not.
///
/// # Safety
/// The kernel passed `context` to a signal handler.
#[inline]
pub unsafe fn is_write(context: *const c_void) -> Option<bool> {
    #[cfg(target_arch = "x86_64")]
    {
        let context = context.cast::<libc::ucontext_t>();
        // SAFETY: the caller's promise.
        Some(unsafe { (*context).uc_mcontext.gregs[libc::REG_ERR as usize] } & 2 != 0)
    }
    #[cfg(target_arch = "aarch64")]
    {
        // The field that libc keeps private is the last one.
        const BEFORE: usize = core::mem::offset_of!(libc::ucontext_t, uc_mcontext)
            + size_of::<libc::mcontext_t>()
            - records::BYTES;
        // SAFETY: the caller's promise: the kernel makes room for the whole context.
        let all = unsafe { &*context.byte_add(BEFORE).cast::<[u8; records::BYTES]>() };
        records::is_write(records::syndrome(all)?)
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = context;
        None
    }
}

/// The records at the end of a signal's context on aarch64 (Linux 6.12,
/// `arch/arm64/include/uapi/asm/sigcontext.h`): each begins with a number of its kind and its size,
/// 32 bits each. A record of size 0 ends them.
#[cfg(any(test, target_arch = "aarch64"))]
mod records {
    /// The size of `__reserved`.
    #[cfg(target_arch = "aarch64")]
    pub(super) const BYTES: usize = 4096;
    /// `ESR_MAGIC`: the record of the syndrome, 64 bits.
    const SYNDROME: u32 = 0x4553_5201;
    const HEAD: usize = 8;

    /// The syndrome (register ESR) of the exception that led to a signal, if there is its record.
    pub(super) fn syndrome(mut records: &[u8]) -> Option<u64> {
        loop {
            let kind = u32::from_ne_bytes(*records.first_chunk()?);
            let size = u32::from_ne_bytes(*records.get(4..)?.first_chunk()?) as usize;
            let record = records.get(HEAD..size)?;
            if kind == SYNDROME {
                return record.first_chunk().copied().map(u64::from_ne_bytes);
            }
            records = &records[size..];
        }
    }

    /// Returns whether an exception was a write; `None` for those that are no data aborts. As the
    /// kernel's `is_write_abort`, it takes maintenance of caches for a read. (Arm ARM, fields EC,
    /// CM and WnR of ESR_EL1.)
    pub(super) fn is_write(syndrome: u64) -> Option<bool> {
        let is_data_abort = matches!(syndrome >> 26 & 0x3f, 0x24 | 0x25);
        let (is_maintenance, writes) = (syndrome >> 8 & 1 != 0, syndrome >> 6 & 1 != 0);
        is_data_abort.then_some(writes && !is_maintenance)
    }
}

#[cfg(test)]
mod tests {
    use super::records::{is_write, syndrome};

    /// A record of Linux: `struct fpsimd_context` has 528 bytes.
    const FPSIMD: (u32, u32) = (0x4650_8001, 528);
    const ESR: (u32, u32) = (0x4553_5201, 16);
    const END: (u32, u32) = (0, 0);
    /// Of a store to a page without access: EC 0x24, a 32-bit instruction, WnR, a level 3 fault.
    const OF_STORE: u64 = 0x9200_004f;
    const OF_LOAD: u64 = 0x9200_000f;

    /// Records with these heads, each filled with the syndrome, in an area of `bytes` bytes whose
    /// rest is zero, as the kernel leaves it.
    fn area(heads: &[(u32, u32)], content: u64, bytes: usize) -> Vec<u8> {
        let mut area = Vec::new();
        for (kind, size) in heads {
            let end = area.len() + *size as usize;
            area.extend(kind.to_ne_bytes());
            area.extend(size.to_ne_bytes());
            while area.len() < end {
                area.extend(content.to_ne_bytes());
            }
        }
        area.resize(bytes, 0);
        area
    }

    #[test]
    fn the_syndrome_is_found_after_other_records() {
        for heads in [&[FPSIMD, ESR, END][..], &[ESR], &[FPSIMD, ESR, (0x5356_4501, 32), END]] {
            assert_eq!(syndrome(&area(heads, OF_STORE, 4096)), Some(OF_STORE), "{heads:x?}");
        }
    }

    #[test]
    fn an_absent_or_broken_record_is_no_syndrome() {
        for heads in [&[END][..], &[FPSIMD, END], &[END, ESR], &[(1, 7), ESR], &[(1, 0), ESR]] {
            assert_eq!(syndrome(&area(heads, OF_STORE, 4096)), None, "{heads:x?}");
        }
        // Sizes that reach beyond the area, or are too short for what the record holds.
        for size in [0, 7, 8, 15, 4096, 4097, u32::MAX] {
            let mut whole = area(&[FPSIMD, ESR], OF_STORE, 600);
            whole[532..536].copy_from_slice(&size.to_ne_bytes());
            assert_eq!(syndrome(&whole), None, "{size}");
        }
        // An area that ends in the middle of a record.
        let whole = area(&[FPSIMD, ESR], OF_STORE, 544);
        assert_eq!(syndrome(&whole), Some(OF_STORE));
        for bytes in 0..544 {
            assert_eq!(syndrome(&whole[..bytes]), None, "{bytes}");
        }
    }

    #[test]
    fn only_data_aborts_say_whether_they_wrote() {
        assert_eq!(is_write(OF_STORE), Some(true));
        assert_eq!(is_write(OF_LOAD), Some(false));
        // Of the kernel's own accesses, EC 0x25.
        assert_eq!(is_write(OF_STORE | 1 << 26), Some(true));
        // Maintenance of caches sets WnR, too.
        assert_eq!(is_write(OF_STORE | 1 << 8), Some(false));
        // An instruction abort, and no syndrome at all.
        assert_eq!(is_write(0x8200_004f), None);
        assert_eq!(is_write(0), None);
    }
}
