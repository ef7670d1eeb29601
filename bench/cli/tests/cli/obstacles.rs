//! `quarry run` with programs that Quarry cannot serve, or only in part: the line that names the
//! obstacle, and whether the library is preloaded all the same.

use crate::support::{Workshop, quarry, real_library, skipped};
use predicates::prelude::*;
use predicates::str::{contains, is_empty, is_match};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Prints whether the library was preloaded.
const SAYS_PRELOADED: &str = "#include <stdio.h>\n#include <stdlib.h>\n\
     int main(void) { puts(getenv(\"LD_PRELOAD\") ? \"preloaded\" : \"alone\"); return 0; }\n";
/// Prints which library was preloaded.
const SHOWS_PRELOADED: &str = "#include <stdio.h>\n#include <stdlib.h>\n\
     int main(void) { char *it = getenv(\"LD_PRELOAD\"); puts(it ? it : \"alone\"); return 0; }\n";
/// The same as the first, with a `malloc` of its own.
const OWN_MALLOC: &str = "#include <stdio.h>\n#include <stdlib.h>\n\
     static char heap[1 << 16];\nstatic size_t used;\n\
     void *malloc(size_t n) { n = (n + 15) & ~(size_t)15; used += n; \
         return used <= sizeof heap ? heap + used - n : NULL; }\n\
     void free(void *p) { (void)p; }\n\
     void *calloc(size_t n, size_t m) { return malloc(n * m); }\n\
     void *realloc(void *p, size_t n) { return p ? NULL : malloc(n); }\n\
     int main(void) { puts(getenv(\"LD_PRELOAD\") ? \"preloaded\" : \"alone\"); return 0; }\n";

/// The output of `quarry run` for a program, and that of the program.
fn said(shop: &Workshop, program: &Path) -> (String, String) {
    let output = shop.run().arg("--").arg(program).output().expect("quarry runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", output.status, text(&output.stderr));
    (text(&output.stderr), text(&output.stdout))
}

/// A shared object with this text, and the options by which a program needs it.
fn needed(shop: &Workshop, file: &str, source: &str) -> Vec<String> {
    let library = shop.compile(file, source, &["-shared", "-fPIC", &format!("-Wl,-soname,{file}")]);
    let folder = shop.path("").canonicalize().expect("the workshop");
    let rpath = format!("-Wl,--no-as-needed,-rpath,{}", folder.display());
    vec![rpath, library.display().to_string()]
}

fn compile_with(shop: &Workshop, name: &str, source: &str, options: &[String]) -> PathBuf {
    // Libraries come after the objects that refer to them.
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let input = shop.path(&format!("{name}.c"));
    fs::write(&input, source).expect("a source file");
    let mut cc = Command::new("cc");
    let output = shop.path(name);
    let status = cc.arg("-o").arg(&output).arg(&input).args(options).status();
    assert!(status.expect("cc is installed").success(), "{name}");
    output
}

#[test]
fn runtimes_of_sanitizers_are_named_and_left_alone() {
    let shop = Workshop::new();
    for (library, name) in [
        ("libasan.so.8", "AddressSanitizer"),
        ("liblsan.so.0", "LeakSanitizer"),
        ("libtsan.so.2", "ThreadSanitizer"),
        ("libhwasan.so.0", "HWAddressSanitizer"),
        ("libclang_rt.tsan-x86_64.so", "ThreadSanitizer"),
    ] {
        let options = needed(&shop, library, "int stand_in;\n");
        let program = compile_with(&shop, &format!("with-{library}"), SAYS_PRELOADED, &options);
        let line = format!(
            "quarry: {} is built with {name} ({library}), which needs a malloc of its own to \
             find anything; it runs without Quarry\n",
            program.display()
        );
        assert_eq!(said(&shop, &program), (line, "alone\n".to_owned()));
    }
    // The sanitizer of undefined behaviour has nothing to do with memory.
    let options = needed(&shop, "libubsan.so.1", "int stand_in;\n");
    let program = compile_with(&shop, "with-ubsan", SAYS_PRELOADED, &options);
    assert_eq!(said(&shop, &program), (String::new(), "preloaded\n".to_owned()));
}

