//! C++: operators new and delete, failures, exceptions.

use crate::support::{
    Run, compiled_with, fixed_program, library, linked_with, plugin, program, scratch, skipped,
};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

#[test]
fn every_operator() {
    let outcome = Run::new(program("cxx_operators.cpp")).finish().success();
    assert_eq!(outcome.stats().wrong_sizes(), 0, "{outcome}");
}

#[test]
fn failure_and_exceptions() {
    Run::new(program("cxx_failure.cpp")).finish().success();
}

/// A program in C opens a plugin in C++: RTLD_NEXT does not find the C++ library then.
#[test]
fn plugin_of_a_c_program() {
    Run::new(program("cxx_opened_by_c.c")).arg(plugin("cxx_plugin.cpp")).finish().success();
}

/// The operators on which others are built.
const BASES: [&str; 8] = [
    "_Znwm",
    "_Znam",
    "_ZnwmSt11align_val_t",
    "_ZnamSt11align_val_t",
    "_ZdlPv",
    "_ZdaPv",
    "_ZdlPvSt11align_val_t",
    "_ZdaPvSt11align_val_t",
];

/// A shared object that replaces one function.
fn replacement(symbol: &str, folder: &Path) -> PathBuf {
    let define = format!("-DSYMBOL={symbol}");
    compiled_with("cxx_replacement.c", folder.join(symbol), &["-fPIC", "-shared", &define])
}

/// Preloads `objects`, and then the library.
fn in_front<'a>(run: Run, objects: impl IntoIterator<Item = &'a PathBuf>) -> Run {
    let mut list = OsString::new();
    for object in objects {
        list.push(object);
        list.push(":");
    }
    list.push(library().map_or(Path::new(""), |library| library));
    run.env("LD_PRELOAD", list)
}

/// Each form calls the replaced one on which it is built, for every set of replaced operators.
#[test]
fn any_operators_replaced_by_preloaded_objects() {
    let folder = scratch();
    let objects: Vec<PathBuf> = BASES.iter().map(|name| replacement(name, &folder)).collect();
    let program = program("cxx_replaced.cpp");
    for set in 0..1_u32 << BASES.len() {
        let is_in = |at: &usize| set & 1 << at != 0;
        let chosen = (0..BASES.len()).filter(is_in).map(|at| &objects[at]);
        // Where all are replaced, the library may serve nothing.
        in_front(Run::new(&program), chosen).without_stats().finish().success();
    }
}

/// Replaced forms on which nothing is built, and those that only a few compilers call.
#[test]
fn single_forms_replaced_by_preloaded_objects() {
    let folder = scratch();
    let forms = [
        "_ZnwmRKSt9nothrow_t",
        "_ZnamRKSt9nothrow_t",
        "_ZnwmSt11align_val_tRKSt9nothrow_t",
        "_ZnamSt11align_val_tRKSt9nothrow_t",
        "_ZdlPvm",
        "_ZdaPvm",
        "_ZdlPvRKSt9nothrow_t",
        "_ZdaPvRKSt9nothrow_t",
        "_ZdlPvmSt11align_val_t",
        "_ZdaPvmSt11align_val_t",
        "_ZdlPvSt11align_val_tRKSt9nothrow_t",
        "_ZdaPvSt11align_val_tRKSt9nothrow_t",
    ];
    for form in forms {
        let object = replacement(form, &folder);
        in_front(Run::new(program("cxx_replaced.cpp")), [&object]).finish().success();
    }
}

/// A tool that counts sees each request of C++, in the forms that it replaces.
#[test]
fn tools_in_front_see_the_requests_of_cxx() {
    let folder = scratch();
    for names in [["malloc", "free"], ["malloc", "_ZdlPv"], ["_Znwm", "free"]] {
        let objects = names.map(|name| replacement(name, &folder));
        in_front(Run::new(program("cxx_replaced.cpp")), &objects).finish().success();
    }
}

