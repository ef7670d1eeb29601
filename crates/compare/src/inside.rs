//! Marks of memory management inside a program: the runtime of a sanitizer, or an allocator under
//! names of its own.

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

/// Runtimes with a `malloc` of their own that must be the only one: the name, the function by which
/// instrumented code starts it, how the file names of its shared objects begin (of GCC, of Clang).
const SANITIZERS: [(&str, &str, [&str; 2]); 5] = [
    ("AddressSanitizer", "__asan_init", ["libasan.so", "libclang_rt.asan"]),
    ("HWAddressSanitizer", "__hwasan_init", ["libhwasan.so", "libclang_rt.hwasan"]),
    ("LeakSanitizer", "__lsan_init", ["liblsan.so", "libclang_rt.lsan"]),
    ("MemorySanitizer", "__msan_init", ["libmsan.so", "libclang_rt.msan"]),
    ("ThreadSanitizer", "__tsan_init", ["libtsan.so", "libclang_rt.tsan"]),
];

/// Functions by which allocators are known that go by names of their own, and whether a program
/// that only refers to one, in a library, has made the allocator its own as well.
const ALLOCATORS: [(&str, &str, bool); 8] = [
    ("_rjem_malloc", "jemalloc", true),
    ("_rjem_mallocx", "jemalloc", true),
    ("je_malloc", "jemalloc", true),
    ("mallctl", "jemalloc", false),
    ("tc_malloc", "tcmalloc", false),
    ("mi_malloc", "mimalloc", false),
    ("rpmalloc", "rpmalloc", false),
    ("sn_rust_alloc", "snmalloc", false),
];

/// Texts of allocators, for programs without a table of symbols.
const TEXTS: [(&str, &str); 2] =
    [("<jemalloc>: ", "jemalloc"), ("mimalloc: warning: ", "mimalloc")];
/// Constants of a program are read for them up to this size.
const MOST_CONSTANTS: u64 = 256 << 20;

/// The sanitizer that a program is built with, where it has a `malloc`.
pub fn sanitizer(program: &Program<'_>) -> Option<Embedded> {
    let mut libraries = Vec::new();
    for library in program.import_libraries().into_iter().flatten().flatten() {
        libraries.push(String::from_utf8_lossy(library.name()).into_owned());
    }
    let named = |prefixes: &[&str]| {
        let is_it = |library: &&String| prefixes.iter().any(|prefix| library.starts_with(prefix));
        libraries.iter().find(is_it).cloned()
    };
    SANITIZERS.iter().find_map(|(name, start, prefixes)| {
        let mark = named(prefixes)
            .or_else(|| has_symbol(program, start, true).then(|| (*start).to_owned()))?;
        Some(Embedded { name, mark })
    })
}

/// The allocator that serves a program beside `malloc`, as far as its symbols or texts tell.
pub fn allocator(program: &Program<'_>) -> Option<Embedded> {
    let by_symbol =
        ALLOCATORS.iter().find(|(mark, _, or_referred)| has_symbol(program, mark, *or_referred));
    if let Some((mark, name, _)) = by_symbol {
        return Some(Embedded { name, mark: (*mark).to_owned() });
    }
    if !program.elf_symbol_table().is_empty() {
        return None;
    }
    let constants = program.section_by_name(".rodata")?;
    let bytes = (constants.size() <= MOST_CONSTANTS).then(|| constants.data().ok())??;
    let found = TEXTS.iter().find(|(text, _)| memmem::find(bytes, text.as_bytes()).is_some());
    found.map(|(text, name)| Embedded { name, mark: format!("the text {text:?}") })
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
