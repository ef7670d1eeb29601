//! Marks of memory management inside a program: the runtime of a sanitizer, or an allocator under
//! names of its own.

use crate::known::{EmbeddedAllocator, KNOWN, Sanitizer};
use memchr::memmem::{self, Finder};
use object::elf::{FileHeader64, SHN_UNDEF};
use object::endian::Endianness;
use object::read::elf::{ElfFile, Sym, SymbolTable};
use object::read::{Object, ObjectSection, ReadCache};
use std::collections::HashSet;
use std::fs::File;

/// A 64-bit ELF file that is read as needed.
pub type Program<'data> = ElfFile<'data, FileHeader64<Endianness>, &'data ReadCache<File>>;

/// Something that was found, and by what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Embedded {
    /// Its common name.
    pub name: &'static str,
    /// The symbol, the library or the text that gives it away.
    pub mark: String,
}

/// Constants of a program are read for them up to this size.
const MOST_CONSTANTS: u64 = 256 << 20;

/// The sanitizer that a program is built with, where it has a `malloc`.
pub fn sanitizer(program: &Program<'_>) -> Option<Embedded> {
    let mut libraries = Vec::new();
    for library in program.import_libraries().into_iter().flatten().flatten() {
        libraries.push(String::from_utf8_lossy(library.name()).into_owned());
    }
    let named = |prefixes: &[String]| {
        let is_it =
            |library: &&String| prefixes.iter().any(|prefix| library.starts_with(prefix.as_str()));
        libraries.iter().find(is_it).cloned()
    };
    KNOWN.sanitizers.iter().find_map(|Sanitizer { name, start, libraries }| {
        let start = || has_symbol(program, start, true).then(|| start.clone());
        Some(Embedded { name, mark: named(libraries).or_else(start)? })
    })
}

/// The allocator that serves a program beside `malloc`, as far as its symbols or texts tell.
pub fn allocator(program: &Program<'_>) -> Option<Embedded> {
    for EmbeddedAllocator { name, functions, is_own_if_referred, .. } in &KNOWN.embedded {
        if let Some(mark) = functions.iter().find(|it| has_symbol(program, it, *is_own_if_referred))
        {
            return Some(Embedded { name, mark: mark.clone() });
        }
    }
    if !program.elf_symbol_table().is_empty() {
        return None;
    }
    let constants = program.section_by_name(".rodata")?;
    let bytes = (constants.size() <= MOST_CONSTANTS).then(|| constants.data().ok())??;
    KNOWN.embedded.iter().find_map(|EmbeddedAllocator { name, text, .. }| {
        let text = text.as_ref().filter(|it| memmem::find(bytes, it.as_bytes()).is_some())?;
        Some(Embedded { name, mark: format!("the text {text:?}") })
    })
}

/// Returns whether a program defines a function, or, with `or_referred`, mentions it at least.
fn has_symbol(program: &Program<'_>, name: &str, or_referred: bool) -> bool {
    let tables = [program.elf_dynamic_symbol_table(), program.elf_symbol_table()];
    tables.into_iter().any(|table| is_in(program, table, name, or_referred).unwrap_or(false))
}

/// Looks for the name first: tables of symbols are long, and hardly one has it.
fn is_in<'data>(
    program: &Program<'data>,
    table: &SymbolTable<'data, FileHeader64<Endianness>, &'data ReadCache<File>>,
    name: &str,
    or_referred: bool,
) -> object::read::Result<bool> {
    if table.is_empty() {
        return Ok(false);
    }
    let endian = program.endian();
    let names = program.section_by_index(table.string_section())?.data()?;
    // Names may share their ends, so the byte before says nothing.
    let wanted = [name.as_bytes(), b"\0"].concat();
    let places: HashSet<u32> =
        Finder::new(&wanted).find_iter(names).filter_map(|place| place.try_into().ok()).collect();
    let is_it = |symbol: &object::elf::Sym64<Endianness>| {
        places.contains(&symbol.st_name(endian))
            && (or_referred || symbol.st_shndx(endian) != SHN_UNDEF)
    };
    Ok(!places.is_empty() && table.iter().any(is_it))
}
