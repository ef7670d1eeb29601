//! Names of functions, files and lines for code addresses in the mapped files of a process.

use crate::line::Line;
use crate::maps::Mapping;
use crate::perf_map::PerfMap;
use crate::program::Program;
use quarry_wary::plain;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The mapping and the functions at an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The number of its mapping.
    pub(crate) mapping: Option<usize>,
    /// The functions, the innermost inlined one first; never empty.
    pub(crate) lines: Vec<Line>,
}

/// Files that were read, by path; `None` for what is no ELF file.
pub(crate) type Programs = HashMap<PathBuf, Option<Program>>;

/// Finds names for addresses in files.
#[derive(Default)]
pub struct Files {
    programs: Programs,
}

impl Files {
    /// The functions at `offset` bytes past the start of a file's first mapping, the innermost
    /// inlined one first; empty without a symbol.
    pub fn lines(&mut self, file: &Path, offset: u64) -> Vec<Line> {
        let load = || Program::load(file);
        let program = self.programs.entry(file.to_owned()).or_insert_with(load).as_ref();
        program.map_or_else(Vec::new, |it| it.lines(it.start().wrapping_add(offset)))
    }
}

/// Finds names for the addresses of one process.
pub(crate) struct Symbols {
    mappings: Vec<Mapping>,
    pub(crate) programs: Programs,
    /// The root folder of the profiled process's files, as this command sees it.
    root: PathBuf,
    /// Functions that the process has compiled itself.
    compiled: PerfMap,
    known: HashMap<u64, Rc<Place>>,
}

impl Symbols {
    /// The symbols of a process with these mappings, whose root folder is at `root`.
    pub(crate) fn new(mappings: Vec<Mapping>, root: PathBuf, compiled: PerfMap) -> Self {
        Self { mappings, programs: Programs::new(), root, compiled, known: HashMap::new() }
    }

    /// The mappings.
    pub(crate) fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    /// The place of a code address; with `is_return` the place of the call before that address.
    pub(crate) fn place(&mut self, address: u64, is_return: bool) -> Rc<Place> {
        let address = address.saturating_sub(u64::from(is_return));
        if let Some(place) = self.known.get(&address) {
            return Rc::clone(place);
        }
        let place = Rc::new(self.find(address));
        self.known.insert(address, Rc::clone(&place));
        place
    }

