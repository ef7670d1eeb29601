//! Marks of memory management inside a program: the runtime of a sanitizer, or an allocator under
//! names of its own.

use crate::known::{EmbeddedAllocator, KNOWN, Sanitizer};
use memchr::memmem;
use object::elf::FileHeader64;
use object::endian::Endianness;
use object::read::elf::ElfFile;
use object::read::{Object, ObjectSection, ObjectSymbol, ReadCache};
use std::collections::{HashMap, HashSet};
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
    let marks = marks(program);
    KNOWN.sanitizers.iter().find_map(|Sanitizer { name, start, libraries }| {
        let start = || marks.contains_key(start.as_str()).then(|| start.clone());
        Some(Embedded { name, mark: named(libraries).or_else(start)? })
    })
}

/// The allocator that serves a program beside `malloc`, as far as its symbols or texts tell.
pub fn allocator(program: &Program<'_>) -> Option<Embedded> {
    let marks = marks(program);
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

/// Those symbols of a program that give something away, and whether it defines them.
fn marks<'data>(program: &'data Program<'_>) -> HashMap<&'data str, bool> {
    let functions = KNOWN.embedded.iter().flat_map(|it| &it.functions);
    let known = functions.chain(KNOWN.sanitizers.iter().map(|it| &it.start));
    let known: HashSet<&[u8]> = known.map(|it| it.as_bytes()).collect();
    let mut marks = HashMap::new();
    for symbol in program.symbols().chain(program.dynamic_symbols()) {
        if symbol.name_bytes().is_ok_and(|name| known.contains(name))
            && let Ok(name) = symbol.name()
        {
            *marks.entry(name).or_default() |= !symbol.is_undefined();
        }
    }
    marks
}
