//! Finds the runtime of a sanitizer, or an allocator under other names, inside a program.

use crate::known::{EmbeddedAllocator, KNOWN, Sanitizer};
use memchr::memmem;
use object::elf::{FileHeader64, SHN_UNDEF};
use object::endian::Endianness;
use object::read::elf::{ElfFile, Sym, SymbolTable};
use object::read::{Object, ObjectSection, ReadCache};
use std::collections::HashMap;
use std::fs::File;

/// A 64-bit ELF file, read as needed.
pub type Program<'data> = ElfFile<'data, FileHeader64<Endianness>, &'data ReadCache<File>>;

/// An allocator or sanitizer inside a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Embedded {
    /// Its common name.
    pub name: &'static str,
    /// The symbol, library or text by which it was found.
    pub mark: String,
}

const MOST_CONSTANTS: u64 = 256 << 20;

/// The sanitizer that a program is built with, if it replaces `malloc`.
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
    let marks = marks(program, KNOWN.sanitizers.iter().map(|it| &it.start));
    KNOWN.sanitizers.iter().find_map(|Sanitizer { name, start, libraries }| {
        let start = || marks.contains_key(start.as_str()).then(|| start.clone());
        Some(Embedded { name, mark: named(libraries).or_else(start)? })
    })
}

/// The allocator that serves a program besides `malloc`, as far as its symbols or texts show it.
pub fn allocator(program: &Program<'_>) -> Option<Embedded> {
    let marks = marks(program, KNOWN.embedded.iter().flat_map(|it| &it.functions));
    for EmbeddedAllocator { name, functions, is_own_if_referred, .. } in &KNOWN.embedded {
        let is_in = |it: &&String| {
            marks.get(it.as_str()).is_some_and(|is_defined| *is_defined || *is_own_if_referred)
        };
        if let Some(mark) = functions.iter().find(is_in) {
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

/// The `wanted` symbols that a program has; true for those that it defines.
fn marks(
    program: &Program<'_>,
    wanted: impl Iterator<Item = &'static String> + Clone,
) -> HashMap<&'static str, bool> {
    let mut marks = HashMap::new();
    for table in [program.elf_symbol_table(), program.elf_dynamic_symbol_table()] {
        // A table that cannot be read has no marks.
        let _ = add_marks(program, table, wanted.clone(), &mut marks);
    }
    marks
}

/// Adds the marks of one table. Names are searched first: most tables are long and have no mark.
fn add_marks<'data>(
    program: &Program<'data>,
    table: &SymbolTable<'data, FileHeader64<Endianness>, &'data ReadCache<File>>,
    wanted: impl Iterator<Item = &'static String>,
    marks: &mut HashMap<&'static str, bool>,
) -> object::read::Result<()> {
    if table.is_empty() {
        return Ok(());
    }
    let names = program.section_by_index(table.string_section())?.data()?;
    let mut places: HashMap<u32, &'static str> = HashMap::new();
    for known in wanted {
        // Names may share their ends, so the byte before a name can be anything.
        let text = [known.as_bytes(), b"\0"].concat();
        let found = memmem::find_iter(names, &text).filter_map(|place| u32::try_from(place).ok());
        places.extend(found.map(|place| (place, known.as_str())));
    }
    if places.is_empty() {
        return Ok(());
    }
    let endian = program.endian();
    for symbol in table.iter() {
        if let Some(name) = places.get(&symbol.st_name(endian)) {
            *marks.entry(*name).or_default() |= symbol.st_shndx(endian) != SHN_UNDEF;
        }
    }
    Ok(())
}
