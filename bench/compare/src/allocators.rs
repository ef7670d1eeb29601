//! The allocators that can serve a sample: glibc's, Quarry's, Debian's packages, shared objects.

use crate::known::KNOWN;
use crate::{companion, interpose};
use anyhow::{Context, Result};
use procfs::process::{MMapPath, Process};
use quarry_harness::launch::{NOT_PRELOADABLE, is_preloadable};
use quarry_harness::nearest;
use quarry_harness::results::{Measurement, Variant};
use quarry_harness::usage::Usage;
use std::env::consts::ARCH;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Finds `libquarry.so`; called only if the library is needed.
pub type FindLibrary<'a> = &'a dyn Fn() -> Result<PathBuf>;

/// Name of the C library's allocator, which serves if nothing is preloaded.
pub const GLIBC: &str = "glibc";
/// Name of this project's allocator.
pub const QUARRY: &str = "quarry";

const PEERS_VARIABLE: &str = "QUARRY_PEERS";

/// An installed allocator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocator {
    /// Its name in the tables.
    pub name: String,
    /// The object that is preloaded; `None`: the C library's allocator serves.
    pub preload: Option<PathBuf>,
    /// File and version.
    pub description: String,
}

/// A thing that was found, or a line on how to install it.
pub(super) type Maybe<T> = std::result::Result<T, String>;

/// Looks for an allocator by name or by `NAME=FILE`; fails on an unknown name.
pub(super) fn find(name: &str, quarry: FindLibrary<'_>) -> Result<Maybe<Allocator>> {
    if name == GLIBC {
        return Ok(Ok(glibc()));
    }
    if name == QUARRY {
        return or_absent(name, quarry().map(|path| preloaded(name, path, None)));
    }
    if let Some((name, file)) = name.split_once('=') {
        return Ok(Ok(preloaded(name, shared_object(name, file)?, None)));
    }
    let Some(sought) = KNOWN.allocator(name) else {
        return Err(nearest::unknown("allocator", name, &[&known()[..], &["NAME=FILE"]].concat()));
    };
    let peers = if sought.is_built { peer_folders() } else { Vec::new() };
    if let Some(built) = peers.iter().find_map(|folder| built_in(folder, name)) {
        return Ok(Ok(built));
    }
    let folders =
        [&format!("/usr/lib/{ARCH}-linux-gnu"), "/usr/lib64", "/usr/lib", "/usr/local/lib"];
    let mut places =
        sought.files.iter().flat_map(|file| folders.map(|folder| Path::new(folder).join(file)));
    if let Some(path) = places.find_map(|path| path.canonicalize().ok()) {
        let version = sought.packages.iter().find_map(|package| installed(package));
        return Ok(Ok(preloaded(name, path, version)));
    }
    Ok(Err(if !sought.packages.is_empty() {
        let packages = sought.packages.join(" or ");
        format!("{name}: not installed; it is in Debian's package {packages}")
    } else if sought.is_built {
        format!("{name}: not built; `make peers` builds it, and {PEERS_VARIABLE} names its folder")
    } else {
        format!(
            "{name}: not installed, and Debian has no package of it; give {name}=FILE once it is \
             built"
        )
    }))
}

/// Turns the error of a missing library into an absent allocator; passes on errors of usage.
pub(super) fn or_absent<T>(label: &str, found: Result<T>) -> Result<Maybe<T>> {
    match found {
        Ok(found) => Ok(Ok(found)),
        Err(error) if Usage::is_cause_of(&error) => Err(error),
        Err(error) => Ok(Err(format!("{label}: {error:#}"))),
    }
}

/// The file of `NAME=FILE`. A bad file is an error: another library would change the comparison.
fn shared_object(name: &str, file: &str) -> Result<PathBuf> {
    let refusal = |why: &str| {
        Usage(format!("{name}={file}: {why}; accepted: NAME=FILE with a shared object"))
    };
    let path = Path::new(file).canonicalize().map_err(|error| refusal(&error.to_string()))?;
    if !is_preloadable(&path) {
        return Err(refusal(NOT_PRELOADABLE).into());
    }
    match interpose::is_shared_object(&path) {
        Ok(true) => Ok(path),
        Ok(false) => Err(refusal("not a shared object of this machine").into()),
        Err(error) => Err(refusal(&error.to_string()).into()),
    }
}

