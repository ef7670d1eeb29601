//! Finds the shared object: beside the command, or inside it.

use crate::policies;
use anyhow::{Result, anyhow, ensure};
use flate2::read::GzDecoder;
use nix::sys::memfd::{MFdFlags, memfd_create};
use object::{Object, ObjectSection};
use quarry_compare::{companion, interpose};
use quarry_harness::Usage;
use quarry_harness::launch::{NOT_PRELOADABLE, is_preloadable};
use quarry_mm::heap::options::asks_for_records;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Names a library, or a folder of libraries, to use instead of the installed one.
pub const LIBRARY_VARIABLE: &str = "QUARRY_LIBRARY";

/// `libquarry-full.so`: the default slab policy with checks, page cache and all of `quarry.h`.
pub const FULL: &str = "full";

/// Returns the name of the object to preload: that of the slab policy, else [`FULL`] if a setting
/// needs checks, else `None` for `libquarry.so`. All objects but `libquarry.so` have checks.
pub fn object_for<'a>(
    slab: Option<&'a str>,
    mut settings: impl Iterator<Item = (&'a str, &'a str)>,
) -> Option<&'a str> {
    let slab = slab.filter(|slab| *slab != policies::DEFAULT);
    slab.or_else(|| settings.any(|(key, value)| asks_for_records(key, value)).then_some(FULL))
}

/// The target of `make` that builds a library.
fn make_of(name: &str) -> &'static str {
    match name.strip_prefix("libquarry") {
        Some(".so" | "-full.so") => "make build",
        Some(policy) if policy.starts_with('-') => "make policies",
        _ => "make lab",
    }
}

/// File name of a shared object: for a slab policy, whose name may be an alias, or for [`FULL`].
fn file_name(object: Option<&str>) -> String {
    match object.map(|name| policies::named(name).unwrap_or(name)) {
        None | Some(policies::DEFAULT) => "libquarry.so".to_owned(),
        Some(other) => format!("libquarry-{other}.so"),
    }
}

/// Finds the library: the file `named`, else the file of `object` (see [`object_for`]). The path is
/// absolute, and has no colon or space, which `LD_PRELOAD` could not hold.
///
/// # Errors
/// If there is no such library; a [`Usage`] error if the user has named it.
pub fn find(object: Option<&str>, named: Option<OsString>) -> Result<PathBuf> {
    let name = file_name(object);
    let by_option = named.map(|value| ("--set LIBRARY", value));
    let by_variable = || Some((LIBRARY_VARIABLE, env::var_os(LIBRARY_VARIABLE)?));
    preloadable(match by_option.or_else(by_variable).filter(|(_, value)| !value.is_empty()) {
        Some((by, value)) => find_named(by, PathBuf::from(value), &name)?,
        None => find_beside(&name)?,
    })
}

/// Finds the library of `object` for a program that musl's loader loads: the file `named`, else the
/// one beside that of [`find`], whose name ends in `-musl.so`. `None` if it was not built.
///
/// # Errors
/// As for [`find`].
pub fn find_for_musl(object: Option<&str>, named: Option<OsString>) -> Result<Option<PathBuf>> {
    let named = named.or_else(|| env::var_os(LIBRARY_VARIABLE)).filter(|value| !value.is_empty());
    let name = file_name(object).replace(".so", "-musl.so");
    let found = match named.map(PathBuf::from) {
        Some(folder) if folder.is_dir() => Some(folder.join(name)),
        Some(_) => return Ok(None),
        None => companion::places(env::current_exe().ok().as_deref(), &name)
            .into_iter()
            .find(|place| place.is_file()),
    };
    let found = found.and_then(|it| it.canonicalize().ok());
    found.map(preloadable).transpose()
}

/// Finds another file that is built and installed with the command, like [`find`].
pub fn find_companion(name: &str) -> Result<PathBuf> {
    preloadable(find_beside(name)?)
}

fn preloadable(path: PathBuf) -> Result<PathBuf> {
    let shown = path.display();
    ensure!(
        is_preloadable(&path),
        "{shown}: {NOT_PRELOADABLE}; name a copy elsewhere in {LIBRARY_VARIABLE}"
    );
    Ok(path)
}

/// Returns the file that the user named, or fails: any other library would change the run.
fn find_named(by: &str, value: PathBuf, name: &str) -> Result<PathBuf> {
    let refusal = |why: String| {
        Usage(format!(
            "{by}={}: {why}; accepted: a shared object such as libquarry.so, or a folder that has \
             it",
            value.display()
        ))
    };
    let place = if value.is_dir() { value.join(name) } else { value.clone() };
    let missing = |error: io::Error| match place == value {
        true => refusal(error.to_string()),
        false => refusal(format!("{name} in it: {error}")),
    };
    let path = place.canonicalize().map_err(missing)?;
    let is_one = interpose::is_shared_object(&path).map_err(|error| refusal(error.to_string()))?;
    ensure!(is_one, refusal("not a shared object of this machine".to_owned()));
    Ok(path)
}

