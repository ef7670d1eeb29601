//! The files of the repository, and cargo's description of its crates.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A text file of the repository.
pub struct TextFile {
    /// Path from the root, with `/`.
    pub path: String,
    /// Its contents.
    pub text: String,
}

/// The root of the repository.
///
/// # Panics
/// Where the crate was moved out of `scripts/tidy`.
#[must_use]
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().and_then(Path::parent).expect("this crate lies in scripts/tidy").to_owned()
}

/// The parts of the repository, each with its crates: the product; the bench, which measures any
/// allocator under any program; the lab of the documents. A part uses those before it.
pub const PARTS: [&str; 3] = ["malloc", "bench", "lab"];

/// The sources of the crate that a file belongs to, with `/` at the end: `bench/cli/src/`.
#[must_use]
pub fn sources_of(path: &str) -> Option<&str> {
    let (part, inner) = path.split_once('/')?;
    let name = inner.split_once("/src/").filter(|(name, _)| !name.contains('/'))?.0;
    PARTS.contains(&part).then(|| &path[..part.len() + name.len() + "//src/".len()])
}

/// Paths of all files that git tracks or would track, from the root, sorted. Without git (a source
/// archive) all files but those of `target` and of hidden folders other than `.ci`.
#[must_use]
pub fn file_names() -> Vec<String> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output();
    let mut names: Vec<String> = match listed {
        Ok(output) if output.status.success() && !output.stdout.is_empty() => {
            String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
        }
        _ => walk(&root(), ""),
    };
    names.retain(|name| root().join(name).is_file());
    names.sort();
    names.dedup();
    names
}

fn walk(folder: &Path, prefix: &str) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if entry.path().is_dir() {
            if name != "target" && (!name.starts_with('.') || name == ".ci") {
                names.extend(walk(&entry.path(), &format!("{path}/")));
            }
        } else {
            names.push(path);
        }
    }
    names
}

/// All text files whose name ends in one of `endings` (all of them for an empty list).
#[must_use]
pub fn text_files(endings: &[&str]) -> Vec<TextFile> {
    file_names()
        .into_iter()
        .filter(|name| endings.is_empty() || endings.iter().any(|ending| name.ends_with(ending)))
        .filter_map(|path| {
            let text = std::fs::read_to_string(root().join(&path)).ok()?;
            Some(TextFile { path, text })
        })
        .collect()
}

/// The folders of the workspaces: product and bench, and the lab.
pub const WORKSPACES: [&str; 2] = [".", "lab"];

/// The output of `cargo metadata` in each workspace, for the dependencies of this platform only.
///
/// # Panics
/// Where cargo fails; its message is part of the panic.
#[must_use]
pub fn cargo_metadata() -> [Value; 2] {
    WORKSPACES.map(metadata_of)
}

/// The same of the workspace in one folder; `scripts/model` has that of the model checker.
///
/// # Panics
/// Where cargo fails; its message is part of the panic.
#[must_use]
pub fn metadata_of(folder: &str) -> Value {
    let host = env!("QUARRY_TIDY_HOST");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", host])
        .current_dir(root().join(folder))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

/// The packages of the workspaces, as `cargo metadata` describes them.
#[must_use]
pub fn members(workspaces: &[Value]) -> Vec<&Value> {
    workspaces.iter().flat_map(members_of).collect()
}

fn members_of(workspace: &Value) -> Vec<&Value> {
    let ids: Vec<&Value> =
        workspace["workspace_members"].as_array().into_iter().flatten().collect();
    packages_of(workspace).filter(|package| ids.contains(&&package["id"])).collect()
}

/// All packages that the workspaces are built from, their own included; some twice.
#[must_use]
pub fn packages(workspaces: &[Value]) -> Vec<&Value> {
    workspaces.iter().flat_map(packages_of).collect()
}

fn packages_of(workspace: &Value) -> impl Iterator<Item = &Value> {
    workspace["packages"].as_array().into_iter().flatten()
}
