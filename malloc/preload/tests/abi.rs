//! The C interface, function by function.

use crate::support::{Run, program};

#[test]
fn malloc_and_free() {
    Run::new(program("abi_basic.c")).finish().success();
}

#[test]
fn aligned_allocation() {
    Run::new(program("abi_aligned.c")).finish().success();
}

#[test]
fn calloc_and_reallocarray() {
    Run::new(program("abi_calloc.c")).finish().success();
}

#[test]
fn realloc() {
    Run::new(program("abi_realloc.c")).finish().success();
}

#[test]
fn errors_and_errno() {
    Run::new(program("abi_errors.c")).finish().success();
}

#[test]
fn cfree_and_sized_free() {
    let outcome = Run::new(program("abi_sized.c")).finish().success();
    assert_eq!(outcome.stats().wrong_sizes(), 0, "{outcome}");
}

#[test]
fn functions_of_jemalloc() {
    let program = program("abi_jemalloc.c");
    Run::new(&program).finish().success();
    // The sums are exact while no other thread moves objects.
    Run::full(&program).arg("full").env("QUARRY_BACKGROUND", "0").finish().success();
}

#[test]
fn functions_of_gperftools() {
    Run::new(program("abi_tcmalloc.c")).finish().success();
}

#[test]
fn figures_and_malloc_info() {
    // The sums are exact while no other thread moves objects.
    let run = Run::new(program("abi_info.c")).env("QUARRY_BACKGROUND", "0");
    let outcome = run.finish().success();
    assert!(!outcome.stderr.is_empty(), "malloc_stats prints nothing\n{outcome}");
    if let Err(why) = well_formed(&outcome.stdout, "malloc") {
        panic!("malloc_info is not well-formed XML: {why}\n{outcome}");
    }
}

/// Checks that `xml` is one element `root` whose tags match. Understands only the XML that
/// malloc_info prints: a declaration, elements, attributes, text.
fn well_formed(xml: &str, root: &str) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    let mut roots = Vec::new();
    let mut rest = xml;
    while let Some(start) = rest.find('<') {
        let text = rest[..start].trim();
        if !text.is_empty() && open.is_empty() {
            return Err(format!("text outside the root: `{text}`"));
        }
        let end = rest.find('>').ok_or("a tag does not end")?;
        let tag = rest.get(start + 1..end).ok_or("`>` before `<`")?;
        rest = &rest[end + 1..];
        if tag.starts_with('?') {
            continue;
        }
        if let Some(name) = tag.strip_prefix('/') {
            match open.pop() {
                Some(opened) if opened == name.trim() => continue,
                opened => return Err(format!("`</{name}>` closes {opened:?}")),
            }
        }
        let body = tag.strip_suffix('/').unwrap_or(tag);
        let name = body.split_whitespace().next().ok_or("a tag without a name")?;
        check_attributes(body[name.len()..].trim())?;
        if open.is_empty() {
            roots.push(name);
        }
        if body.len() == tag.len() {
            open.push(name);
        }
    }
    match (roots.as_slice(), open.as_slice(), rest.trim()) {
        ([only], [], "") if *only == root => Ok(()),
        _ => Err(format!("roots {roots:?}, left open {open:?}, left over `{}`", rest.trim())),
    }
}

/// Checks that `text` is a list of `name="value"`.
fn check_attributes(mut text: &str) -> Result<(), String> {
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"").ok_or(format!("attribute `{text}`"))?;
        let (value, rest) = rest.split_once('"').ok_or(format!("value of `{name}`"))?;
        if name.is_empty() || name.contains(char::is_whitespace) || value.contains(['<', '&']) {
            return Err(format!("attribute `{name}` with value `{value}`"));
        }
        text = rest.trim_start();
    }
    Ok(())
}

#[test]
fn xml_checker_rejects_what_is_broken() {
    assert_eq!(
        well_formed("<?xml?>\n<malloc version=\"1\">\n<a n=\"2\"/>text</malloc>\n", "malloc"),
        Ok(())
    );
    for broken in [
        "",
        "<malloc>",
        "<malloc></heap>",
        "<malloc/><malloc/>",
        "<malloc a=1/>",
        "<malloc a=\"1/>",
        "<heap/>",
        "<malloc/>text",
        "<malloc><a></malloc></a>",
    ] {
        assert!(well_formed(broken, "malloc").is_err(), "`{broken}` was accepted");
    }
}