/// The folders of allocators and programs that `make peers` builds: the one that `QUARRY_PEERS`
/// names; without this variable, `peers` beside this command, `peers` beside its folder (as in a
/// cargo target), and the folder into which `make install` puts the programs.
pub fn peer_folders() -> Vec<PathBuf> {
    match std::env::var_os(PEERS_VARIABLE).filter(|named| !named.is_empty()) {
        Some(named) => vec![PathBuf::from(named)],
        None => {
            let this = std::env::current_exe().unwrap_or_default();
            let beside = this.ancestors().skip(1).take(2).map(|folder| folder.join("peers"));
            beside.chain(companion::places(Some(&this), "peers").into_iter().skip(1)).collect()
        }
    }
}

/// The shared object of `name` in `folder`, with the version that its builder wrote beside it.
fn built_in(folder: &Path, name: &str) -> Option<Allocator> {
    let path = folder.join(format!("lib{name}.so")).canonicalize().ok()?;
    let version = std::fs::read_to_string(path.with_extension("version"));
    Some(preloaded(name, path, version.ok().map(|version| version.trim().to_owned())))
}

/// The allocator of the C library.
pub fn glibc() -> Allocator {
    let description = "the C library's own".to_owned();
    Allocator { name: GLIBC.to_owned(), preload: None, description }
}

/// The shared object that a program links, under its known name.
pub(super) fn linked(path: &Path) -> Allocator {
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_it = |files: &[String]| files.iter().any(|it| file.starts_with(it.as_str()));
    let known = KNOWN.allocators.iter().find(|it| is_it(&it.files));
    let version = known.and_then(|it| it.packages.iter().find_map(|package| installed(package)));
    preloaded(known.map_or(&file, |it| &it.name), path.to_owned(), version)
}

pub(super) fn preloaded(name: &str, path: PathBuf, version: Option<String>) -> Allocator {
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let description = version.map_or(file.clone(), |version| format!("{file}, {version}"));
    Allocator { name: name.to_owned(), preload: Some(path), description }
}

/// Name and version of a Debian package, if it is installed.
pub fn installed(package: &str) -> Option<String> {
    let format = "${db:Status-Abbrev}|${Package} ${Version}";
    let query = Command::new("dpkg-query").args(["-W", "-f", format, package]).output();
    let text = String::from_utf8(query.ok()?.stdout).ok()?;
    Some(text.strip_prefix("ii ")?.trim_start_matches(['|', ' ']).to_owned())
}

/// The names that `--allocators` accepts without a file.
pub(super) fn known() -> Vec<&'static str> {
    let named = KNOWN.allocators.iter().map(|it| it.name.as_str());
    std::iter::once(GLIBC).chain(named).chain([QUARRY]).collect()
}

impl Allocator {
    /// Describes the allocator as a variant of a run.
    pub fn variant(&self) -> Variant {
        Variant::new(&self.name, &self.description)
    }

    /// Checks that this allocator and no other served a sample.
    ///
    /// # Errors
    /// The name of the allocator that served it instead.
    pub fn check(&self, measurement: &Measurement) -> std::result::Result<(), String> {
        let fault =
            || format!("was meant for {}, but served by {}", self.name, measurement.served_by);
        self.is_in(Path::new(&measurement.served_by)).then_some(()).ok_or_else(fault)
    }

