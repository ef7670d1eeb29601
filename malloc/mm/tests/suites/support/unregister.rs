//! Threads without restartable sequences, beside threads that have them.

/// Removes the rseq registration of the calling thread, if it has one: from then on striped slots
/// serve the thread.
pub(crate) fn unregister() {
    /// Bytes that glibc has registered: `sysdeps/unix/sysv/linux/rseq-internal.h`, glibc 2.35.
    const REGISTERED_BYTES: u32 = 32;
    /// `RSEQ_FLAG_UNREGISTER`, `include/uapi/linux/rseq.h`, Linux 4.18.
    const UNREGISTER: u32 = 1;
    /// `RSEQ_SIG` of the architecture.
    const SIGNATURE: u32 = if cfg!(target_arch = "aarch64") { 0xd428_bc00 } else { 0x5305_3053 };

    // SAFETY: the name is a NUL-terminated string; where glibc defines it, it is a `ptrdiff_t`. The
    // system call gets the address that this thread registered, and touches no other memory.
    unsafe {
        let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()).cast::<isize>();
        if cfg!(not(any(target_arch = "x86_64", target_arch = "aarch64"))) || offset.is_null() {
            return;
        }
        let registration =
            quarry_sys::primitive::task::current().wrapping_add_signed(offset.read());
        libc::syscall(libc::SYS_rseq, registration, REGISTERED_BYTES, UNREGISTER, SIGNATURE);
    }
}
