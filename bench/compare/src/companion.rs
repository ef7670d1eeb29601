//! Files that are built and installed with the command: libraries, and programs that it starts.

use anyhow::{Context, Result, bail};
use quarry_harness::usage::Usage;
use std::env;
use std::path::{Path, PathBuf};

/// The path of an installed file below the folder of libraries: a file that programs link has the
/// version of the ABI in its name, and any other file is in the folder `quarry`.
fn installed_as(name: &str) -> PathBuf {
    match name {
        "libquarry.so" | "libquarry-full.so" => PathBuf::from(format!("{name}.0")),
        other => Path::new("quarry").join(other),
    }
}

/// The places where a file with this name may be installed or built, seen from the command `exe`.
#[must_use]
pub fn places(exe: Option<&Path>, name: &str) -> Vec<PathBuf> {
    let Some(folder) = exe.and_then(Path::parent) else { return Vec::new() };
    let mut places = vec![folder.join(name)];
    if let Some(above) = folder.parent() {
        // Debian has the libraries of each architecture in a folder of their own.
        let multiarch = format!("{}-linux-gnu", env::consts::ARCH);
        for lib in [above.join("lib"), above.join("lib").join(multiarch)] {
            places.push(lib.join(installed_as(name)));
        }
        // If `above` has one of these marks of Cargo, it is a target folder: `release` in it has
        // the libraries, and `tools` the programs; `exe` may be in either.
        if ["CACHEDIR.TAG", ".rustc_info.json"].iter().any(|mark| above.join(mark).is_file()) {
            let others = ["release", "tools"].map(|profile| above.join(profile));
            places.extend(others.iter().filter(|it| *it != folder).map(|it| it.join(name)));
        }
    }
    places
}

/// Finds a program: the file that `variable` names, else the one installed or built with this
/// executable.
///
/// # Errors
/// If it is not there; the message names the places and how to build it.
pub fn find(name: &str, variable: &str) -> Result<PathBuf> {
    if let Some(file) = env::var_os(variable).map(PathBuf::from) {
        if !file.is_file() {
            bail!(Usage(format!("{variable}={}: no such file; accepted: {name}", file.display())));
        }
        return Ok(file);
    }
    let exe = env::current_exe().context("cannot find this executable")?;
    let places = places(Some(&exe), name);
    if let Some(found) = places.iter().find(|place| place.is_file()) {
        return Ok(found.clone());
    }
    let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
    bail!("{name} is not in {}: `make lab` builds it, or {variable} names it", places.join(", "))
}

/// The folder of the scripts that drive programs: that of the source, else the installed one.
#[must_use]
pub fn scripts() -> PathBuf {
    let source = PathBuf::from("scripts/programs");
    let exe = env::current_exe().unwrap_or_default();
    let installed = exe.ancestors().nth(2).map(|above| above.join("share/quarry/programs"));
    installed.filter(|it| !source.is_dir() && it.is_dir()).unwrap_or(source)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::{env, fs};

    #[test]
    fn looks_beside_the_command_then_in_lib() {
        let multiarch = format!("/opt/q/lib/{}-linux-gnu", env::consts::ARCH);
        let places = |name| super::places(Some(Path::new("/opt/q/bin/quarry")), name);
        let expected = [
            "/opt/q/bin/libquarry.so".to_owned(),
            "/opt/q/lib/libquarry.so.0".to_owned(),
            format!("{multiarch}/libquarry.so.0"),
        ];
        assert_eq!(places("libquarry.so"), expected.map(PathBuf::from));
        let expected = [
            "/opt/q/bin/libquarry-slub-4.9.so".to_owned(),
            "/opt/q/lib/quarry/libquarry-slub-4.9.so".to_owned(),
            format!("{multiarch}/quarry/libquarry-slub-4.9.so"),
        ];
        assert_eq!(places("libquarry-slub-4.9.so"), expected.map(PathBuf::from));
    }

    #[test]
    fn looks_into_the_folders_of_a_cargo_target() {
        for mark in ["CACHEDIR.TAG", ".rustc_info.json"] {
            let target = tempfile::tempdir().unwrap();
            fs::write(target.path().join(mark), "").unwrap();
            let exe = target.path().join("tools/quarry");
            let places = super::places(Some(&exe), "libquarry.so");
            let [release, beside] = ["release", "tools"].map(|profile| target.path().join(profile));
            assert_eq!(places.first(), Some(&beside.join("libquarry.so")), "{places:?}");
            assert_eq!(places.last(), Some(&release.join("libquarry.so")), "and no place twice");
        }
    }
}
