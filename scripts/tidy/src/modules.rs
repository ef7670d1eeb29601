//! The modules of a crate, their uses of each other, and the circles among them.
//!
//! The graph is that of the text: `use` declarations, paths that begin with `crate`, `self`,
//! `super` or a child's name, and calls of methods from a type's `impl` blocks: of its own methods,
//! also those of traits, and of those of its fields' types, if other files define them. A path
//! through a re-export leads to the item's definer. Re-exports and tests are no uses.
//!
//! Each folder is searched for circles by itself. Its children are the nodes, and a module deeper
//! in a child counts as the child: a folder is one concept outside, and a graph of its own inside.

use crate::methods::{Call, Impl, Struct, impls, structs};
use crate::rust::{RustFile, blank, line_of, path_at, words};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A module by the names that lead to it from the crate's root; empty for the root.
type Path = Vec<String>;

/// The modules of one crate and their uses.
#[derive(Default)]
pub struct Modules {
    modules: BTreeMap<Path, Module>,
}

#[derive(Default)]
struct Module {
    file: String,
    code: String,
    uses: Vec<Use>,
    impls: Vec<Impl>,
    structs: Vec<Struct>,
}

/// A leaf of a `use` declaration.
struct Use {
    segments: Path,
    /// The name by which the module then knows the item; `*` for a glob.
    name: String,
    is_public: bool,
    line: usize,
}

/// Modules that use each other, directly or through other modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circle {
    /// The folder whose children the members are, from the crate's `src`; empty for `src` itself.
    pub folder: String,
    /// The modules' names in the folder, sorted; `self` is the folder's own file.
    pub members: Vec<String>,
    /// One shortest way around: `a -> b (file:line)`, one step after the other.
    pub way: Vec<String>,
}

impl Modules {
    /// Reads the modules of the crate whose sources lie in `src` (with `/` at its end).
    #[must_use]
    pub fn of(src: &str, files: &[RustFile]) -> Self {
        let mut modules = BTreeMap::new();
        for file in files {
            let Some(inner) = file.path.strip_prefix(src) else { continue };
            let inner = inner.trim_end_matches(".rs");
            let path: Path = match inner {
                "lib" | "main" => Vec::new(),
                _ => inner.trim_end_matches("/mod").split('/').map(str::to_owned).collect(),
            };
            let uses = uses(&file.shipped);
            let code = without_uses(&file.shipped);
            let (impls, structs) = (impls(&code), structs(&code));
            modules.insert(path, Module { file: file.path.clone(), code, uses, impls, structs });
        }
        Self { modules }
    }

    /// All circles, the crate's own folder first.
    #[must_use]
    pub fn circles(&self) -> Vec<Circle> {
        let edges = self.edges();
        let folders: BTreeSet<&[String]> =
            self.modules.keys().flat_map(|path| (0..path.len()).map(|end| &path[..end])).collect();
        let mut circles = Vec::new();
        for folder in folders {
            let mut graph: Graph = BTreeMap::new();
            for (from, to, place) in &edges {
                if let (Some(from), Some(to)) = (child(folder, from), child(folder, to))
                    && from != to
                {
                    graph.entry(from).or_default().entry(to).or_insert_with(|| place.clone());
                }
            }
            circles.extend(strong_components(&graph).into_iter().map(|members| Circle {
                folder: folder.join("/"),
                way: way_around(&graph, &members),
                members,
            }));
        }
        circles
    }

    /// Uses of one module by another: from, to, and where.
    fn edges(&self) -> Vec<(&Path, Path, String)> {
        let mut edges = Vec::new();
        for (path, module) in &self.modules {
            let mut add = |segments: &[String], line: usize| {
                if let Some(to) = self.definer(path, segments, 0).filter(|to| to != path) {
                    edges.push((path, to, format!("{}:{line}", module.file)));
                }
            };
            for one in &module.uses {
                // A re-export is no use unless the module's own code names the item as well.
                if !one.is_public || !words(&module.code, &one.name).is_empty() {
                    add(&one.segments, one.line);
                }
            }
            for (segments, line) in self.qualified(path, &module.code) {
                add(&segments, line);
            }
        }
        edges.extend(self.method_edges());
        edges
    }

