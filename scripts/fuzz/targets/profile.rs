//! A heap profile that a hostile process has written: the command prints it, or says what is wrong.
#![no_main]

use clap::Parser;
use libfuzzer_sys::fuzz_target;
use quarry_profile::{ProfileArgs, profile};
use std::{env, fs, process};

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: ProfileArgs,
}

fuzz_target!(|bytes: &[u8]| {
    let path = |ending: &str| {
        let name = format!("fuzz-profile-{}{ending}", process::id());
        env::temp_dir().join(name).into_os_string().into_string().expect("a name in UTF-8")
    };
    fs::write(path(""), bytes).expect("a file in the temporary folder");
    let words = ["profile", &path(""), "--diff", &path(""), "--output", &path(".pb.gz")];
    let command = Command::try_parse_from(words).expect("the words are right");
    let mut out = Vec::new();
    if let Err(error) = profile(&command.args, &mut out) {
        assert!(format!("{error:#}").contains("fuzz-profile"), "{error:#}");
    }
});
