//! Functions and lines at the addresses of one program file, from its symbols and DWARF.
//!
//! Separate debugging information is sought where gdb seeks it: by `.gnu_debuglink` beside the
//! file, in `.debug` there, and below `/usr/lib/debug`; by build id below `/usr/lib/debug`; split
//! DWARF at the places that the file names. Another process may have written all these files, so
//! each is read through `quarry_wary` and copied: a mapped file could become shorter.

use crate::line::Line;
use addr2line::gimli::{self, Dwarf, DwarfPackage, EndianSlice, Reader as _, RunTimeEndian};
use addr2line::{Context, LookupContinuation, LookupResult, SplitDwarfLoad};
use object::{Object, ObjectSection, ObjectSegment, SymbolMap, SymbolMapName};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of bytes of all files that a command reads: they stay until the command ends.
const MOST_BYTES: u64 = 4 << 30;

static READ_BYTES: AtomicU64 = AtomicU64::new(0);

type Bytes = &'static [u8];
type Reader = EndianSlice<'static, RunTimeEndian>;

/// Counts bytes that will stay, unless all together become too many.
fn keep(bytes: u64) -> Option<()> {
    let sum = |read: u64| read.checked_add(bytes).filter(|sum| *sum <= MOST_BYTES);
    READ_BYTES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).ok().map(drop)
}

/// The bytes of an ELF file.
fn bytes_of(path: &Path) -> Option<Bytes> {
    let file = quarry_wary::open(path).ok()?;
    let mut magic = [0; 4];
    file.read_exact_at(&mut magic, 0).ok()?;
    let bytes = file.metadata().ok().filter(|_| magic == object::elf::ELFMAG)?.len();
    keep(bytes)?;
    Some(quarry_wary::read_whole(file, bytes).ok()?.leak())
}

/// The uncompressed bytes of a section; without the section none.
fn section(file: &object::File<'static>, name: Option<&str>) -> Option<Reader> {
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let bytes = match name.and_then(|name| file.section_by_name(name)) {
        None => &[],
        Some(section) => {
            let data = section.compressed_data().ok()?;
            match data.format {
                object::CompressionFormat::None => data.data,
                _ => {
                    keep(data.uncompressed_size)?;
                    data.decompress().ok()?.into_owned().leak()
                }
            }
        }
    };
    Some(EndianSlice::new(bytes, endian))
}

/// The names of one file, of the program itself or of debugging information.
struct Image {
    context: Context<Reader>,
    package: Option<DwarfPackage<Reader>>,
    symbols: SymbolMap<SymbolMapName<'static>>,
}

impl Image {
    fn of(path: &Path, file: &object::File<'static>) -> Option<Self> {
        let load = |id: gimli::SectionId| section(file, Some(id.name())).ok_or(gimli::Error::Io);
        let mut dwarf = Dwarf::load(load).ok()?;
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        let context = Context::from_dwarf(dwarf).ok()?;
        let mut beside = path.as_os_str().to_owned();
        beside.push(".dwp");
        Some(Self { context, package: package(Path::new(&beside)), symbols: file.symbol_map() })
    }

    fn symbol(&self, address: u64) -> Option<&str> {
        self.symbols.containing(address).map(SymbolMapName::name)
    }

    fn lines(&self, address: u64) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut found = self.context.find_frames(address);
        let mut frames = loop {
            match found {
                LookupResult::Output(Ok(frames)) => break frames,
                LookupResult::Output(Err(_)) => return lines,
                LookupResult::Load { load, continuation } => {
                    found = continuation.resume(self.split(&load));
                }
            }
        };
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
            let Some(name) = name.as_deref().or_else(|| self.symbol(address)) else { continue };
            let at = frame.location.as_ref();
            let file = at.and_then(|at| at.file).unwrap_or_default();
            lines.push(Line::named(name).at(file, at.and_then(|at| at.line).unwrap_or(0)));
        }
        lines
    }

    /// The split DWARF of a unit, from the file's package or from a file of its own.
    fn split(&self, load: &SplitDwarfLoad<Reader>) -> Option<Arc<Dwarf<Reader>>> {
        let package = self.package.as_ref();
        if let Some(unit) = package.and_then(|it| it.find_cu(load.dwo_id, &load.parent).ok()?) {
            return Some(Arc::new(unit));
        }
        let path = |it: &Reader| Some(PathBuf::from(OsStr::from_bytes(&it.to_slice().ok()?)));
        let folder = load.comp_dir.as_ref().and_then(path).unwrap_or_default();
        let file = object::File::parse(bytes_of(&folder.join(path(load.path.as_ref()?)?))?).ok()?;
        let of = |id: gimli::SectionId| section(&file, id.dwo_name()).ok_or(gimli::Error::Io);
        let mut dwarf = Dwarf::load(of).ok()?;
        let header = dwarf.units().next().ok()??;
        let is_it = dwarf.unit(header).ok()?.dwo_id == Some(load.dwo_id);
        dwarf.make_dwo(&load.parent);
        is_it.then(|| Arc::new(dwarf))
    }
}

fn package(path: &Path) -> Option<DwarfPackage<Reader>> {
    let file = object::File::parse(bytes_of(path)?).ok()?;
    let of = |id: gimli::SectionId| section(&file, id.dwo_name()).ok_or(gimli::Error::Io);
    DwarfPackage::load(of, section(&file, None)?).ok()
}

/// A program file, and the files of its debugging information.
pub(crate) struct Program {
    /// Those of the separate files of debugging information first, then that of the file itself.
    images: Vec<Image>,
    /// `{offset in the file, bytes, address}` of each segment.
    segments: Vec<(u64, u64, u64)>,
}

impl Program {
    /// Reads a file; `None` if it is not an ELF file.
    pub(crate) fn load(path: &Path) -> Option<Self> {
        let file = object::File::parse(bytes_of(path)?).ok()?;
        let segments = file
            .segments()
            .map(|segment| (segment.file_range().0, segment.file_range().1, segment.address()))
            .collect();
        let apart = debug_files(path, &file).into_iter().filter_map(|path| {
            let file = object::File::parse(bytes_of(&path)?).ok()?;
            Image::of(&path, &file)
        });
        let images = apart.collect::<Vec<_>>().into_iter().chain(Image::of(path, &file)).collect();
        Some(Self { images, segments })
    }

    /// The address at an offset in the file.
    pub(crate) fn address(&self, offset: u64) -> Option<u64> {
        self.segments.iter().find_map(|(from, bytes, address)| {
            let within = offset.checked_sub(*from)?;
            (within < *bytes).then_some(address.wrapping_add(within))
        })
    }

    /// The address of the first byte of the file.
    pub(crate) fn start(&self) -> u64 {
        let first = self.segments.first();
        first.map_or(0, |(from, _, address)| address.saturating_sub(*from))
    }

    /// The functions at an address, the innermost inlined one first; empty without a symbol.
    pub(crate) fn lines(&self, address: u64) -> Vec<Line> {
        let mut lines = self.images.iter().map(|image| image.lines(address));
        lines.find(|lines| !lines.is_empty()).unwrap_or_else(|| {
            let symbol = self.images.iter().find_map(|image| image.symbol(address));
            symbol.map(Line::named).into_iter().collect()
        })
    }
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
        && let Some(folder) = path.parent()
    {
        let name = OsStr::from_bytes(name);
        found.push(folder.join(name));
        found.push(folder.join(".debug").join(name));
        let relative = folder.strip_prefix("/").unwrap_or(folder);
        found.push(everywhere.join(relative).join(name));
    }
    found.retain(|candidate| candidate != path && candidate.is_file());
    found
}
