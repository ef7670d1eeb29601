//! Names of functions, files and lines for code addresses, from symbol tables and DWARF.
//!
//! Separate debugging information is sought where gdb seeks it: by `.gnu_debuglink` beside the
//! file, in `.debug` there, and below `/usr/lib/debug`; and by build id below `/usr/lib/debug`.

use crate::maps::Mapping;
use addr2line::Loader;
use object::{Object, ObjectSegment};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A function at an address; with inlined calls an address has several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Line {
    /// Its demangled name; without a symbol the file and offset.
    pub function: String,
    /// Its symbol.
    pub system_name: String,
    /// Its source file, or empty.
    pub file: String,
    /// Its source line, or 0.
    pub line: u32,
}

impl Line {
    /// Its name, and its file and line if they are known.
    #[must_use]
    pub fn text(&self) -> String {
        match self.file.is_empty() {
            true => self.function.clone(),
            false => format!("{}  {}:{}", self.function, self.file, self.line),
        }
    }
}

/// The mapping and the functions at an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The number of its mapping.
    pub(crate) mapping: Option<usize>,
    /// The functions, the innermost inlined one first; never empty.
    pub(crate) lines: Vec<Line>,
}

struct Program {
    /// Symbols of the separate files of debugging information first, then of the file itself.
    loaders: Vec<Loader>,
    /// `{offset in the file, bytes, address}` of each segment.
    segments: Vec<(u64, u64, u64)>,
}

impl Program {
    fn load(path: &Path) -> Option<Self> {
        let bytes = fs::read(path).ok()?;
        let file = object::File::parse(&*bytes).ok()?;
        let segments = file
            .segments()
            .map(|segment| (segment.file_range().0, segment.file_range().1, segment.address()))
            .collect();
        let candidates = debug_files(path, &file).into_iter().chain([path.to_owned()]);
        let loaders = candidates.filter_map(|path| Loader::new(path).ok()).collect();
        Some(Self { loaders, segments })
    }

    fn address(&self, offset: u64) -> Option<u64> {
        self.segments.iter().find_map(|(from, bytes, address)| {
            let within = offset.checked_sub(*from)?;
            (within < *bytes).then_some(address + within)
        })
    }

    fn lines(&self, address: u64) -> Vec<Line> {
        let mut lines = self.loaders.iter().map(|loader| lines_of(loader, address));
        lines.find(|lines| !lines.is_empty()).unwrap_or_else(|| {
            let symbol = self.loaders.iter().find_map(|loader| loader.find_symbol(address));
            symbol.map(named).into_iter().collect()
        })
    }
}

fn lines_of(loader: &Loader, address: u64) -> Vec<Line> {
    let mut lines = Vec::new();
    let Ok(mut frames) = loader.find_frames(address) else { return lines };
    while let Ok(Some(frame)) = frames.next() {
        let name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
        let Some(name) = name.as_deref().or_else(|| loader.find_symbol(address)) else { continue };
        let location = frame.location.as_ref();
        lines.push(Line {
            file: location.and_then(|at| at.file).unwrap_or_default().to_owned(),
            line: location.and_then(|at| at.line).unwrap_or(0),
            ..named(name)
        });
    }
    lines
}

fn named(system_name: &str) -> Line {
    Line { function: readable(system_name), system_name: system_name.to_owned(), ..Line::default() }
}

fn readable(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    let options = cpp_demangle::DemangleOptions::default().no_return_type();
    let cxx =
        cpp_demangle::Symbol::new(name).ok().and_then(|it| it.demangle_with_options(&options).ok());
    cxx.unwrap_or_else(|| name.to_owned())
}

fn debug_files(path: &Path, file: &object::File<'_>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let everywhere = Path::new("/usr/lib/debug");
    if let Ok(Some(id)) = file.build_id()
        && let Some((first, rest)) = id.split_first()
    {
        let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
        found.push(everywhere.join(format!(".build-id/{first:02x}/{rest}.debug")));
    }
    if let Ok(Some((name, _))) = file.gnu_debuglink()
        && let (Ok(name), Some(folder)) = (std::str::from_utf8(name), path.parent())
    {
        found.push(folder.join(name));
        found.push(folder.join(".debug").join(name));
        let relative = folder.strip_prefix("/").unwrap_or(folder);
        found.push(everywhere.join(relative).join(name));
    }
    found.retain(|candidate| candidate != path && candidate.is_file());
    found
}