/// Clang, and GCC with `-static-libasan`, link a runtime into the program, and malloc with it.
#[test]
fn runtimes_of_sanitizers_inside_the_program() {
    let shop = Workshop::new();
    for function in ["__asan_init", "__tsan_init", "__lsan_init", "__msan_init", "__hwasan_init"] {
        let source = format!("{OWN_MALLOC}\nvoid {function}(void) {{}}\n");
        let program = shop.compile(function, &source, &[]);
        let (line, answer) = said(&shop, &program);
        assert!(line.contains(&format!("Sanitizer ({function})")), "{line}");
        assert_eq!(answer, "alone\n");
    }
}

/// On Quarry, leaks used to vanish, and programs with ThreadSanitizer crashed.
#[test]
fn a_sanitizer_finds_what_it_finds_alone() {
    let Some(library) = real_library() else { return };
    let shop = Workshop::new();
    let source = "#include <stdlib.h>\n\
                  int main(void) { *(volatile char *)malloc(77) = 1; return 0; }\n";
    for (option, finding) in [("leak", "77 byte(s)"), ("thread", "")] {
        let program = shop.compile(option, source, &["-O0", &format!("-fsanitize={option}")]);
        let alone = Command::new(&program).stdin(Stdio::null()).output().expect("it starts");
        let mut run = quarry();
        run.env("QUARRY_LIBRARY", &library).arg("run").arg("--").arg(&program);
        let output = run.output().expect("quarry runs");
        assert_eq!(output.status.code(), alone.status.code(), "{option}: {output:?}");
        let errors = String::from_utf8_lossy(&output.stderr);
        // Some machines do not let LeakSanitizer look for leaks.
        let finds = String::from_utf8_lossy(&alone.stderr).contains(finding);
        assert_eq!(errors.contains(finding), finds, "{option}: {errors}");
        assert!(errors.contains("Sanitizer (lib"), "{option}: {errors}");
    }
}

#[test]
fn allocators_under_names_of_their_own() {
    let shop = Workshop::new();
    let expected = |program: &Path, allocator: &str, mark: &str| {
        format!(
            "quarry: {} has {allocator} inside ({mark}) and serves itself: only what is asked \
             of malloc by that name reaches Quarry\n",
            program.display()
        )
    };
    for (function, allocator) in
        [("_rjem_malloc", "jemalloc"), ("je_malloc", "jemalloc"), ("mi_malloc", "mimalloc")]
    {
        let source = format!("{SAYS_PRELOADED}\nvoid *{function}(void) {{ return 0; }}\n");
        let program = shop.compile(function, &source, &[]);
        let answer = (expected(&program, allocator, function), "preloaded\n".to_owned());
        assert_eq!(said(&shop, &program), answer);
    }
    // The allocator is in a library that the program needs.
    let options = needed(&shop, "librjem.so", "void *_rjem_malloc(void) { return 0; }\n");
    let source =
        format!("{SAYS_PRELOADED}\nvoid *_rjem_malloc(void);\nvoid *(*f)(void) = _rjem_malloc;\n");
    let program = compile_with(&shop, "refers", &source, &options);
    assert_eq!(said(&shop, &program).0, expected(&program, "jemalloc", "_rjem_malloc"));
    // The program is stripped, as released ones are: only messages show the allocator.
    let text = "const char *volatile message = \"<jemalloc>: Error in munmap(): \";\n";
    let program = shop.compile("stripped", &format!("{SAYS_PRELOADED}\n{text}"), &["-s"]);
    let mark = "the text \"<jemalloc>: \"";
    assert_eq!(said(&shop, &program).0, expected(&program, "jemalloc", mark));
    // A symbol that only ends in a known name is another function.
    let source = format!("{SAYS_PRELOADED}\nvoid *xmi_malloc(void) {{ return 0; }}\n");
    let program = shop.compile("another", &source, &[]);
    assert_eq!(said(&shop, &program).0, "");
}

