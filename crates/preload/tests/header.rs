//! `include/quarry.h` is what cbindgen makes of the functions that it declares.
//!
//! After a change of one of them, `QUARRY_WRITE_HEADER=1 cargo test -p quarry-preload --test main
//! header` writes it anew.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use cbindgen::{Builder, Config, DocumentationStyle, ExportConfig, Language, Style};

/// The files whose functions and constants the header declares.
const SOURCES: [&str; 6] = [
    "src/heap_api.rs",
    "src/occupancy_api.rs",
    "src/cache_api.rs",
    "src/page_cache_api.rs",
    "src/budget_api.rs",
    "src/profile_api.rs",
];

const TITLE: &str = "\
/* Quarry's own functions, beside the standard malloc interface: the heap as a whole, caches of
 * objects, pages, the page cache, the budget, the heap profile. Link with -lquarry-full; those of
 * the heap and its profile are in libquarry.so as well. Made from the library's sources
 * (crates/preload/tests/header.rs); a change here is lost. */";

/// Types whose contents are nobody's business.
const OPAQUE: &str = "
/* A cache of objects of one size. It is a number in disguise, never an address. No thread destroys
 * it while another one uses it. */
typedef struct quarry_cache quarry_cache;

/* Objects of a cache that are held ready. */
typedef struct quarry_reserve quarry_reserve;

/* The cached pages of one file or database. */
typedef struct quarry_mapping quarry_mapping;

/* A cached page that the caller has pinned. It is a number in disguise, never an address. */
typedef struct quarry_page quarry_page;

/* What a program has registered with the budget. */
typedef struct quarry_registration quarry_registration;

/* Of the functions of a shrinker: how many there are cannot be said now, or nothing can be freed
 * now. */
#define QUARRY_SHRINK_STOP ((size_t)-1)";

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn config() -> Config {
    let opaque = [
        ("QuarryCache", "quarry_cache"),
        ("QuarryReserve", "quarry_reserve"),
        ("QuarryMapping", "quarry_mapping"),
        ("QuarryPage", "quarry_page"),
        ("QuarryRegistration", "quarry_registration"),
    ];
    let structures = [
        ("QuarryBacking", "quarry_backing"),
        ("QuarryBudget", "quarry_budget"),
        ("QuarryShrinker", "quarry_shrinker"),
        ("QuarryGroupLimits", "quarry_group_limits"),
        ("QuarryOccupancy", "quarry_occupancy_t"),
    ];
    let names = opaque.iter().chain(&structures);
    Config {
        language: Language::C,
        cpp_compat: true,
        header: Some(TITLE.to_owned()),
        include_guard: Some("QUARRY_H".to_owned()),
        no_includes: true,
        sys_includes: vec!["stddef.h".to_owned()],
        after_includes: Some(OPAQUE.to_owned()),
        style: Style::Type,
        usize_is_size_t: true,
        documentation_style: DocumentationStyle::C,
        line_length: 100,
        export: ExportConfig {
            exclude: opaque.map(|(rust, _)| rust.to_owned()).into(),
            rename: names.map(|(rust, c)| ((*rust).to_owned(), (*c).to_owned())).collect(),
            ..ExportConfig::default()
        },
        ..Config::default()
    }
}

/// The header, as it has to be.
fn made() -> String {
    let mut builder = Builder::new().with_config(config());
    for source in SOURCES {
        builder = builder.with_src(folder().join(source));
    }
    let mut text = Vec::new();
    builder.generate().expect("cbindgen reads the sources").write(&mut text);
    let text = String::from_utf8(text).expect("the header is text");
    // What the sources call safety is documentation of the arguments here.
    let text = text.replace("\n # Safety\n", "\n");
    // Comments of a kind that C89 does not know.
    let text = text.lines().map(|line| line.split(" //").next().unwrap_or(line).trim_end());
    text.map(|line| format!("{line}\n")).collect()
}

#[test]
fn quarry_h_is_made_from_the_functions() {
    let (file, made) = (folder().join("include/quarry.h"), made());
    if std::env::var_os("QUARRY_WRITE_HEADER").is_some() {
        std::fs::write(&file, &made).expect("the header is writable");
    }
    let written = std::fs::read_to_string(&file).expect("the header is in the repository");
    assert_eq!(written, made, "QUARRY_WRITE_HEADER=1 writes {} anew", file.display());
}

/// The section of `abi.txt` that names what the header declares, and all of `abi-full.txt`.
#[test]
fn quarry_h_declares_what_the_library_exports() {
    let list = |name| std::fs::read_to_string(folder().join(name)).expect("the list exists");
    let (abi, full) = (list("abi.txt"), list("abi-full.txt"));
    let (_, own) = abi.split_once("# quarry.h\n").expect("a section for quarry.h");
    let (own, _) = own.split_once("\n\n").expect("it ends with an empty line");
    let full = full.lines().filter(|line| !line.starts_with('#'));
    let exported: BTreeSet<&str> = own.lines().chain(full).collect();
    let made = made();
    let declared = made.lines().filter(|line| !line.starts_with([' ', '/', '*']));
    let names = declared.filter_map(|line| {
        let (front, _) = line.split_once('(')?;
        let name = front.rsplit([' ', '*']).next()?;
        name.starts_with("quarry_").then_some(name)
    });
    assert_eq!(names.collect::<BTreeSet<&str>>(), exported);
}

#[test]
fn quarry_h_is_c_and_cxx() {
    for (compiler, standard, language) in
        [("cc", "-std=c89", "c"), ("cc", "-std=c99", "c"), ("c++", "-std=c++98", "c++")]
    {
        let output = Command::new(compiler)
            .args([standard, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", language])
            .arg(folder().join("include/quarry.h"))
            .output()
            .unwrap_or_else(|error| panic!("{compiler} does not run: {error}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{compiler} {standard}: {said}");
    }
}
