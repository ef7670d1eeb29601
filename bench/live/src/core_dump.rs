//! Finds the statistics page in a core dump.
//!
//! A dump lists the mapped files (the note `NT_FILE`), the page's memfd among them, and holds
//! shared memory if bit 1 of `coredump_filter` is set. So a reader needs neither the library nor
//! its symbols. A debugger finds the same page by the symbol `quarry_record`.

use crate::label::Label;
use crate::page::Page;
use crate::problem::{CoreProblem, Problem, Who};
use crate::process::is_name_of_page;
use crate::snapshot::Snapshot;
use object::elf::{ET_CORE, FileHeader64, NT_FILE, NT_PRPSINFO, PT_LOAD};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endian, Endianness};
use quarry_record::PAGE_BYTES;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Reads the figures of the process that the dump names or, if the page has no record of it, of all
/// processes in the page. They have no age, because the time of the dump is unknown. O(mappings).
///
/// # Errors
/// `Core`.
pub fn read(path: &Path) -> Result<Vec<Snapshot>, Problem> {
    let refused = |why| Problem::Core(path.to_owned(), why);
    let unreadable = |error| refused(CoreProblem::Unreadable(error));
    let file = quarry_wary::open(path).map_err(unreadable)?;
    let (start, process) = find(&file).map_err(refused)?;
    let page = Page { file, start };
    let mut snapshots = page.all(0).map_err(unreadable)?;
    if let Some(Who { pid, name }) = process
        && let Some(own) = snapshots.iter().position(|it| it.process.pid == pid)
    {
        snapshots = vec![snapshots.swap_remove(own)];
        snapshots[0].process.name = name;
    }
    if snapshots.is_empty() {
        let error = page.first_error().map_err(unreadable)?;
        return Err(refused(error.map_or(CoreProblem::LeftOut, CoreProblem::from)));
    }
    Ok(snapshots)
}

/// The page's offset in the dump, and the dumped process, numbered as in its own pid namespace.
fn find(file: &File) -> Result<(u64, Option<Who>), CoreProblem> {
    let file = &ReadCache::new(file);
    let not_a_core = |_| CoreProblem::NotACore;
    let header = FileHeader64::<Endianness>::parse(file).map_err(not_a_core)?;
    let endian = header.endian().map_err(not_a_core)?;
    if header.e_type(endian) != ET_CORE {
        return Err(CoreProblem::NotACore);
    }
    let segments = header.program_headers(endian, file).map_err(not_a_core)?;
    let (mut address, mut process) = (None, None);
    for segment in segments {
        let Ok(Some(mut notes)) = segment.notes(endian, file) else { continue };
        while let Ok(Some(note)) = notes.next() {
            if note.n_type(endian) == NT_FILE {
                address = address.or_else(|| address_of_page(note.desc(), endian));
            } else if note.n_type(endian) == NT_PRPSINFO {
                process = process.or_else(|| process_of(note.desc(), endian));
            }
        }
    }
    let address = address.ok_or(CoreProblem::NoPage)?;
    for segment in segments.iter().filter(|it| it.p_type(endian) == PT_LOAD) {
        let (start, bytes) = segment.file_range(endian);
        let Some(inside) = address.checked_sub(segment.p_vaddr(endian)) else { continue };
        if inside >= segment.p_memsz(endian) {
            continue;
        }
        let end = inside.checked_add(PAGE_BYTES as u64);
        let is_there = end.is_some_and(|end| end <= bytes);
        let start = start.checked_add(inside).filter(|_| is_there);
        return start.map(|start| (start, process)).ok_or(CoreProblem::LeftOut);
    }
    Err(CoreProblem::LeftOut)
}

/// Reads number and name from the note `NT_PRPSINFO` of a 64-bit process (Linux 6.12,
/// `include/linux/elfcore.h`).
fn process_of(note: &[u8], endian: Endianness) -> Option<Who> {
    let pid = endian.read_u32(note.get(24..28)?.try_into().ok()?);
    Some(Who { pid, name: Label::new(note.get(40..56)?) })
}

/// Finds the page's address in the note `NT_FILE`: number of files, unit of offsets, start, end and
/// offset of each file, then their names (Linux 6.12, `fs/binfmt_elf.c`).
fn address_of_page(list: &[u8], endian: Endianness) -> Option<u64> {
    let word = |index: usize| -> Option<u64> {
        let at = index.checked_mul(8)?;
        let bytes = list.get(at..at.checked_add(8)?)?;
        Some(endian.read_u64(bytes.try_into().ok()?))
    };
    let files = usize::try_from(word(0)?).ok()?;
    let names = files.checked_mul(3)?.checked_add(2)?.checked_mul(8)?;
    let mut names = list.get(names..)?.split(|byte| *byte == 0).take(files);
    let is_page = |name: &[u8]| is_name_of_page(Path::new(OsStr::from_bytes(name)));
    word(2 + 3 * names.position(is_page)?)
}
