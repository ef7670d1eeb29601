//! Predicts whether the dynamic loader will place the library in front of a program's `malloc`, and
//! if not, why. `LD_PRELOAD` itself reports none of these cases.

use crate::inside::{self, Program};
use crate::known::KNOWN;
use nix::sys::stat::Mode;
use nix::sys::statvfs::{FsFlags, statvfs};
use object::elf::{FileHeader32, FileHeader64};
use object::endian::Endianness;
use object::read::elf::{ElfFile, FileHeader, ProgramHeader};
use object::read::{Object, ObjectKind, ObjectSection, ObjectSymbol, ReadCache};
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub use crate::inside::Embedded;

/// `ELFCLASS64`, at byte 4 of an ELF file.
const CLASS_64: u8 = 2;

/// The reason why some or all allocations of a program do not reach the library.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// No program interpreter, so nothing can be loaded into the program.
    #[error("is statically linked: no library can be preloaded")]
    Static,
    /// A Go program without any call of `malloc`.
    #[error("is a Go program: its runtime allocates without malloc")]
    Go,
    /// A Go program that links C code.
    #[error("is a Go program: only what its C code allocates reaches Quarry")]
    GoWithC,
    /// Set-user-ID or set-group-ID: the loader ignores paths in `LD_PRELOAD`.
    #[error("is set-user-ID or set-group-ID: the loader ignores preloaded libraries")]
    SetId,
    /// The program gains capabilities when executed: the loader ignores paths in `LD_PRELOAD`.
    #[error("gains capabilities when executed: the loader ignores preloaded libraries")]
    Capabilities,
    /// The program's loader belongs to another C library than the one that the library is for.
    #[error("is loaded by {loader}: the library needs {needed}'s loader")]
    OtherLibc {
        /// The program's loader.
        loader: String,
        /// The C library that the library is for.
        needed: &'static str,
    },
    /// The program is for another machine or word size than the library.
    #[error("is for {program}, the library for {library}: it cannot be preloaded")]
    OtherMachine {
        /// The program's machine.
        program: String,
        /// The library's machine.
        library: String,
    },
    /// The program is built with a sanitizer whose `malloc` must be the only one.
    #[error(
        "is built with {} ({}), which needs a malloc of its own to find anything",
        .0.name,
        .0.mark
    )]
    Sanitizer(Embedded),
    /// The program defines `malloc` itself, which the loader finds first.
    #[error("defines malloc itself, which is preferred to any other")]
    OwnMalloc,
    /// The program calls an allocator by names other than `malloc`, which a library cannot replace.
    #[error(
        "has {} inside ({}) and serves itself: only what is asked of malloc by that name reaches \
         Quarry",
        .0.name,
        .0.mark
    )]
    OwnAllocator(Embedded),
    /// The program could not be read.
    #[error("cannot be looked into ({0}): it may not reach Quarry")]
    Unreadable(String),
}

impl Obstacle {
    /// Returns whether the library can still serve some allocations.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        matches!(self, Self::GoWithC | Self::OwnAllocator(_) | Self::Unreadable(_))
    }

    /// Returns whether the program is better started without the library: its loader would complain
    /// about the library in every child, or load it and break the program.
    #[must_use]
    pub fn forbids_preloading(&self) -> bool {
        matches!(self, Self::OtherLibc { .. } | Self::OtherMachine { .. } | Self::Sanitizer(_))
    }
}

/// The facts that decide whether executing a file raises privileges.
#[derive(Clone, Copy, Debug)]
struct Identity {
    uid: u32,
    gid: u32,
    /// `PR_SET_NO_NEW_PRIVS`, or a mount with `nosuid`.
    cannot_gain: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Machine {
    class: u8,
    data: u8,
    machine: u16,
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = if self.class == CLASS_64 { 64 } else { 32 };
        match KNOWN.machines.get(&self.machine.to_string()) {
            Some(name) => write!(f, "{name} ({bits} bits)"),
            None => write!(f, "machine {} ({bits} bits)", self.machine),
        }
    }
}

/// Looks for the first reason why `program` would not use `library`; `None`: it will use it.
#[must_use]
pub fn obstacle(program: &Path, library: &Path) -> Option<Obstacle> {
    examine(program, library).unwrap_or_else(|error| Some(Obstacle::Unreadable(error.to_string())))
}