    /// Calls of methods that an `impl` block in another module defines for the receiver's type.
    fn method_edges(&self) -> Vec<(&Path, Path, String)> {
        let definers = self.definers();
        let mut edges = Vec::new();
        for (path, module) in &self.modules {
            for block in &module.impls {
                let own = self.type_of(path, &block.of);
                for call in &block.calls {
                    let to =
                        own.as_ref().and_then(|own| self.definer_of(&definers, own, path, call));
                    if let Some(to) = to.filter(|to| *to != path) {
                        let line = line_of(&module.code, call.offset);
                        edges.push((path, to.clone(), format!("{}:{line}", module.file)));
                    }
                }
            }
        }
        edges
    }

    /// All methods that `impl` blocks define, and where.
    fn definers(&self) -> Definers<'_> {
        let mut definers = Definers::new();
        for (path, module) in &self.modules {
            for block in &module.impls {
                let Some(of) = self.type_of(path, &block.of) else { continue };
                // A trait of another crate has no module here; its name tells it apart.
                let of_trait = block.of_trait.as_ref().and_then(|name| self.type_of(path, name));
                for name in &block.methods {
                    let all = definers.entry((of.clone(), name)).or_default();
                    all.push((of_trait.clone(), path));
                }
            }
        }
        definers
    }

    /// The module with the method that a call in `at`, of an `impl` block for `own`, reaches.
    fn definer_of<'a>(
        &self,
        definers: &Definers<'a>,
        own: &Type,
        at: &Path,
        call: &Call,
    ) -> Option<&'a Path> {
        let receiver = call.fields.iter().try_fold(own.clone(), |of, field| {
            let (module, name) = &of;
            let structs = &self.modules.get(module)?.structs;
            let fields = &structs.iter().find(|one| one.name == *name)?.fields;
            let (_, of) = fields.iter().find(|(name, _)| name == field)?;
            self.type_of(module, of)
        })?;
        let by = if call.by.is_empty() { None } else { self.type_of(at, &call.by) };
        let all = definers.get(&(receiver.clone(), &call.method))?;
        let inherent = || all.iter().find(|(of_trait, _)| of_trait.is_none());
        let found = match by {
            Some(by) if by != receiver => all.iter().find(|(it, _)| it.as_ref() == Some(&by)),
            None if !call.by.is_empty() => None,
            _ => inherent().or_else(|| if all.len() == 1 { all.first() } else { None }),
        };
        found.map(|(_, module)| *module)
    }

    /// The module that defines the type or the trait which `at` calls `path`, and its name.
    fn type_of(&self, at: &Path, path: &Path) -> Option<Type> {
        let (first, rest) = path.split_first()?;
        let imported = || self.imported(at, first, rest, 0);
        let module = match rest {
            [] => imported().unwrap_or_else(|| at.clone()),
            _ => self.definer(at, path, 0).or_else(imported)?,
        };
        Some((module, path.last()?.clone()))
    }

    /// Paths in code outside of `use` that name a module of this crate.
    fn qualified(&self, path: &Path, code: &str) -> Vec<(Path, usize)> {
        let children = self.modules.keys().filter(|it| it.len() == path.len() + 1);
        let children = children.filter(|it| it.starts_with(path)).map(|it| it[path.len()].as_str());
        let mut found = Vec::new();
        for start in ["crate", "self", "super"].into_iter().chain(children) {
            for offset in words(code, start) {
                let is_start = !code[..offset].trim_end().ends_with("::");
                let segments: Path = path_at(&code[offset..]);
                if is_start && segments.len() > 1 {
                    found.push((segments, line_of(code, offset)));
                }
            }
        }
        found
    }

    /// The module that defines what `segments` name in the module `at`; `None` for other crates.
    fn definer(&self, at: &[String], segments: &[String], depth: usize) -> Option<Path> {
        let (first, mut rest) = segments.split_first()?;
        let mut here = match first.as_str() {
            "crate" => Vec::new(),
            "self" => at.to_vec(),
            "super" => at[..at.len().checked_sub(1)?].to_vec(),
            name => {
                let child = [at, &[name.to_owned()]].concat();
                self.modules.contains_key(&child).then_some(child)?
            }
        };
        while let Some((name, after)) = rest.split_first() {
            let child = [&here[..], std::slice::from_ref(name)].concat();
            if name == "super" {
                here.pop()?;
            } else if self.modules.contains_key(&child) {
                here = child;
            } else {
                return Some(self.imported(&here, name, after, depth).unwrap_or(here));
            }
            rest = after;
        }
        Some(here)
    }

    /// Follows a name that the module `here` has imported or re-exports.
    fn imported(
        &self,
        here: &[String],
        name: &str,
        after: &[String],
        depth: usize,
    ) -> Option<Path> {
        let module = self.modules.get(here)?;
        if depth > 8 || is_defined(&module.code, name) {
            return None;
        }
        let named = module.uses.iter().find(|one| one.name == name);
        if let Some(one) = named {
            return self.definer(here, &[&one.segments[..], after].concat(), depth + 1);
        }
        module.uses.iter().filter(|one| one.name == "*").find_map(|one| {
            let from = self.definer(here, &one.segments, depth + 1)?;
            is_defined(&self.modules.get(&from)?.code, name).then_some(from)
        })
    }
}

