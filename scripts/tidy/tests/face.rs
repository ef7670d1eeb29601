//! A stack offers few functions: those of `Stack` itself and of the types that borrow one, its fast
//! paths, and those that its cache and its instruments call. The numbers only fall.

use quarry_tidy::rust::RustFile;

/// Functions that a user of a stack may call.
const FACE: usize = 45;
/// Functions of its fast paths.
const FAST: usize = 11;
/// Functions of the trait for its cache and its instruments, and for the layers below.
const HOST: usize = 20;

/// The lines of a file from one that `begins` to the closing brace, for each such line.
fn blocks(file: &RustFile, begins: impl Fn(&str) -> bool) -> Vec<Vec<&str>> {
    let mut found = Vec::new();
    let mut lines = file.shipped.lines();
    while let Some(line) = lines.find(|line| begins(line)) {
        let rest = lines.by_ref().take_while(|line| !line.starts_with('}'));
        found.push(std::iter::once(line).chain(rest).collect());
    }
    found
}

/// Names of the functions that a block declares; each declaration has `before` in front.
fn functions(block: &[&str], before: &str) -> Vec<String> {
    let declared = block.iter().filter_map(|line| {
        let line = line.strip_prefix("    ")?.strip_prefix(before)?;
        let line = line.trim_start_matches("const ").trim_start_matches("unsafe ");
        let name = line.strip_prefix("fn ")?.split(['(', '<']).next()?;
        Some(name.to_owned())
    });
    declared.collect()
}

/// The public functions of `types`, from all inherent `impl` blocks in `files`.
fn public(files: &[RustFile], types: &[String]) -> Vec<String> {
    let of = |name: &String, line: &str| {
        line.contains(&format!(" {name}<")) && !line.contains(" for ") && line.starts_with("impl<")
    };
    let is_impl = |line: &str| types.iter().any(|name| of(name, line));
    let blocks = files.iter().flat_map(|file| blocks(file, is_impl));
    blocks.flat_map(|block| functions(&block, "pub ")).collect()
}

#[test]
fn a_stack_shows_few_functions() {
    let mut files = RustFile::all();
    files.retain(|file| file.path.starts_with("malloc/mm/src/stack/"));
    let structs = files.iter().flat_map(|file| blocks(file, |line| line.starts_with("pub struct")));
    let borrowing = structs.filter(|block| block.iter().any(|line| line.contains("&'a Stack<")));
    let name = |block: Vec<&str>| {
        block[0].trim_start_matches("pub struct ").split('<').next().unwrap_or("").to_owned()
    };
    let mut types: Vec<String> = borrowing.map(name).collect();
    assert!(types.contains(&"CacheRef".to_owned()), "{types:?} borrow a stack");
    types.push("Stack".to_owned());
    let traits =
        files.iter().flat_map(|file| blocks(file, |it| it.starts_with("pub trait StackHost")));
    let host: Vec<String> = traits.flat_map(|block| functions(&block, "")).collect();
    for (what, shown, most) in [
        ("the face of a stack", public(&files, &types), FACE),
        ("the fast paths of a stack", public(&files, &["FastPath".to_owned()]), FAST),
        ("the host of a cache and of instruments", host, HOST),
    ] {
        println!("{what}: {}", shown.len());
        assert!(!shown.is_empty(), "{what} has no function");
        let message = "lower the limit of this test, or give access to the part that has it";
        assert!(shown.len() == most, "{what} has {} of {most}: {message}: {shown:?}", shown.len());
    }
}