fn examine(program: &Path, library: &Path) -> io::Result<Option<Obstacle>> {
    if let Some(raised) = raised_privileges(program, &fs::metadata(program)?, identity(program)) {
        return Ok(Some(raised));
    }
    // The loader, run as a command, preloads into the program that it starts.
    let name = program.file_name().unwrap_or_default().as_bytes();
    if name.starts_with(b"ld-linux") || name.starts_with(b"ld.so") {
        return Ok(None);
    }
    let Some(machine) = machine_of(program)? else {
        return Err(io::Error::other("not an ELF file"));
    };
    let wanted = machine_of(library)?.unwrap_or(machine);
    if wanted != machine || machine.class != CLASS_64 {
        let (program, library) = (machine.to_string(), wanted.to_string());
        return Ok(Some(Obstacle::OtherMachine { program, library }));
    }
    let cache = ReadCache::new(quarry_wary::open(program)?);
    let file = ElfFile::<FileHeader64<Endianness>, _>::parse(&cache).map_err(io::Error::other)?;
    linkage(&file, is_for_musl(library)).map_err(io::Error::other)
}

/// Returns whether a library needs the C library by a name that only musl's loader knows.
fn is_for_musl(library: &Path) -> bool {
    let Ok(file) = quarry_wary::open(library) else { return false };
    let cache = ReadCache::new(file);
    let Ok(file) = Program::parse(&cache) else { return false };
    let mut needed = file.import_libraries().into_iter().flatten().flatten();
    needed.any(|it| it.name() == b"libc.so" || it.name().starts_with(b"libc.musl-"))
}

/// Returns whether musl's loader loads `program`.
#[must_use]
pub fn is_loaded_by_musl(program: &Path) -> bool {
    let Ok(file) = quarry_wary::open(program) else { return false };
    let cache = ReadCache::new(file);
    let loader = Program::parse(&cache).and_then(|file| loader_of(&file));
    loader.is_ok_and(|loader| loader.is_some_and(|loader| is_musl_loader(&loader)))
}

/// Returns whether a file is a shared object for this command's machine, by its header.
pub fn is_shared_object(file: &Path) -> io::Result<bool> {
    let own = machine_of(Path::new("/proc/self/exe"))?;
    let machine = machine_of(file)?;
    if machine.is_none() || machine != own {
        return Ok(false);
    }
    let cache = ReadCache::new(quarry_wary::open(file)?);
    let parsed = ElfFile::<FileHeader64<Endianness>, _>::parse(&cache);
    Ok(parsed.is_ok_and(|file| file.kind() == ObjectKind::Dynamic))
}

/// Returns the loader that `program` names, if that file does not exist. The kernel's error does
/// not tell which file is missing.
#[must_use]
pub fn missing_loader(program: &Path) -> Option<PathBuf> {
    let cache = ReadCache::new(quarry_wary::open(program).ok()?);
    let loader = match machine_of(program).ok()?? {
        Machine { class: CLASS_64, .. } => {
            loader_of(&ElfFile::<FileHeader64<Endianness>, _>::parse(&cache).ok()?)
        }
        _ => loader_of(&ElfFile::<FileHeader32<Endianness>, _>::parse(&cache).ok()?),
    };
    let loader = PathBuf::from(loader.ok()??);
    (!loader.exists()).then_some(loader)
}

fn loader_of<'data, Header: FileHeader<Endian = Endianness>>(
    file: &ElfFile<'data, Header, &'data ReadCache<File>>,
) -> object::read::Result<Option<String>> {
    for header in file.elf_program_headers() {
        if let Some(path) = header.interpreter(file.endian(), file.data())? {
            return Ok(Some(String::from_utf8_lossy(path).into_owned()));
        }
    }
    Ok(None)
}

fn linkage(file: &Program<'_>, for_musl: bool) -> object::read::Result<Option<Obstacle>> {
    let loader = loader_of(file)?;
    let (fits, needed): (fn(&str) -> bool, _) =
        if for_musl { (is_musl_loader, "musl") } else { (is_glibc_loader, "glibc") };
    let is_go = file
        .sections()
        .any(|section| matches!(section.name(), Ok(".go.buildinfo" | ".note.go.buildid")));
    let malloc = file.dynamic_symbols().find(|symbol| symbol.name() == Ok("malloc"));
    let sanitizer = inside::sanitizer(file);
    Ok(match (loader, is_go, malloc) {
        (None, true, _) | (Some(_), true, None) => Some(Obstacle::Go),
        (None, false, _) => Some(Obstacle::Static),
        (Some(loader), _, _) if !fits(&loader) => Some(Obstacle::OtherLibc { loader, needed }),
        (Some(_), _, _) if sanitizer.is_some() => sanitizer.map(Obstacle::Sanitizer),
        (Some(_), _, Some(symbol)) if symbol.is_definition() => Some(Obstacle::OwnMalloc),
        (Some(_), true, Some(_)) => Some(Obstacle::GoWithC),
        (Some(_), false, _) => inside::allocator(file).map(Obstacle::OwnAllocator),
    })
}