    /// The file to preload: for glibc the C library itself, because otherwise a program that links
    /// another malloc would use that one. Fails if this process has no C library.
    pub(super) fn file(&self) -> Result<PathBuf> {
        if let Some(file) = &self.preload {
            return Ok(file.clone());
        }
        let maps = Process::myself().and_then(|it| it.maps()).context("/proc/self/maps")?;
        let is_libc = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            name.starts_with(b"libc.so") || name.starts_with(b"libc-2")
        };
        let mut libraries = maps.into_iter().filter_map(|map| match map.pathname {
            MMapPath::Path(path) => Some(path).filter(is_libc),
            _ => None,
        });
        libraries.next().context("this process has no C library of its own to compare")
    }

    /// Returns whether `object`, the path by which a loader names it, is this allocator's file.
    pub(super) fn is_in(&self, object: &Path) -> bool {
        let Ok(file) = self.file() else { return false };
        // A library that the command carries inside has a file without a name, so paths cannot be
        // compared as text.
        file.canonicalize().is_ok_and(|file| object.canonicalize().is_ok_and(|it| it == file))
            || file == object
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    fn look(name: &str) -> Result<Maybe<Allocator>> {
        find(name, &|| bail!("libquarry.so not found"))
    }

    fn measured_on(file: &str) -> Measurement {
        Measurement::of_window(1, 1, 1, 1, file)
    }

    #[test]
    fn absent_ones_are_named_with_what_to_do() {
        assert_eq!(look("quarry").unwrap().unwrap_err(), "quarry: libquarry.so not found");
        let wrong = || bail!(Usage("QUARRY_LIBRARY=/x: no such file".to_owned()));
        assert!(find("quarry", &wrong).is_err(), "named, and not there");
        let error = look("x=/no/such.so").unwrap_err();
        assert!(error.to_string().starts_with("x=/no/such.so: No such file"), "{error}");
    }

    #[test]
    fn unknown_names_are_refused_with_what_is_accepted() {
        let error = look("xyz").unwrap_err().to_string();
        let names: Vec<&str> = KNOWN.allocators.iter().map(|it| it.name.as_str()).collect();
        let accepted = format!("accepted: glibc, {}, quarry, NAME=FILE", names.join(", "));
        assert_eq!(error, format!("no allocator xyz; {accepted}"));
        let error = look("mimaloc").unwrap_err().to_string();
        assert!(error.starts_with("no allocator mimaloc; did you mean mimalloc"), "{error}");
    }

    #[test]
    fn each_that_is_known_is_there_or_its_package_is_named() {
        for known in &KNOWN.allocators {
            let advice = match known.packages.first() {
                Some(package) => package,
                None if known.is_built => "`make peers` builds it",
                None => "Debian has no package of it",
            };
            match look(&known.name).unwrap() {
                Ok(allocator) => assert!(allocator.preload.unwrap().is_absolute()),
                Err(said) => assert!(said.contains(advice), "{said}"),
            }
        }
    }

    #[test]
    fn built_ones_are_found_with_their_versions() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(built_in(folder.path(), "mimalloc3"), None);
        std::fs::write(folder.path().join("libmimalloc3.so"), "").unwrap();
        std::fs::write(folder.path().join("libmimalloc3.version"), "mimalloc 3.9\n").unwrap();
        let found = built_in(folder.path(), "mimalloc3").unwrap();
        assert_eq!(found.description, "libmimalloc3.so, mimalloc 3.9");
    }

    #[test]
    fn a_sample_of_another_allocator_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.so");
        std::fs::copy("/proc/self/exe", &file).unwrap();
        let spec = format!("a={}", file.display());
        let [glibc, other] = ["glibc", &spec].map(|name| look(name).unwrap().unwrap());
        let libc = glibc.file().unwrap().display().to_string();
        let (on_libc, on_other) = (measured_on(&libc), measured_on(file.to_str().unwrap()));
        assert!(glibc.check(&measured_on("/no/such")).is_err());
        assert_eq!(glibc.check(&on_libc), Ok(()));
        assert_eq!(other.check(&on_other), Ok(()));
        assert!(glibc.check(&on_other).is_err());
        let error = other.check(&on_libc).unwrap_err();
        assert_eq!(error, format!("was meant for a, but served by {libc}"));
    }
}
