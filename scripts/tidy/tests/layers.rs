//! Each layer uses only those below it, between crates and between the modules of `mm` and `cache`.

use quarry_tidy::rust::{RustFile, line_of, words};
use quarry_tidy::workspace::{PARTS, cargo_metadata, file_names, members, root};
use quarry_tidy::{Breach, expect_none};
use serde_json::Value;

/// Crates from the bottom up; those in one row do not know each other.
const CRATES: &[&[&str]] = &[
    &["quarry-record"],
    &["quarry-sys", "quarry-wary"],
    &["quarry-trace"],
    &["quarry-mm"],
    &["quarry-cache", "quarry-watch"],
    &["quarry-eras"],
    &["quarry-alloc", "quarry-replay", "quarry-library-mm"],
    &["quarry-library-alloc"],
    &[
        "quarry-preload",
        "quarry-static",
        "quarry-library",
        "quarry-sqlite",
        "quarry-harness",
        "quarry-live",
        "quarry-sim",
        "quarry-tracer",
    ],
    &[
        "quarry-sqlite-object",
        "quarry-sqlite-load",
        "quarry-compare",
        "quarry-profile",
        "quarry-predict",
    ],
    &["quarry-cli"],
    &["quarry-lab", "rust-jobs", "redb-on-quarry", "rusqlite-on-quarry"],
];

/// Stands beside the layers: looks at all of them, and nothing depends on it.
const TIDY: &str = "quarry-tidy";

/// Modules of these crates from the bottom up.
const MODULES: &[(&str, &[&str])] = &[
    ("malloc/mm/src/", &["frame", "zone", "pcp", "slab", "heap", "own_heap", "stack"]),
    ("malloc/cache/src/", &["lru", "page_cache", "stack"]),
    ("lab/eras/src/", &["registry", "lru", "pages", "slab"]),
];

/// A crate, and the crates not below it that only its tests use.
const FOR_TESTS: &[(&str, &[&str])] = &[
    // The tests of a crate enable its features.
    ("quarry-mm", &["quarry-cache", "quarry-watch", "quarry-mm"]),
    ("quarry-alloc", &["quarry-alloc"]),
];

/// Crates whose code runs inside `malloc`: they use no crate but `libc` and those below them.
const INSIDE_MALLOC: &[&str] = &[
    "quarry-record",
    "quarry-sys",
    "quarry-mm",
    "quarry-cache",
    "quarry-watch",
    "quarry-eras",
    "quarry-library-mm",
    "quarry-library-alloc",
    "quarry-library",
    "quarry-alloc",
    "quarry-preload",
    "quarry-static",
];

fn layer(name: &str) -> Option<usize> {
    CRATES.iter().position(|row| row.contains(&name))
}

/// The dependencies of the workspace: a crate, the crate that it uses, and how.
fn dependencies(metadata: &[Value]) -> Vec<(&str, &str, &Value)> {
    let mut all = Vec::new();
    for package in members(metadata) {
        let name = package["name"].as_str().unwrap_or_default();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            all.push((name, dependency["name"].as_str().unwrap_or_default(), dependency));
        }
    }
    all
}

#[test]
fn crates_depend_only_on_lower_layers() {
    let metadata = cargo_metadata();
    let members = members(&metadata);
    let names: Vec<&str> = members.iter().filter_map(|package| package["name"].as_str()).collect();
    assert!(names.len() >= 6, "cargo metadata lists the workspace: {names:?}");
    let mut breaches = Vec::new();
    for package in &members {
        let name = package["name"].as_str().unwrap_or_default();
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let on = dependency["name"].as_str().unwrap_or_default();
            let for_tests = FOR_TESTS.iter().any(|(from, to)| *from == name && to.contains(&on));
            let allowed = match (layer(name), layer(on)) {
                _ if !names.contains(&on) => true,
                _ if dependency["kind"] == "dev" && for_tests => true,
                (Some(from), Some(to)) => to < from,
                _ => false,
            };
            if !allowed {
                breaches.push(Breach::new(manifest, 0, format!("{name} must not use {on}")));
            }
        }
        if layer(name).is_none() && name != TIDY {
            let message = format!("{name} has no layer: add it to CRATES in scripts/tidy");
            breaches.push(Breach::new(manifest, 0, message));
        }
    }
    expect_none("crate layers", &breaches);
}