    fn find(&mut self, address: u64) -> Place {
        let named =
            |function: &str| vec![Line { function: function.to_owned(), ..Line::default() }];
        let compiled = self.compiled.name(address).map(named);
        let holds = |mapping: &Mapping| (mapping.start..mapping.limit).contains(&address);
        let after = self.mappings.partition_point(|mapping| mapping.start <= address);
        let Some(number) = after.checked_sub(1).filter(|it| holds(&self.mappings[*it])) else {
            let lines = compiled.unwrap_or_else(|| named(&format!("{address:#x}")));
            return Place { mapping: None, lines };
        };
        let mapping = &self.mappings[number];
        let offset = (address - mapping.start).wrapping_add(mapping.offset);
        let inside = self.root.join(mapping.path.strip_prefix("/").unwrap_or(&mapping.path));
        let load = || Program::load(&inside).or_else(|| Program::load(&mapping.path));
        let program = self.programs.entry(mapping.path.clone()).or_insert_with(load);
        let lines = program.as_ref().and_then(|program| {
            let lines = program.lines(program.address(offset)?);
            (!lines.is_empty()).then_some(lines)
        });
        let unnamed = || {
            let file = mapping.path.file_name().unwrap_or(mapping.path.as_os_str());
            named(&format!("{}+{offset:#x}", plain(&file.to_string_lossy())))
        };
        Place { mapping: Some(number), lines: lines.or(compiled).unwrap_or_else(unnamed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::{Object, ObjectSymbol};
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    #[inline(never)]
    fn known_function() -> u64 {
        known_function as *const () as u64
    }

    #[test]
    fn functions_of_this_program_are_named() {
        let maps = fs::read("/proc/self/maps").unwrap();
        let mut symbols = Symbols::new(crate::maps::parse(&maps), "/".into(), PerfMap::default());
        let place = symbols.place(known_function(), false);
        let line = place.lines.last().unwrap();
        assert!(line.function.ends_with("symbols::tests::known_function"), "{line:?}");
        assert!(line.file.ends_with("symbols.rs") && line.line > 0, "{line:?}");
        let place = symbols.place(libc::getpid as *const () as u64, false);
        assert!(place.lines[0].function.contains("getpid"), "{place:?}");
        assert_eq!(symbols.place(16, false).lines[0].function, "0x10");
    }

    /// Compiled code is in memory of no file, or in a file that has no symbols.
    #[test]
    fn compiled_functions_have_the_names_that_the_process_wrote_down() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("tmp")).unwrap();
        let map = "100 10 py::handle:/srv/app.py\n2010 10 jitted\n";
        fs::write(root.path().join("tmp/perf-7.map"), map).unwrap();
        let compiled = PerfMap::of(root.path(), 7, 0);
        let path = PathBuf::from("/memfd:doublemapper");
        let mapping = Mapping { start: 0x2000, limit: 0x3000, offset: 0, path };
        let mut symbols = Symbols::new(vec![mapping], root.path().into(), compiled);
        let mut name = |address| symbols.place(address, true).lines[0].function.clone();
        assert_eq!([name(0x101), name(0x110)], ["py::handle:/srv/app.py"; 2]);
        assert_eq!([name(0x111), name(0x2011)], ["0x110", "jitted"]);
        assert_eq!(name(0x2021), "memfd:doublemapper+0x20");
    }

    /// A program can replace its file by a pipe, at whose end a reader would wait for ever.
    #[test]
    fn a_file_that_is_no_regular_file_has_no_names() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pi\x1bpe");
        let status = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(status.unwrap().success());
        for file in [&*pipe, Path::new("/dev/zero"), folder.path()] {
            assert_eq!(Files::default().lines(file, u64::MAX), []);
            let mapping = Mapping { start: 0, limit: 9, offset: u64::MAX, path: file.into() };
            let mut symbols = Symbols::new(vec![mapping], "/".into(), PerfMap::default());
            let name = symbols.place(5, false).lines[0].function.clone();
            assert!(name.ends_with("+0x4") && name.chars().all(quarry_wary::is_plain), "{name}");
        }
    }

    /// Debugging information in a file of its own, split DWARF, and a path of any bytes.
    #[test]
    fn lines_are_found_where_a_compiler_or_a_packager_puts_them() {
        let folder = tempfile::tempdir().unwrap();
        let odd = folder.path().join(std::ffi::OsStr::from_bytes(b"gr\xf6\xdfe"));
        fs::create_dir(&odd).unwrap();
        fs::write(odd.join("a.c"), "int twice(int x) {\n    return 2 * x;\n}\n").unwrap();
        let run = |program: &str, arguments: &[&str]| {
            let mut command = std::process::Command::new(program);
            let status = command.current_dir(&odd).args(arguments).status();
            assert!(status.unwrap().success(), "{program} {arguments:?}");
        };
        let all = ["-shared", "-fPIC", "-g", "-gz=zlib", "a.c", "-o"];
        run("cc", &[&all[..], &["plain.so"]].concat());
        run("cc", &[&all[..], &["split.so", "-gsplit-dwarf"]].concat());
        run("objcopy", &["--only-keep-debug", "plain.so", "apart.so.debug"]);
        run("objcopy", &["-S", "--add-gnu-debuglink=apart.so.debug", "plain.so", "apart.so"]);
        for name in ["plain.so", "split.so", "apart.so"] {
            let bytes = fs::read(odd.join("plain.so")).unwrap();
            let symbol = object::File::parse(&*bytes).unwrap();
            let symbol = symbol.symbols().find(|it| it.name() == Ok("twice")).unwrap().address();
            let lines = Files::default().lines(&odd.join(name), symbol + 4);
            let [line] = &lines[..] else { panic!("{name}: {lines:?}") };
            assert_eq!((&*line.function, line.line), ("twice", 1), "{name}: {line:?}");
            assert!(line.file.ends_with("/a.c"), "{name}: {line:?}");
        }
    }
}