/// The program itself replaces some, in each way to link it.
#[test]
fn operators_replaced_by_the_program() {
    let folder = scratch();
    let sets: [&[&str]; 5] = [
        &["_Znwm", "_ZdlPv"],
        &["_Znam", "_ZdlPv"],
        &["_ZnwmSt11align_val_t", "_ZdlPvSt11align_val_t", "_Znwm", "_ZdlPv"],
        &["_ZdaPvSt11align_val_t"],
        &["_ZdlPvm", "_Znam"],
    ];
    for code in ["-fPIE", "-fno-pie"] {
        let object = |source, name: String, option: &str| {
            compiled_with(source, folder.join(name + code + ".o"), &["-c", code, option])
        };
        let main = object("cxx_replaced.cpp", "main".into(), "-O1");
        for set in sets {
            let replaced = set.iter().map(|symbol| {
                object("cxx_replacement.c", symbol.to_string(), &format!("-DSYMBOL={symbol}"))
            });
            let objects: Vec<PathBuf> = replaced.chain([main.clone()]).collect();
            for library in ["-shared-libgcc", "-static-libstdc++"] {
                let output = folder.join(set.concat() + code + library);
                let form = if code == "-fPIE" { "-pie" } else { "-no-pie" };
                // The program exports what `dlsym` has to find.
                let options = [form, library, "-rdynamic"];
                Run::new(linked_with(&objects, output, &options))
                    .without_stats()
                    .finish()
                    .success();
            }
        }
    }
    for program in [program("cxx_header.cpp"), fixed_program("cxx_header.cpp")] {
        Run::new(program).finish().success();
    }
    let linked = compiled_with("cxx_header.cpp", folder.join("own"), &["-static-libstdc++"]);
    Run::new(linked).finish().success();
}

/// A program in C opens a plugin in C++, with the C++ library or with one of its own, while others
/// have replaced operators.
#[test]
fn plugins_under_replaced_operators() {
    let folder = scratch();
    let opener = compiled_with("cxx_opener.c", folder.join("opener"), &[]);
    let pair = ["_Znwm", "_ZdlPv"].map(|name| replacement(name, &folder));
    let tool = ["malloc", "free"].map(|name| replacement(name, &folder));
    for (name, library) in [("shared", "-shared-libgcc"), ("own", "-static-libstdc++")] {
        let options = ["-fPIC", "-shared", "-DPLUGIN", library];
        let plugin = compiled_with("cxx_replaced.cpp", folder.join(name), &options);
        for objects in [&pair, &tool] {
            for flags in ["local", "deepbind", "global"] {
                let run = in_front(Run::new(&opener), objects).arg(&plugin).arg(flags);
                run.without_stats().finish().success();
            }
        }
    }
}

/// An allocator that replaces only a part gets back what it has handed out.
#[test]
fn allocators_in_front() {
    let foreign = plugin("cxx_foreign.c");
    let run = |program| in_front(Run::new(program), [&foreign]).without_stats();
    run(program("cxx_relatives.c")).finish().success();
    let folder = scratch();
    let plain = compiled_with("cxx_plain.cpp", folder.join("plain"), &[]);
    run(plain.clone()).finish().success();
    Run::new(plain.clone()).finish().success();
    let tbb = Path::new("/usr/lib/x86_64-linux-gnu/libtbbmalloc_proxy.so.2").to_owned();
    if !tbb.exists() {
        skipped("libtbbmalloc2 is not installed");
        return;
    }
    for program in [plain, program("cxx_relatives.c"), program("cxx_replaced.cpp")] {
        in_front(Run::new(program), [&tbb]).without_stats().finish().success();
    }
}

/// glibc's second names are the library's, too.
#[test]
fn second_names_of_glibc() {
    Run::new(program("cxx_second_names.c")).finish().success();
    // With the C library as the allocator, and a tool after this one that defines `malloc` on top
    // of the second names.
    let wrapper = plugin("cxx_wrapper.c");
    let mut list = library().expect("the library is under test").as_os_str().to_owned();
    list.push(":");
    list.push(&wrapper);
    for disable in ["0", "1"] {
        let run = Run::new(program("cxx_second_names.c")).env("QUARRY_DISABLE", disable);
        run.env("LD_PRELOAD", &list).without_stats().finish().success();
        let run = Run::new(program("cxx_second_names.c")).env("QUARRY_DISABLE", disable);
        in_front(run, [&wrapper]).without_stats().finish().success();
    }
}