/// Loaders of glibc are named `ld-linux*`, `ld64.so*` or `ld.so*` on every machine.
fn is_glibc_loader(path: &str) -> bool {
    ["ld-linux", "ld64.so", "ld.so"].iter().any(|prefix| file_name(path).starts_with(prefix))
}

/// Loaders of musl are named `ld-musl-MACHINE.so.1`.
fn is_musl_loader(path: &str) -> bool {
    file_name(path).starts_with("ld-musl-")
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Class, byte order and machine of an ELF file; `None` for another file.
fn machine_of(path: &Path) -> io::Result<Option<Machine>> {
    let mut head = Vec::new();
    quarry_wary::open(path)?.take(20).read_to_end(&mut head)?;
    if head.len() < 20 || !head.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    let bytes = [head[18], head[19]];
    let machine = if head[5] == 2 { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) };
    Ok(Some(Machine { class: head[4], data: head[5], machine }))
}

fn raised_privileges(program: &Path, file: &Metadata, who: Identity) -> Option<Obstacle> {
    if who.cannot_gain {
        None
    } else if changes_identity(file.mode(), file.uid(), file.gid(), who) {
        Some(Obstacle::SetId)
    } else if who.uid != 0 && has_capabilities(program) {
        Some(Obstacle::Capabilities)
    } else {
        None
    }
}

/// Returns whether executing a file makes effective and real ids differ (`bprm_fill_uid`, Linux
/// 6.x; set-group-ID counts only if the group may execute the file).
fn changes_identity(mode: u32, owner: u32, group: u32, who: Identity) -> bool {
    let mode = Mode::from_bits_truncate(mode);
    let sets_user = mode.contains(Mode::S_ISUID) && owner != who.uid;
    let sets_group = mode.contains(Mode::S_ISGID | Mode::S_IXGRP) && group != who.gid;
    sets_user || sets_group
}

fn has_capabilities(program: &Path) -> bool {
    matches!(xattr::get_deref(program, "security.capability"), Ok(Some(_)))
}

