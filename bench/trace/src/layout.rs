//! The layout of a trace. All numbers are little endian, as on every machine that Quarry runs on.
//!
//! ```text
//! header, HEADER_BYTES
//!      0  MAGIC
//!      8  u32 VERSION              12  u32 CHUNK_BYTES
//!     16  u32 chunks of the file   20  u32 process
//!     24  u32 chunks in use        28  u32 threads so far
//!     32  u64 start, monotonic ns  40  u64 calls that were not recorded
//!     48  u32 bytes of the command line
//!     64  the command line, its words separated by NUL, at most COMMAND_BYTES
//! chunk n, at HEADER_BYTES + n * CHUNK_BYTES
//!      0  u32 thread, from 1 on    4  u32 bytes of events
//!      8  u64 start, monotonic ns
//!     16  events
//! ```
//!
//! A writer stores the bytes of an event before it adds them to the chunk's count. So every counted
//! event is whole, even if the process ends between two instructions.

/// The first bytes of every trace.
pub const MAGIC: [u8; 8] = *b"QUARRYTR";
/// The version of this layout; a reader refuses others.
pub const VERSION: u32 = 1;
/// Bytes before the first chunk: chunks begin at multiples of 4 KiB.
pub const HEADER_BYTES: usize = 4096;
/// Bytes of a chunk: some 1,300 calls. Even a short-lived thread takes a whole chunk.
pub const CHUNK_BYTES: usize = 8192;
/// Bytes of a chunk before its events.
pub const CHUNK_HEADER_BYTES: usize = 16;
/// Maximum number of bytes of the command line that the header keeps.
pub const COMMAND_BYTES: usize = 1024;

/// Offset of the version.
pub const AT_VERSION: usize = 8;
/// Offset of the size of chunks.
pub const AT_CHUNK_BYTES: usize = 12;
/// Offset of the number of chunks.
pub const AT_CHUNKS: usize = 16;
/// Offset of the process.
pub const AT_PROCESS: usize = 20;
/// Offset of the chunks in use.
pub const AT_USED_CHUNKS: usize = 24;
/// Offset of the threads so far.
pub const AT_THREADS: usize = 28;
/// Offset of the start.
pub const AT_START: usize = 32;
/// Offset of the calls that were not recorded.
pub const AT_LOST: usize = 40;
/// Offset of the command line's length.
pub const AT_COMMAND_LENGTH: usize = 48;
/// Offset of the command line.
pub const AT_COMMAND: usize = 64;

/// Offset of a chunk's thread, from the start of the chunk.
pub const AT_CHUNK_THREAD: usize = 0;
/// Offset of a chunk's bytes of events.
pub const AT_CHUNK_USED: usize = 4;
/// Offset of a chunk's start.
pub const AT_CHUNK_START: usize = 8;

/// Bytes of a file with this many chunks.
#[must_use]
pub const fn file_bytes(chunks: usize) -> usize {
    HEADER_BYTES + chunks * CHUNK_BYTES
}
