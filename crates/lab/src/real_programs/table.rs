//! The programs.

use super::{Content, Proof, RealProgram, generated, memcached, pages, redis};

/// All of them, in the order of tables.
pub(crate) const ALL: &[RealProgram] = &[REDIS, MEMCACHED, NGINX, CPYTHON, GCC, SQLITE, LUA, Z3];

const REDIS: RealProgram = RealProgram {
    name: "redis",
    what: "strings that are set, appended to, read and deleted; lists; then FLUSHALL",
    package: "redis-server",
    executable: "redis-server",
    arguments: &[
        "--port",
        "0",
        "--unixsocket",
        "@DIR@/socket",
        "--save",
        "",
        "--appendonly",
        "no",
        "--dir",
        "@DIR@",
        "--daemonize",
        "no",
        "--loglevel",
        "warning",
    ],
    variables: &[],
    files: &[],
    stdin: None,
    full: 400_000,
    quick: 20_000,
    proof: Proof::Replies(redis::protocol),
};

const MEMCACHED: RealProgram = RealProgram {
    name: "memcached",
    what: "values of 16 bytes to 4 KiB set, appended to, read and deleted; two threads",
    package: "memcached",
    executable: "memcached",
    // Without -u it refuses to run as root, and does not mind it otherwise.
    arguments: &["-s", "@DIR@/socket", "-u", "root", "-m", "64", "-t", "2"],
    variables: &[],
    files: &[],
    stdin: None,
    full: 300_000,
    quick: 20_000,
    proof: Proof::Replies(memcached::protocol),
};

const NGINX: RealProgram = RealProgram {
    name: "nginx",
    what: "small files and pages made of several (SSI), over connections that are kept alive",
    package: "nginx-light",
    executable: "nginx",
    arguments: &["-p", "@DIR@", "-c", "@DIR@/nginx.conf"],
    variables: &[],
    files: &[("nginx.conf", Content::Text(include_str!("work/nginx.conf")))],
    stdin: None,
    full: 60_000,
    quick: 5_000,
    proof: Proof::Replies(pages::protocol),
};

const CPYTHON: RealProgram = RealProgram {
    name: "CPython",
    what: "ast.parse, json, dicts and sets, regular expressions, with PYTHONMALLOC=malloc",
    package: "python3",
    executable: "python3",
    arguments: &["-S", "-B", "@DIR@/objects.py"],
    // The hash seed decides the layout of every dict.
    variables: &[("PYTHONMALLOC", "malloc"), ("PYTHONHASHSEED", "0")],
    files: &[("objects.py", Content::Text(include_str!("work/objects.py")))],
    stdin: None,
    full: 160,
    quick: 12,
    proof: Proof::Prints {
        full: "96000 matches, 100 marks",
        quick: "10224 nodes, 342357 letters, 7200 matches",
    },
};

const GCC: RealProgram = RealProgram {
    name: "gcc",
    what: "gcc -O2 -S on a C file of generated functions; its child cc1 does the work",
    package: "gcc",
    executable: "gcc",
    arguments: &["-O2", "-S", "-o", "-", "@DIR@/functions.c"],
    variables: &[],
    files: &[("functions.c", Content::Made(generated::functions))],
    stdin: None,
    full: 70,
    quick: 10,
    proof: Proof::Prints { full: "GNU-stack", quick: "GNU-stack" },
};

const SQLITE: RealProgram = RealProgram {
    name: "sqlite",
    what: "a table in memory with two indexes: insert, group, update, delete, check",
    package: "sqlite3",
    executable: "sqlite3",
    arguments: &["-batch", ":memory:"],
    variables: &[],
    files: &[("stones.sql", Content::Text(include_str!("work/stones.sql")))],
    stdin: Some("stones.sql"),
    full: 150_000,
    quick: 20_000,
    proof: Proof::Prints { full: "ok", quick: "ok" },
};

const LUA: RealProgram = RealProgram {
    name: "lua",
    what: "binary trees, strings and tables",
    package: "lua5.4",
    executable: "lua5.4",
    arguments: &["@DIR@/trees.lua"],
    variables: &[],
    files: &[("trees.lua", Content::Text(include_str!("work/trees.lua")))],
    stdin: None,
    full: 16,
    quick: 13,
    proof: Proof::Prints {
        full: "3648172 nodes, 131071 long-lived",
        quick: "324952 nodes, 16383 long-lived",
    },
};

const Z3: RealProgram = RealProgram {
    name: "z3",
    what: "queens on a board in integer arithmetic, a check for every place of the first",
    package: "z3",
    executable: "z3",
    arguments: &["@DIR@/queens.smt2"],
    variables: &[],
    files: &[("queens.smt2", Content::Made(generated::queens))],
    stdin: None,
    full: 12,
    quick: 8,
    proof: Proof::Prints { full: "sat", quick: "sat" },
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_quick_is_less() {
        for (index, program) in ALL.iter().enumerate() {
            assert!(ALL[..index].iter().all(|other| other.name != program.name));
            assert!(program.quick < program.full, "{}", program.name);
            assert!(!program.what.is_empty() && !program.package.is_empty());
        }
    }
}
