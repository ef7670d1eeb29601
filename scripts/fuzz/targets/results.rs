//! A results directory that is damaged, or that another program has made: the lab makes a page of
//! it, or says in which file and line it is wrong. An input is `meta.json`, a NUL, and the samples.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quarry_harness::{report, results};
use std::{env, fs, process};

fuzz_target!(|bytes: &[u8]| {
    let cut = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let folder = env::temp_dir().join(format!("fuzz-results-{}", process::id()));
    fs::create_dir_all(&folder).expect("a folder in the temporary folder");
    fs::write(folder.join("meta.json"), &bytes[..cut]).expect("a file there");
    fs::write(folder.join("samples.jsonl"), bytes.get(cut + 1..).unwrap_or_default())
        .expect("a file there");
    match results::read(&folder) {
        Ok(run) => {
            let _ = report::page(vec![("fuzz".to_owned(), run)], None);
        }
        Err(error) => assert!(format!("{error:#}").contains("fuzz-results"), "{error:#}"),
    }
});