fn identity(program: &Path) -> Identity {
    let no_new_privileges = nix::sys::prctl::get_no_new_privs().unwrap_or(false);
    let no_set_id = statvfs(program).is_ok_and(|it| it.flags().contains(FsFlags::ST_NOSUID));
    Identity {
        uid: nix::unistd::getuid().as_raw(),
        gid: nix::unistd::getgid().as_raw(),
        cannot_gain: no_new_privileges || no_set_id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::process::Command;

    struct Workshop {
        folder: tempfile::TempDir,
        library: PathBuf,
    }

    const CALLS_MALLOC: &str = "#include <stdlib.h>\nint main(void) { return !malloc(10); }\n";

    impl Workshop {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let library = folder.path().join("library.so");
            let shop = Self { folder, library: library.clone() };
            shop.compile("library.so", "int x;\n", "-shared -fPIC");
            shop
        }

        fn compile(&self, name: &str, source: &str, options: &str) -> PathBuf {
            let output = self.folder.path().join(name);
            let input = output.with_extension("c");
            fs::write(&input, source).unwrap();
            let mut compiler = Command::new("cc");
            compiler.args(options.split_whitespace()).arg("-o").arg(&output).arg(&input);
            assert!(compiler.status().expect("cc is installed").success(), "{options}");
            output
        }

        fn obstacle(&self, program: &Path) -> Option<Obstacle> {
            obstacle(program, &self.library)
        }
    }

    #[test]
    fn obstacles_are_seen_in_what_the_linker_has_made() {
        const QUIET: &str = "int main(void) { return 0; }\n";
        const OWN: &str = "#include <stddef.h>\nstatic char heap[64];\n\
                           void *malloc(size_t n) { return n < 64 ? heap : NULL; }\n\
                           int main(void) { return !malloc(10); }\n";
        const ADDRESS: &str = "#include <stdlib.h>\nvoid *(*volatile f)(size_t) = malloc;\n\
                               int main(void) { return !f(10); }\n";
        let mark = "__attribute__((section(\".go.buildinfo\"))) char info[] = \"go\";\n";
        let go = &format!("{mark}int main(void) {{ return info[0] != 'g'; }}\n");
        let go_with_c = &format!("{mark}{CALLS_MALLOC}");
        let musl = "/lib/ld-musl-x86_64.so.1";
        let by_musl = format!("-Wl,--dynamic-linker={musl}");
        let other =
            |loader: &str, needed| Obstacle::OtherLibc { loader: loader.to_owned(), needed };
        let shop = Workshop::new();
        for (source, options, expected) in [
            (CALLS_MALLOC, "-pie -fPIE", None),
            (CALLS_MALLOC, "-no-pie", None),
            (CALLS_MALLOC, "-s", None),
            // The program does not call malloc, but its libraries may.
            (QUIET, "", None),
            (CALLS_MALLOC, "-static", Some(Obstacle::Static)),
            (CALLS_MALLOC, "-static-pie", Some(Obstacle::Static)),
            (OWN, "-rdynamic", Some(Obstacle::OwnMalloc)),
            // Without `-pie` the program may hold the address of libc's malloc: not a definition.
            (ADDRESS, "-no-pie -fno-pie", None),
            (go, "-static", Some(Obstacle::Go)),
            (go, "", Some(Obstacle::Go)),
            (go_with_c, "", Some(Obstacle::GoWithC)),
            (CALLS_MALLOC, &by_musl, Some(other(musl, "glibc"))),
        ] {
            let program = shop.compile("program", source, options);
            assert_eq!(shop.obstacle(&program), expected, "{options} {source}");
            assert_eq!(is_loaded_by_musl(&program), options == by_musl, "{options}");
        }
        let folder = shop.folder.path().display().to_string();
        shop.compile("libc.so", "int y;\n", "-shared -fPIC -Wl,-soname,libc.so");
        let libc = format!("-shared -fPIC -Wl,--no-as-needed -L{folder} -l:libc.so");
        let library = shop.compile("musl.so", "int x;\n", &libc);
        let program = shop.compile("program", CALLS_MALLOC, &by_musl);
        assert_eq!(obstacle(&program, &library), None);
        let program = shop.compile("program", CALLS_MALLOC, "");
        let found = obstacle(&program, &library).map(|it| it.to_string()).unwrap_or_default();
        assert!(found.ends_with(": the library needs musl's loader"), "{found}");
    }

    #[test]
    fn programs_of_other_machines_are_told_by_their_headers() {
        let shop = Workshop::new();
        // The same file with another machine or class in its header.
        let plain = fs::read(shop.compile("plain", CALLS_MALLOC, "")).unwrap();
        for (offset, value, name) in [(18, 8, "MIPS (64 bits)"), (4, 1, "x86-64 (32 bits)")] {
            let mut bytes = plain.clone();
            bytes[offset] = value;
            let foreign = shop.folder.path().join("foreign");
            fs::write(&foreign, bytes).unwrap();
            let found = shop.obstacle(&foreign).map(|it| it.to_string()).unwrap_or_default();
            assert!(found.starts_with(&format!("is for {name}, the library for ")), "{found}");
        }
    }

    #[test]
    fn what_is_no_elf_file_cannot_be_looked_into() {
        let shop = Workshop::new();
        let file = shop.folder.path().join("text");
        fs::write(&file, "hello").unwrap();
        assert_eq!(shop.obstacle(&file), Some(Obstacle::Unreadable("not an ELF file".to_owned())));
        fs::write(&file, b"\x7fELF\x02\x01\x01").unwrap();
        assert!(matches!(shop.obstacle(&file), Some(Obstacle::Unreadable(_))));
    }

    #[test]
    fn set_id_bits_count_where_ids_change() {
        let who = Identity { uid: 1000, gid: 1000, cannot_gain: false };
        assert!(changes_identity(0o4755, 0, 0, who));
        assert!(!changes_identity(0o4755, 1000, 0, who));
        assert!(changes_identity(0o2755, 0, 42, who));
        assert!(!changes_identity(0o2745, 0, 42, who), "group may not execute");
        assert!(!changes_identity(0o2755, 0, 1000, who));
        assert!(!changes_identity(0o755, 0, 0, who));
    }
}
