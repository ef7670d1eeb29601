//! gcc compiles a large file, with many small objects, obstacks and big arrays. The output is
//! compared byte by byte.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::installed;
use crate::support::{Outcome, Run, scratch};

/// Source of twice `number` functions: loops, switches, structures, strings, no two alike.
pub(super) fn functions(number: u32) -> String {
    let mut text = String::from("#include <stdio.h>\n#include <string.h>\n");
    for n in 0..number {
        let (a, b, c) = (n % 7 + 2, n % 13 + 3, n.wrapping_mul(2_654_435_761) % 1000);
        write!(
            text,
            r#"
struct record_{n} {{ int key; double weight[{a}]; char name[{b} + 8]; struct record_{n} *next; }};
static int walk_{n}(const struct record_{n} *list, int depth) {{
    int sum = {c};
    for (int i = 0; list && i < depth; i++, list = list->next) {{
        switch ((list->key + i) % {b}) {{
        case 0: sum += (int)list->weight[i % {a}]; break;
        case 1: sum ^= list->name[i % {b}]; break;
        case 2: sum = sum * {a} + (int)strlen(list->name); break;
        default: sum -= printf("record {n}: %d %s\n", sum, list->name);
        }}
    }}
    return sum;
}}
int entry_{n}(int x) {{
    struct record_{n} b = {{x, {{1.{c}}}, "b{n}", 0}}, a = {{x + {c}, {{2.5}}, "a{n}", &b}};
    return walk_{n}(&a, x % {a} + {b});
}}
"#
        )
        .expect("a string grows");
    }
    text
}

pub(super) fn compile(run: Run, source: &Path, object: &Path) -> Outcome {
    let outcome =
        run.limit_s(300).args(["-O2", "-c", "-o"]).arg(object).arg(source).finish().success();
    assert_eq!(outcome.stderr, "", "{outcome}");
    outcome
}

#[test]
fn gcc_makes_the_same_object_file() {
    let gcc = installed("gcc", "gcc");
    let folder = scratch();
    let source = folder.join("large.c");
    fs::write(&source, functions(400)).expect("scratch is writable");
    let (with, without) = (folder.join("with.o"), folder.join("without.o"));
    compile(Run::bare(&gcc), &source, &without);
    let outcome = compile(Run::new(&gcc), &source, &with);
    let stats = outcome.stats();
    // The driver, the compiler proper and the assembler are three processes; the compiler alone
    // makes far more than this number of allocations for one source of this size.
    assert!(stats.processes() >= 3, "{} processes left statistics\n{outcome}", stats.processes());
    let most = stats.object_allocs_of_the_busiest();
    assert!(most > 100_000, "the busiest process made {most} allocations\n{outcome}");
    let same = fs::read(with).expect("object") == fs::read(without).expect("object");
    assert!(same, "the object files in {} differ\n{outcome}", folder.display());
}
