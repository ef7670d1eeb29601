//! stress-ng allocates, reallocates and frees in processes and threads, and checks the contents.

use super::installed;
use crate::support::{Run, scratch};

fn stress(options: &[&str]) {
    let stress = installed("stress-ng", "stress-ng");
    let folder = scratch();
    let run = Run::new(&stress).limit_s(300).args(options).args(["--verify", "--temp-path"]);
    run.arg(&folder).finish().success();
}

#[test]
fn stress_ng_finds_what_it_wrote_in_processes() {
    stress(&["--malloc", "2", "--malloc-max", "4096", "--malloc-ops", "200000"]);
}

#[test]
fn stress_ng_finds_what_it_wrote_in_threads() {
    let threads = ["--malloc-pthreads", "4", "--malloc-touch", "--malloc-bytes", "64k"];
    stress(&[&["--malloc", "2", "--malloc-ops", "100000"][..], &threads].concat());
}

#[test]
fn stress_ng_sorts_and_searches() {
    stress(&["--tsearch", "1", "--tsearch-ops", "3", "--hsearch", "1", "--hsearch-ops", "20"]);
}