/// A program of 32 bits that executes `env`, assembled by hand: compilers for it are rare.
fn program_of_32_bits(shop: &Workshop) -> PathBuf {
    const BASE: u32 = 0x0804_8000;
    let mut code: Vec<u8> = vec![0xb8, 11, 0, 0, 0, 0xbb]; // mov eax, SYS_execve; mov ebx, path
    let path = BASE + 52 + 32 + 25;
    code.extend(path.to_le_bytes());
    code.extend([0x8d, 0x4c, 0x24, 4]); // lea ecx, [esp + 4]
    code.extend([0x8b, 0x14, 0x24]); // mov edx, [esp]
    code.extend([0x8d, 0x54, 0x94, 8]); // lea edx, [esp + edx * 4 + 8]
    code.extend([0xcd, 0x80]); // int 0x80
    code.extend([0x0f, 0x0b]); // ud2
    assert_eq!(code.len(), 25);
    code.extend(b"/usr/bin/env\0");
    let bytes = 52 + 32 + code.len() as u32;
    let mut file = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    file.extend([2, 0, 3, 0]); // ET_EXEC, EM_386
    for word in [1, BASE + 52 + 32, 52, 0, 0] {
        file.extend(u32::to_le_bytes(word)); // version, entry, program headers, sections, flags
    }
    for half in [52u16, 32, 1, 40, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    for word in [1, 0, BASE, BASE, bytes, bytes, 5, 0x1000] {
        file.extend(u32::to_le_bytes(word)); // PT_LOAD, readable and executable
    }
    file.extend(code);
    let path = shop.path("old");
    fs::write(&path, file).expect("the workshop is writable");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
    path
}

/// The loader of such a program, and of each of its children, would complain about the library.
#[test]
fn programs_of_32_bits_get_no_library() {
    let shop = Workshop::new();
    let program = program_of_32_bits(&shop);
    let line = format!(
        "quarry: {} is for i386 (32 bits), the library for {} (64 bits): it cannot be \
         preloaded; it runs without Quarry\n",
        program.display(),
        if cfg!(target_arch = "x86_64") { "x86-64" } else { "AArch64" }
    );
    let assert =
        shop.run().arg("--").arg(&program).assert().stderr(predicate::str::starts_with(line));
    if Command::new(&program).output().is_ok_and(|output| output.status.success()) {
        assert
            .success()
            .stderr(is_match("\\A[^\n]*\n\\z").unwrap())
            .stdout(contains("LD_PRELOAD").not());
    } else {
        skipped("its environment: this kernel runs no programs of 32 bits");
    }
}

/// A program of which the headers name musl's loader.
fn program_of_musl(shop: &Workshop, source: &str) -> PathBuf {
    let bytes = fs::read("/proc/self/exe").expect("this program");
    let name = bytes.windows(9).position(|it| it == b"/ld-linux").expect("a loader of glibc");
    let start = bytes[..name].iter().rposition(|it| *it == 0).expect("a header") + 1;
    let loader = bytes[start..].split(|it| *it == 0).next().unwrap_or_default();
    let loader = String::from_utf8_lossy(loader).into_owned();
    // The loader of this machine, which is glibc's, under the name of musl's.
    let other = shop.path("ld-musl-x86_64.so.1");
    symlink(loader, &other).expect("the workshop is writable");
    let option = format!("-Wl,--dynamic-linker={}", other.display());
    shop.compile("musl", source, &[&option])
}

#[test]
fn programs_of_another_loader_get_no_library() {
    let shop = Workshop::new();
    let (line, answer) = said(&shop, &program_of_musl(&shop, SAYS_PRELOADED));
    assert!(line.contains("the library needs glibc's loader; it runs without Quarry"), "{line}");
    assert_eq!(answer, "alone\n");
}

#[test]
fn programs_of_musl_get_the_library_for_musl() {
    let shop = Workshop::new();
    let mut options = needed(&shop, "libc.so", "int quarry_libc;\n");
    options.extend(["-shared", "-fPIC"].map(str::to_owned));
    let library = compile_with(&shop, "libquarry-musl.so", "int quarry_of_musl;\n", &options);
    let library = library.canonicalize().expect("the workshop");
    let program = program_of_musl(&shop, SHOWS_PRELOADED);
    let expected = (String::new(), format!("{}\n", library.display()));
    assert_eq!(said(&shop, &program), expected);
    // The library that the user names is used, and no other.
    let named = shop.path("libquarry.so");
    let mut run = quarry();
    run.env("QUARRY_LIBRARY", named).args(["run", "--"]).arg(program);
    run.assert().success().stdout("alone\n").stderr(contains("needs glibc's loader"));
}

#[test]
fn a_missing_interpreter_is_named() {
    let shop = Workshop::new();
    let refused = |program: &Path, reason: &str| {
        let line = format!("quarry: {}: {reason}\n", program.display());
        shop.run().arg("--").arg(program).assert().code(127).stdout(is_empty()).stderr(line);
    };
    let orphan = shop.script("orphan", "#!/no/such/interpreter -x\n");
    refused(&orphan, "its interpreter /no/such/interpreter does not exist");
    let outer = shop.script("outer", &format!("#!{}\n", orphan.display()));
    refused(&outer, "its interpreter /no/such/interpreter does not exist");
    let foreign = shop.script("foreign", "#!/bin/sh\r\necho never\r\n");
    let reason = "its interpreter /bin/sh does not exist (its line ends in a carriage return)";
    refused(&foreign, reason);
    let option = "-Wl,--dynamic-linker=/no/such/ld-linux.so.2";
    let program = shop.compile("unloadable", SAYS_PRELOADED, &[option]);
    refused(&program, "its loader /no/such/ld-linux.so.2 does not exist");
}

#[test]
fn scripts_say_what_they_may_run() {
    let shop = Workshop::new();
    let folder = shop.path("").canonicalize().expect("the workshop");
    let real = shop.compile("real", OWN_MALLOC, &[]);
    let text = format!(
        "#!/bin/sh\nNAME=real\nLIB={}\nif [ $# = 9 ]; then exec cat; fi\nexec $LIB/$NAME \"$@\"\n",
        folder.display()
    );
    let script = shop.script("wrapper", &text);
    let line = format!(
        "quarry: {} is a script that may run {}: that defines malloc itself, which is \
         preferred to any other; it runs without Quarry\n",
        script.display(),
        folder.join("real").display()
    );
    assert_eq!(said(&shop, &script), (line, "preloaded\n".to_owned()));
    // The script now starts a program that the library would break.
    let source = format!("{OWN_MALLOC}\nvoid __tsan_init(void) {{}}\n");
    fs::remove_file(&real).expect("it is ours");
    shop.compile("real", &source, &[]);
    let (line, answer) = said(&shop, &script);
    assert!(line.contains("is built with ThreadSanitizer (__tsan_init)"), "{line}");
    assert_eq!(answer, "alone\n");
}

/// A program that executes another one, as rustup's `rustc` does: only the library can see which.
#[test]
fn what_a_program_becomes_says_that_it_is_not_served() {
    let Some(library) = real_library() else { return };
    let shop = Workshop::new();
    let real = shop.compile("real", OWN_MALLOC, &[]).canonicalize().expect("it was compiled");
    let source = "#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\n\
                  int main(int argc, char **argv) {\n\
                      free(malloc(100));\n\
                      if (argc > 2 && fork() != 0) return wait(NULL) < 0;\n\
                      execv(argv[1], argv + 1); return 9; }\n";
    let proxy = shop.compile("proxy", source, &["-O0"]);
    let run = |arguments: &[&Path]| {
        let mut run = quarry();
        run.env("QUARRY_LIBRARY", &library).args(["run", "--"]).arg(&proxy).args(arguments);
        run.assert().success().stdout("preloaded\n")
    };
    run(&[&real]).stderr(format!(
        "quarry: {} defines malloc itself, which is preferred to any other; \
         it runs without Quarry\n",
        real.display()
    ));
    // A child process that executes such a program prints no line.
    run(&[&real, Path::new("in a child")]).stderr(is_empty());
    // A program that is served prints no line, not even one at a fixed address.
    let plain = shop.compile("plain", SAYS_PRELOADED, &[]);
    run(&[&plain]).stderr(is_empty());
    let address = format!(
        "void *(*volatile f)(unsigned long);\n{SAYS_PRELOADED}\n\
                           __attribute__((constructor)) static void set(void) {{ f = malloc; }}\n"
    );
    let fixed = shop.compile("fixed", &address, &["-fno-pie", "-no-pie"]);
    run(&[&fixed]).stderr(is_empty());
}