/// The installed or freshly built library, or the one inside the command.
fn find_beside(name: &str) -> Result<PathBuf> {
    let places = companion::places(env::current_exe().ok().as_deref(), name);
    let found = places.iter().find(|place| place.is_file()).and_then(|it| it.canonicalize().ok());
    if let Some(found) = found {
        return Ok(found);
    }
    if let Some(bytes) = embedded(name) {
        return unpack(name, &bytes)
            .map_err(|error| anyhow!("cannot write the embedded library: {error}"));
    }
    let places: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
    let (places, make) = (places.join(", "), make_of(name));
    Err(anyhow!("{name} not found in {places}; build it ({make}) or name it in {LIBRARY_VARIABLE}"))
}

/// The shared object inside this command, compressed in a section that `scripts/embed.sh` adds.
fn embedded(name: &str) -> Option<Vec<u8>> {
    let this = fs::read(env::current_exe().ok()?).ok()?;
    let file = object::File::parse(&this[..]).ok()?;
    let section = file.section_by_name(&format!(".{name}"))?;
    let mut bytes = Vec::new();
    GzDecoder::new(section.data().ok()?).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Writes the embedded library into the user's cache folder, else into a file without a name.
fn unpack(name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    let cached = cache_folder().and_then(|folder| unpack_into(&folder, name, bytes).ok());
    cached.map_or_else(|| unpack_anonymous(name, bytes), Ok)
}

/// `$XDG_CACHE_HOME/quarry` or `~/.cache/quarry`, not `/tmp`, where other users can write.
fn cache_folder() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(base.join("quarry"))
}

/// Writes `bytes` into `folder`, below a folder for the version. An existing file is used only if
/// it holds exactly these bytes; a new one appears complete or not at all.
fn unpack_into(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    let version = folder.join(env!("CARGO_PKG_VERSION"));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&version)?;
    let path = version.join(name);
    if fs::read(&path).is_ok_and(|present| present == bytes) {
        return Ok(path);
    }
    let partial = version.join(format!(".{name}.{}", std::process::id()));
    fs::write(&partial, bytes)?;
    fs::set_permissions(&partial, fs::Permissions::from_mode(0o755))?;
    fs::rename(&partial, &path)?;
    Ok(path)
}

fn unpack_anonymous(name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    // Without close-on-exec: the program and its children open the descriptor by its number.
    let mut file = fs::File::from(memfd_create(name, MFdFlags::empty())?);
    file.write_all(bytes)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let _ = file.into_raw_fd(); // stays open across exec
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_library_per_slab_policy() {
        assert_eq!(file_name(None), "libquarry.so");
        assert_eq!(file_name(Some("sheaf")), "libquarry.so");
        assert_eq!(file_name(Some("slub-3.0")), "libquarry-slub-3.0.so");
        assert_eq!(file_name(Some("slub")), "libquarry-slub-4.9.so", "an alias");
        assert_eq!(file_name(Some(FULL)), "libquarry-full.so");
    }

    #[test]
    fn records_need_the_full_object() {
        let object = |slab, settings: &[(&'static str, &'static str)]| {
            object_for(slab, settings.iter().copied())
        };
        assert_eq!(object(None, &[("GUARD", "all"), ("HARDEN", "0"), ("DEBUG", "-")]), None);
        for asks in [("HARDEN", "1"), ("DEBUG", "FZ")] {
            assert_eq!(object(None, &[("THP", "0"), asks]), Some(FULL), "{asks:?}");
            assert_eq!(object(Some("sheaf"), &[asks]), Some(FULL), "{asks:?}");
            assert_eq!(object(Some("slub"), &[asks]), Some("slub"), "{asks:?}");
        }
    }

    #[test]
    fn unpacks_once_and_replaces_what_differs() {
        let folder = tempfile::tempdir().unwrap();
        let path = unpack_into(folder.path(), "libquarry.so", b"one").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one");
        fs::write(&path, b"tampered").unwrap();
        assert_eq!(unpack_into(folder.path(), "libquarry.so", b"one").unwrap(), path);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn an_anonymous_file_holds_the_library() {
        let path = unpack_anonymous("libquarry.so", b"bytes").unwrap();
        assert_eq!(fs::read(path).unwrap(), b"bytes");
    }
}
