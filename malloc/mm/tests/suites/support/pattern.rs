//! Contents that show their allocation: its tag determines the contents of every 4 KiB, and the
//! first word of each 4 KiB shows which part of the allocation it is.

use quarry_sys::percpu::Object;

const BLOCK: usize = 4096;
const ZEROES: [u8; BLOCK] = [0; BLOCK];

fn block(tag: u64, bytes: usize) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut word = tag.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for piece in block[..bytes.next_multiple_of(8).min(BLOCK)].chunks_exact_mut(8) {
        word = word.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
        piece.copy_from_slice(&word.to_le_bytes());
    }
    block
}

fn number(block: &mut [u8; BLOCK], tag: u64, part: usize) {
    let word = tag ^ (part as u64) << 32;
    block[..8].copy_from_slice(&word.to_le_bytes());
}

/// Fills the first `bytes` bytes of an allocation with the contents that follow from `tag`.
pub(crate) fn fill(object: Object, bytes: usize, tag: u64) {
    let mut block = block(tag, bytes);
    // SAFETY: callers own the allocation, which has at least `bytes` bytes.
    let memory = unsafe { std::slice::from_raw_parts_mut(object.as_ptr(), bytes) };
    for (part, piece) in memory.chunks_mut(BLOCK).enumerate() {
        number(&mut block, tag, part);
        piece.copy_from_slice(&block[..piece.len()]);
    }
}

/// Returns whether the first `bytes` bytes of an allocation have the contents of `tag`.
pub(crate) fn holds(object: Object, bytes: usize, tag: u64) -> bool {
    let mut block = block(tag, bytes);
    // SAFETY: callers own the allocation, which has at least `bytes` initialised bytes.
    let memory = unsafe { std::slice::from_raw_parts(object.as_ptr(), bytes) };
    memory.chunks(BLOCK).enumerate().all(|(part, piece)| {
        number(&mut block, tag, part);
        piece == &block[..piece.len()]
    })
}

/// Returns whether the first `bytes` bytes of an allocation are all zero.
pub(crate) fn is_zero(object: Object, bytes: usize) -> bool {
    // SAFETY: callers own the allocation, which has at least `bytes` initialised bytes.
    let memory = unsafe { std::slice::from_raw_parts(object.as_ptr(), bytes) };
    memory.chunks(BLOCK).all(|piece| piece == &ZEROES[..piece.len()])
}
