//! Compiles SQLite a second time, without SQLITE_ENABLE_MEMORY_MANAGEMENT. All names are local to
//! the object file, so that both builds fit into one program.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=src/plain.c");
    println!("cargo::rerun-if-changed=build.rs");
    let source = env::var("DEP_SQLITE3_INCLUDE").expect("libsqlite3-sys is built as `bundled`");
    // The flags of libsqlite3-sys, except SQLITE_ENABLE_MEMORY_MANAGEMENT and parts that no load
    // uses.
    cc::Build::new()
        .file("src/plain.c")
        .include(source)
        .define("SQLITE_CORE", None)
        .define("SQLITE_DEFAULT_FOREIGN_KEYS", "1")
        .define("SQLITE_ENABLE_API_ARMOR", None)
        .define("SQLITE_ENABLE_COLUMN_METADATA", None)
        .define("SQLITE_ENABLE_DBSTAT_VTAB", None)
        .define("SQLITE_ENABLE_STAT4", None)
        .define("SQLITE_THREADSAFE", "1")
        .define("SQLITE_USE_URI", None)
        .define("HAVE_USLEEP", "1")
        .define("HAVE_ISNAN", None)
        .define("HAVE_LOCALTIME_R", None)
        .define("_POSIX_THREAD_SAFE_FUNCTIONS", None)
        .warnings(false)
        .flag_if_supported("-Wno-unused-function")
        .compile("sqlite_plain");
}