#[test]
fn code_inside_malloc_uses_no_crate_but_libc() {
    let metadata = cargo_metadata();
    let mut breaches = Vec::new();
    for (name, on, dependency) in dependencies(&metadata) {
        let for_tests = dependency["kind"] == "dev";
        // A program that enables this feature has the crate already.
        let is_asked_for = on == "allocator-api2" && dependency["optional"] == true;
        let ours = on == "libc" || is_asked_for || layer(on).is_some();
        if INSIDE_MALLOC.contains(&name) && !for_tests && !ours {
            let message = format!("{name} must not use {on}: only libc and lower layers");
            breaches.push(Breach::new(name, 0, message));
        }
    }
    expect_none("dependencies inside malloc", &breaches);
}

/// A part uses only itself and the parts before it. So a build of the product compiles neither the
/// bench nor the lab.
#[test]
fn parts_use_only_those_before_them() {
    let metadata = cargo_metadata();
    let part_of = |name: &str| {
        let package = members(&metadata).into_iter().find(|package| package["name"] == name)?;
        let manifest = package["manifest_path"].as_str()?.strip_prefix(root().to_str()?)?;
        PARTS.iter().position(|part| manifest.starts_with(&format!("/{part}/")))
    };
    let mut breaches = Vec::new();
    let mut seen = [0; PARTS.len()];
    for (name, on, _) in dependencies(&metadata) {
        if name == TIDY {
            continue;
        }
        let Some(own) = part_of(name) else {
            breaches.push(Breach::new(name, 0, format!("lies in none of {PARTS:?}")));
            continue;
        };
        seen[own] += 1;
        if let Some(other) = part_of(on).filter(|other| *other > own) {
            let (own, other) = (PARTS[own], PARTS[other]);
            breaches.push(Breach::new(name, 0, format!("{own} must not use {on} of {other}")));
        }
    }
    assert!(seen.iter().all(|crates| *crates > 0), "every part has dependencies: {seen:?}");
    expect_none("parts", &breaches);
}

/// Measuring serves any allocator: `harness` and `compare` use no crate that runs in `malloc`.
#[test]
fn measuring_knows_no_allocator() {
    let metadata = cargo_metadata();
    let mut breaches = Vec::new();
    for (name, on, _) in dependencies(&metadata) {
        if ["quarry-harness", "quarry-compare"].contains(&name) && INSIDE_MALLOC.contains(&on) {
            breaches.push(Breach::new(name, 0, format!("{name} must not use {on}")));
        }
    }
    expect_none("dependencies of measuring", &breaches);
}

#[test]
fn modules_use_only_lower_modules() {
    let (mut breaches, mut seen) = (Vec::new(), 0);
    for file in RustFile::all() {
        let Some((inner, modules)) = MODULES
            .iter()
            .find_map(|(src, modules)| Some((file.path.strip_prefix(src)?, *modules)))
        else {
            continue;
        };
        seen += 1;
        if inner == "lib.rs" {
            continue;
        }
        let own = inner.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        let Some(rank) = modules.iter().position(|module| *module == own) else {
            let message = format!("module {own} has no layer: add it to MODULES in scripts/tidy");
            breaches.push(Breach::new(&file.path, 0, message));
            continue;
        };
        for (offset, used) in used_modules(&file.shipped, inner) {
            let below = modules.iter().position(|module| *module == used);
            if below.is_none_or(|below| below > rank) {
                let line = line_of(&file.shipped, offset);
                let message = format!("{own} must not use {used} (order: {modules:?})");
                breaches.push(Breach::new(&file.path, line, message));
            }
        }
    }
    assert!(seen > 100, "{seen} files have a layer");
    expect_none("module layers", &breaches);
}