/// Finds names for addresses in files.
#[derive(Default)]
pub struct Files {
    programs: HashMap<PathBuf, Option<Program>>,
}

impl Files {
    /// The functions at `offset` bytes past the start of a file's first mapping, the innermost
    /// inlined one first; empty without a symbol.
    pub fn lines(&mut self, file: &Path, offset: u64) -> Vec<Line> {
        let load = || Program::load(file);
        let program = self.programs.entry(file.to_owned()).or_insert_with(load).as_ref();
        let start = |it: &Program| {
            it.segments.first().map(|(from, _, address)| address.saturating_sub(*from))
        };
        program.map_or_else(Vec::new, |it| it.lines(start(it).unwrap_or(0) + offset))
    }
}

/// Finds names for the addresses of one process.
pub(crate) struct Symbols {
    mappings: Vec<Mapping>,
    programs: HashMap<PathBuf, Option<Program>>,
    /// The root folder of the profiled process's files, as this command sees it.
    root: PathBuf,
    known: HashMap<u64, Place>,
}

impl Symbols {
    /// The symbols of a process with these mappings, whose root folder is at `root`.
    pub(crate) fn new(mappings: Vec<Mapping>, root: PathBuf) -> Self {
        Self { mappings, programs: HashMap::new(), root, known: HashMap::new() }
    }

    /// The mappings.
    pub(crate) fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    /// The place of a code address; with `is_return` the place of the call before that address.
    pub(crate) fn place(&mut self, address: u64, is_return: bool) -> &Place {
        let address = address.saturating_sub(u64::from(is_return));
        if !self.known.contains_key(&address) {
            let place = self.find(address);
            self.known.insert(address, place);
        }
        &self.known[&address]
    }

    fn find(&mut self, address: u64) -> Place {
        let holds = |mapping: &Mapping| (mapping.start..mapping.limit).contains(&address);
        let Some(number) = self.mappings.iter().position(holds) else {
            let function = format!("{address:#x}");
            return Place { mapping: None, lines: vec![Line { function, ..Line::default() }] };
        };
        let mapping = &self.mappings[number];
        let offset = address - mapping.start + mapping.offset;
        let inside = self.root.join(mapping.path.strip_prefix("/").unwrap_or(&mapping.path));
        let load = || Program::load(&inside).or_else(|| Program::load(&mapping.path));
        let program = self.programs.entry(mapping.path.clone()).or_insert_with(load);
        let lines = program.as_ref().and_then(|program| {
            let lines = program.lines(program.address(offset)?);
            (!lines.is_empty()).then_some(lines)
        });
        let unnamed = || {
            let file = mapping.path.file_name().unwrap_or(mapping.path.as_os_str());
            let function = format!("{}+{offset:#x}", file.to_string_lossy());
            vec![Line { function, ..Line::default() }]
        };
        Place { mapping: Some(number), lines: lines.unwrap_or_else(unnamed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn known_function() -> u64 {
        known_function as *const () as u64
    }

    #[test]
    fn functions_of_this_program_are_named() {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let mut symbols = Symbols::new(crate::maps::parse(&maps), "/".into());
        let place = symbols.place(known_function(), false);
        let line = place.lines.last().unwrap();
        assert!(line.function.ends_with("symbols::tests::known_function"), "{line:?}");
        assert!(line.file.ends_with("symbols.rs") && line.line > 0, "{line:?}");
        let place = symbols.place(libc::getpid as *const () as u64, false);
        assert!(place.lines[0].function.contains("getpid"), "{place:?}");
        assert_eq!(symbols.place(16, false).lines[0].function, "0x10");
    }

    #[test]
    fn names_are_readable() {
        assert_eq!(readable("_ZN3foo3barEi"), "foo::bar(int)");
        assert_eq!(readable("_RNvC6_123foo3bar"), "123foo::bar");
        assert_eq!(readable("main"), "main");
    }
}