/// A type or a trait: the module that defines it, and its name.
type Type = (Path, String);

/// For each type and method, the modules that define it, and by which trait.
type Definers<'a> = BTreeMap<(Type, &'a String), Vec<(Option<Type>, &'a Path)>>;

type Graph = BTreeMap<String, BTreeMap<String, String>>;

/// The child of `folder` that is or contains a module; `None` for modules elsewhere.
fn child(folder: &[String], path: &Path) -> Option<String> {
    let inner = path.strip_prefix(folder)?;
    Some(inner.first().cloned().unwrap_or_else(|| "self".to_owned()))
}

/// Sets of two or more nodes that all reach each other.
fn strong_components(graph: &Graph) -> Vec<Vec<String>> {
    let reached = |from: &String| {
        let (mut seen, mut next) = (BTreeSet::new(), VecDeque::from([from]));
        while let Some(node) = next.pop_front() {
            for to in graph.get(node).into_iter().flat_map(BTreeMap::keys) {
                if seen.insert(to) {
                    next.push_back(to);
                }
            }
        }
        seen
    };
    let reach: BTreeMap<&String, BTreeSet<&String>> =
        graph.keys().map(|node| (node, reached(node))).collect();
    let mut components = BTreeSet::new();
    for (node, to) in reach.iter().filter(|(node, to)| to.contains(*node)) {
        let back = |it: &&&String| reach.get(*it).is_some_and(|from| from.contains(*node));
        components.insert(to.iter().filter(back).map(|it| (*it).clone()).collect::<Vec<_>>());
    }
    components.into_iter().collect()
}

/// A shortest way from the first member back to itself.
fn way_around(graph: &Graph, members: &[String]) -> Vec<String> {
    let start = &members[0];
    let mut came: BTreeMap<&String, Vec<String>> = BTreeMap::new();
    let mut next = VecDeque::from([(start, Vec::new())]);
    while let Some((node, way)) = next.pop_front() {
        for (to, place) in graph.get(node).into_iter().flatten() {
            let mut way = way.clone();
            way.push(format!("{node} -> {to} ({place})"));
            if to == start {
                return way;
            }
            if !came.contains_key(to) {
                came.insert(to, way.clone());
                next.push_back((to, way));
            }
        }
    }
    Vec::new()
}

fn is_defined(code: &str, name: &str) -> bool {
    const ITEMS: [&str; 9] =
        ["struct", "enum", "union", "trait", "fn", "const", "static", "type", "macro_rules!"];
    words(code, name).into_iter().any(|offset| {
        let before = code[..offset].trim_end();
        ITEMS.iter().any(|item| before.ends_with(item))
    })
}

/// Offsets of `use` declarations: of `use` itself and of the `;`.
fn declarations(code: &str) -> Vec<(usize, usize)> {
    words(code, "use")
        .into_iter()
        .filter_map(|offset| {
            // The bound `use<..>` of a type is no declaration.
            code[offset..].starts_with("use ").then_some(())?;
            Some((offset, offset + code[offset..].find(';')?))
        })
        .collect()
}

fn uses(code: &str) -> Vec<Use> {
    let mut uses = Vec::new();
    for (start, end) in declarations(code) {
        let line = line_of(code, start);
        let before = code[..start].trim_end();
        let is_public = before.ends_with("pub")
            || before.ends_with(')')
                && before.rfind("pub(").is_some_and(|at| !before[at..].contains(';'));
        for (segments, name) in leaves(&code[start + 4..end]) {
            uses.push(Use { segments, name, is_public, line });
        }
    }
    uses
}

/// The paths of a `use` tree, each with its name in the module.
fn leaves(tree: &str) -> Vec<(Path, String)> {
    let tree = tree.trim();
    if let Some((prefix, group)) = tree.split_once('{') {
        let prefix: Path = path_at(prefix.trim().trim_end_matches("::"));
        let group = group.trim_end().trim_end_matches('}');
        return parts(group)
            .flat_map(leaves)
            .map(|(segments, name)| match &segments[..] {
                [one] if one == "self" => {
                    (prefix.clone(), prefix.last().cloned().unwrap_or_default())
                }
                _ => ([&prefix[..], &segments].concat(), name),
            })
            .collect();
    }
    let (path, name) = match tree.split_once(" as ") {
        Some((path, name)) => (path, Some(name.trim().to_owned())),
        None => (tree, None),
    };
    if let Some(module) = path.strip_suffix("::*") {
        return vec![(path_at(module), "*".to_owned())];
    }
    let segments = path_at(path.trim());
    let name = name.or_else(|| segments.last().cloned());
    name.map(|name| (segments, name)).into_iter().collect()
}

/// Splits a group at its commas, but not at those of inner groups.
fn parts(group: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0usize;
    let parts = group.split(move |character| {
        match character {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        character == ',' && depth == 0
    });
    parts.filter(|part| !part.trim().is_empty())
}

fn without_uses(code: &str) -> String {
    let mut bytes = code.as_bytes().to_vec();
    for (start, end) in declarations(code) {
        blank(&mut bytes, start, end);
    }
    String::from_utf8(bytes).expect("blanks replace whole declarations")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<Circle> {
        let file = |(path, text): &(&str, &str)| {
            RustFile::new(format!("malloc/x/src/{path}"), (*text).to_owned())
        };
        Modules::of("malloc/x/src/", &files.iter().map(file).collect::<Vec<_>>()).circles()
    }

    fn members(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        circles(files).into_iter().map(|circle| circle.members).collect()
    }

    #[test]
    fn a_planted_circle_is_found_with_its_way() {
        let planted = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("a.rs", "use crate::b::B;\npub struct A;\n"),
            ("b.rs", "use crate::{a, c::{self, C}};\npub struct B(C);\n"),
            ("c.rs", "pub struct C;\nfn f() { super::a::f() }\n"),
        ];
        let found = circles(&planted);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].folder.as_str(), &found[0].members[..]),
            ("", &["a", "b", "c"].map(str::to_owned)[..])
        );
        let way = ["a -> b (malloc/x/src/a.rs:1)", "b -> a (malloc/x/src/b.rs:1)"];
        assert_eq!(found[0].way, way);
    }

    #[test]
    fn a_folder_is_one_concept_and_a_graph_of_its_own() {
        let across = [
            ("lib.rs", "mod a;\nmod b;\n"),
            ("a/mod.rs", "mod one;\nmod two;\n"),
            ("a/one.rs", "use crate::b::B;\n"),
            ("a/two.rs", "pub struct Two;\n"),
            ("b.rs", "use crate::a::two::Two;\npub struct B;\n"),
        ];
        assert_eq!(members(&across), [["a", "b"]], "though no file reaches itself");
        let inside = [
            ("lib.rs", "mod a;\n"),
            ("a/mod.rs", "mod one;\nmod two;\n"),
            ("a/one.rs", "use super::two::f;\n"),
            ("a/two.rs", "pub fn f() { super::one::g() }\n"),
        ];
        assert_eq!(circles(&inside)[0].folder, "a");
        assert_eq!(members(&inside), [["one", "two"]]);
    }

    #[test]
    fn a_reexport_leads_to_its_definer_and_is_no_use() {
        let through = [
            ("lib.rs", "mod a;\nmod b;\npub use a::A;\npub use b::*;\n"),
            ("a.rs", "use crate::B;\npub struct A;\n"),
            ("b.rs", "pub struct B;\n"),
        ];
        assert!(members(&through).is_empty());
        let used = [
            ("lib.rs", "mod a;\npub use a::A;\npub struct L;\npub fn f(_: A) {}\n"),
            ("a.rs", "use crate::L;\npub struct A;\n"),
        ];
        assert_eq!(members(&used), [["a", "self"]], "the parent uses it as well");
    }

    #[test]
    fn methods_of_one_type_in_several_files_tie_them_together() {
        let tied = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("a.rs", "pub struct A;\nimpl A {\n pub fn one(&self) { self.two() }\n}\n"),
            ("b.rs", "use crate::a::A;\nimpl A {\n pub fn two(&self) { self.three() }\n}\n"),
            ("c.rs", "struct A;\nimpl A {\n fn three(&self) { self.one() }\n}\n"),
        ];
        assert_eq!(members(&tied), [["a", "b"]], "the type of c.rs is another one");
    }

    #[test]
    fn a_method_of_a_trait_ties_as_well() {
        let host = "use crate::a::{A, T};\nimpl T for A {\n fn two(&self) { self.one() }\n}\n";
        let of = |call: &str| {
            let one = format!("impl A {{\n pub fn one(&self) {{ {call} }}\n}}\n");
            let b = format!("use crate::a::{{A, T}};\n{one}");
            let a = "pub struct A;\npub trait T { fn two(&self); }\n";
            let files = [
                ("lib.rs", "mod a;\nmod b;\nmod host;\nmod three;\n"),
                ("a.rs", a),
                ("b.rs", b.as_str()),
                ("host.rs", host),
                ("three.rs", "use crate::a::A;\nimpl A {\n pub fn three(&self) {}\n}\n"),
            ];
            members(&files)
        };
        assert_eq!(of("self.two()"), [["b", "host"]]);
        assert_eq!(of("T::two(self)"), [["b", "host"]]);
        assert_eq!(of("<Self as T>::two(self)"), [["b", "host"]]);
        assert!(of("self.three()").is_empty());
        assert!(of("Other::two(self)").is_empty(), "another trait");
    }

    #[test]
    fn an_inherent_method_comes_before_that_of_a_trait() {
        let adapted = [
            ("lib.rs", "mod a;\nmod b;\nmod host;\n"),
            ("a.rs", "pub struct A;\npub trait T { fn f(&self); }\n"),
            ("b.rs", "use crate::a::A;\nimpl A {\n pub fn f(&self) { self.f() }\n}\n"),
            ("host.rs", "use crate::a::{A, T};\nimpl T for A {\n fn f(&self) { self.f() }\n}\n"),
        ];
        assert!(members(&adapted).is_empty());
    }

    #[test]
    fn a_method_of_a_fields_type_ties_as_well() {
        let of = |fields: &str, call: &str| {
            let c = format!(
                "use crate::{{a::A, d}};\nuse other::X;\npub struct B<'a> {{ {fields} }}\n\
                 impl B<'_> {{\n pub fn g(&self) {{ {call} }}\n}}\n"
            );
            members(&[
                ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\n"),
                ("a.rs", "pub struct A;\n"),
                ("b.rs", "use crate::a::A;\nuse crate::c::B;\nimpl A {\n fn f(&self) {}\n}\n"),
                ("c.rs", c.as_str()),
                ("d.rs", "use crate::a::A;\npub struct Both(pub u8, pub Box<A>);\n"),
            ])
        };
        assert_eq!(of("a: &'a A", "self.a.f()"), [["b", "c"]]);
        assert_eq!(of("pub(crate) both: &'a d::Both", "self.both.1.f()"), [["b", "c"]]);
        assert!(of("a: &'a A", "self.a.h()").is_empty(), "no such method");
        assert!(of("a: &'a X", "self.a.f()").is_empty(), "a type of another crate");
    }

    #[test]
    fn tests_and_other_crates_do_not_count() {
        let harmless = [
            ("lib.rs", "mod a;\nmod b;\n"),
            ("a.rs", "use std::b::X;\n#[cfg(test)]\nmod tests {\n use crate::b::B;\n}\n"),
            ("b.rs", "use crate::a::A; // crate::b\nconst T: &str = \"crate::a\";\n"),
        ];
        assert!(members(&harmless).is_empty());
    }
}