/// Top-level modules of the crate that a file names by `crate::` or by enough `super::`.
fn used_modules(code: &str, inner: &str) -> Vec<(usize, String)> {
    let depth = inner.trim_end_matches("/mod.rs").trim_end_matches(".rs").split('/').count();
    let to_root = "super::".repeat(depth);
    let mut used = Vec::new();
    for start in ["crate::".to_owned(), to_root] {
        for offset in words(code, start.trim_end_matches("::")) {
            let is_deeper = code[..offset].ends_with("super::");
            let Some(rest) = code[offset..].strip_prefix(&start).filter(|_| !is_deeper) else {
                continue;
            };
            used.extend(first_segments(rest).into_iter().map(|name| (offset, name)));
        }
    }
    used.retain(|(_, name)| name != "super" && !name.is_empty());
    used
}

/// First segments of a path, or of each path of a group in braces.
fn first_segments(path: &str) -> Vec<String> {
    let segment = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let Some(group) = path.strip_prefix('{') else { return vec![segment(path)] };
    let (mut depth, mut names, mut start) = (0usize, Vec::new(), 0);
    for (at, byte) in group.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth > 0 => depth -= 1,
            b'}' => {
                names.push(segment(&group[start..at]));
                break;
            }
            b',' if depth == 0 => {
                names.push(segment(&group[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    names
}

#[test]
fn the_scan_for_modules_sees_groups_and_supers() {
    let code =
        "use crate::frame::Pfn;\nuse crate::{heap, zone::{A, B}};\nuse super::super::slab::S;";
    let mut names: Vec<String> =
        used_modules(code, "pcp/v2016.rs").into_iter().map(|(_, name)| name).collect();
    names.sort();
    assert_eq!(names, ["frame", "heap", "slab", "zone"]);
    assert!(used_modules("use super::Page;", "pcp/v2016.rs").is_empty());
    assert_eq!(used_modules("use super::zone::Z;", "pcp/mod.rs").len(), 1);
}

/// Each crate takes lints, version, edition and licence from the workspace.
#[test]
fn every_crate_inherits_the_workspace_lints() {
    let mut breaches = Vec::new();
    let manifests: Vec<String> = file_names()
        .into_iter()
        .filter(|name| PARTS.iter().any(|part| name.starts_with(part)))
        .filter(|name| name.ends_with("/Cargo.toml"))
        .collect();
    assert!(manifests.len() >= 6, "manifests are found: {manifests:?}");
    for path in manifests {
        let text = std::fs::read_to_string(root().join(&path)).expect("the manifest is readable");
        if text.contains("[workspace]\n") {
            continue;
        }
        for line in [
            "version.workspace",
            "edition.workspace",
            "rust-version.workspace",
            "license.workspace",
        ] {
            if !text.contains(&format!("{line} = true")) {
                breaches.push(Breach::new(&path, 0, format!("lacks `{line} = true`")));
            }
        }
        if !text.contains("[lints]\nworkspace = true") {
            breaches.push(Breach::new(&path, 0, "lacks `[lints]` with `workspace = true`"));
        }
    }
    expect_none("manifests", &breaches);
}

/// Each `lib.rs` is `#![no_std]`, always or under every condition that ships.
#[test]
fn code_inside_malloc_has_no_std() {
    let mut breaches = Vec::new();
    let crates = ["record", "sys", "mm", "cache", "watch", "preload"];
    let eras = "lab/eras/src/lib.rs".to_owned();
    for path in crates.map(|name| format!("malloc/{name}/src/lib.rs")).into_iter().chain([eras]) {
        let text = std::fs::read_to_string(root().join(&path)).expect("the crate has a lib.rs");
        if !text.contains("#![no_std]") && !text.contains(", no_std)]") {
            breaches.push(Breach::new(&path, 1, "must be no_std"));
        }
    }
    for file in RustFile::all() {
        let without_std = ["record/", "mm/", "cache/", "watch/", "preload/"].iter().any(|name| {
            file.path.strip_prefix("malloc/").is_some_and(|rest| rest.starts_with(*name))
        });
        let shipped = without_std || file.path.starts_with("lab/eras/");
        for offset in words(&file.shipped, "std").into_iter().filter(|_| shipped) {
            if file.shipped[offset..].starts_with("std::") {
                let line = line_of(&file.shipped, offset);
                breaches.push(Breach::new(&file.path, line, "uses std: use core or quarry-sys"));
            }
        }
    }
    expect_none("no_std", &breaches);
}
