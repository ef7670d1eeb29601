//! The tables that describe the stack frames of loaded code (Linux Standard Base 5, section 10.6).

use super::program::{Run, Scales};
use super::reader::Reader;
use super::rule::{Base, Rule};
use crate::glibc::weak_address;
use core::mem::MaybeUninit;

/// `struct dl_find_object` of glibc 2.35 on x86-64, with room for more fields.
#[repr(C)]
struct Found {
    flags: u64,
    map_start: usize,
    map_end: usize,
    link_map: usize,
    eh_frame: usize,
    reserved: [u64; 16],
}

pub(super) fn are_known() -> bool {
    cfg!(target_arch = "x86_64") && !weak_address!("_dl_find_object").is_null()
}

/// Returns the rule for the code at this address; [`Base::Unknown`] if no table describes it. Takes
/// no lock. O(log functions of the object).
pub(super) fn rule(code: usize) -> Rule {
    find(code).unwrap_or(Rule::of(Base::Unknown))
}

fn find(code: usize) -> Option<Rule> {
    type FindObject = extern "C" fn(usize, *mut Found) -> i32;
    let function = weak_address!("_dl_find_object");
    if function.is_null() {
        return None;
    }
    let mut found = MaybeUninit::<Found>::zeroed();
    // SAFETY: glibc declares the function with this type from 2.35 on; it writes at most a `Found`,
    // for which any bytes are valid.
    let found = unsafe {
        let function = core::mem::transmute::<*const u8, FindObject>(function);
        (function(code, found.as_mut_ptr()) == 0).then(|| found.assume_init())?
    };
    if found.eh_frame == 0 {
        return None;
    }
    // Of an object with a hole between its segments, glibc gives only the segment of the code.
    let has_tables = (found.map_start..found.map_end).contains(&found.eh_frame);
    let (start, end) = if has_tables { (found.map_start, found.map_end) } else { (1, usize::MAX) };
    let reader = |at: usize| {
        // SAFETY: the object that contains the code stays loaded while the code runs. Its tables
        // lie within its mapping; where its end is not known, their counts and lengths end reads.
        (at >= start && at < end).then(|| unsafe { Reader::new(at, end) })
    };
    let description = look_up(reader(found.eh_frame)?, found.eh_frame, code)?;
    read_description(reader(description)?, code, &reader)
}

/// Finds the description of the function that may contain `code`, in the object's sorted table
/// (`.eh_frame_hdr`) at `origin`.
fn look_up(mut header: Reader, origin: usize, code: usize) -> Option<usize> {
    let version = header.byte()?;
    let [of_frames, of_count, of_table] = [header.byte()?, header.byte()?, header.byte()?];
    // 0x3b: relative to the header, signed 32 bits. Every linker writes this encoding.
    if version != 1 || of_table != 0x3b {
        return None;
    }
    header.offset(of_frames)?;
    let count = header.offset(of_count)? as usize;
    let table = header;
    let entry = |index: usize| {
        let mut entry = table;
        entry.skip(index.checked_mul(8)?)?;
        let resolve = |offset: u32| origin.wrapping_add(offset as i32 as usize);
        Some((resolve(entry.word()?), resolve(entry.word()?)))
    };
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        if entry(middle)?.0 <= code { low = middle + 1 } else { high = middle }
    }
    Some(entry(low.checked_sub(1)?)?.1)
}

/// The data that the descriptions of several functions share (a CIE).
struct Common {
    scales: Scales,
    /// True if each function's description has augmentation data beside its program.
    has_data: bool,
    is_signal: bool,
    program: Reader,
}

/// The entry at which `table` is; `None` at the table's end, or if the entry's length has 64 bits.
fn entry(mut table: Reader) -> Option<Reader> {
    let bytes = table.word()?;
    (bytes != 0 && bytes != u32::MAX).then(|| table.part(bytes as usize))
}

fn read_description(
    description: Reader,
    code: usize,
    reader: &impl Fn(usize) -> Option<Reader>,
) -> Option<Rule> {
    let mut description = entry(description)?;
    let here = description.at();
    let common = read_common(reader(here.checked_sub(description.word()? as usize)?)?)?;
    let begin = description.pointer(common.scales.pointers)?;
    let length = description.offset(common.scales.pointers)? as usize;
    if code.wrapping_sub(begin) >= length {
        return None;
    }
    if common.is_signal {
        return Some(Rule::of(Base::Signal));
    }
    if common.has_data {
        description.block()?;
    }
    let mut run = Run::new(common.scales);
    run.go(common.program, begin, usize::MAX)?;
    run.begin_function();
    run.go(description, begin, code)?;
    Some(run.rule())
}

fn read_common(common: Reader) -> Option<Common> {
    let mut common = entry(common)?;
    if common.word()? != 0 {
        return None;
    }
    let version = common.byte()?;
    let mut letters = [0; 8];
    let mut count = 0;
    loop {
        match common.byte()? {
            0 => break,
            letter => *letters.get_mut(count)? = letter,
        }
        count += 1;
    }
    let code = common.number()?;
    let data = common.signed()?;
    let _return_address = if version == 1 { common.byte()?.into() } else { common.number()? };
    let mut scales = Scales { code, data, pointers: 0 };
    let letters = &letters[..count];
    let has_data = letters.first() == Some(&b'z');
    if !has_data && !letters.is_empty() {
        return None;
    }
    let mut is_signal = false;
    if has_data {
        let mut data = common.block()?;
        for letter in &letters[1..] {
            match letter {
                b'R' => scales.pointers = data.byte()?,
                b'P' => {
                    let encoding = data.byte()?;
                    data.offset(encoding)?;
                }
                b'L' => _ = data.byte()?,
                b'S' => is_signal = true,
                _ => return None,
            }
        }
    }
    Some(Common { scales, has_data, is_signal, program: common })
}
