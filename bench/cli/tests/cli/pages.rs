//! Man pages, and completions that know what is there.

use super::live::served::Served;
use crate::support::quarry;
use assert_cmd::Command;
use std::fs;

/// Every page has what a reader looks for first.
#[test]
fn pages_have_examples_variables_and_statuses() {
    let folder = tempfile::tempdir().unwrap();
    quarry().arg("pages").arg(folder.path()).assert().success();
    let man = folder.path().join("man");
    let pages = fs::read_dir(&man).unwrap().flatten();
    let names: Vec<String> = pages.map(|it| it.file_name().into_string().unwrap()).collect();
    assert!(names.len() > 13 && names.contains(&"quarry-names.1".to_owned()), "{names:?}");
    for name in &names {
        let text = fs::read_to_string(man.join(name)).unwrap();
        for head in ["EXAMPLES", "ENVIRONMENT", "EXIT STATUS", "SEE ALSO"] {
            assert_eq!(text.matches(&format!(".SH {head}\n")).count(), 1, "{name}: {head}");
        }
        assert!(!text.contains("watch-statistics"), "{name}: hidden commands stay hidden");
        let version = concat!("quarry ", env!("CARGO_PKG_VERSION"));
        let has_version = |it: &str| it.starts_with(".TH ") && it.contains(version);
        assert!(name == "libquarry.7" || text.lines().any(has_version), "{name}: its foot");
    }
    for name in ["quarry-record.1", "quarry-simulate.1"] {
        let text = fs::read_to_string(man.join(name)).unwrap();
        assert!(text.contains("quarry\\-lab\\-record(1)"), "{name}: {text}");
    }
    let library = fs::read_to_string(man.join("libquarry.7")).unwrap();
    assert!(library.contains("QUARRY_LIMIT") && library.contains("QUARRY_GUARD"));
    for file in ["bash/quarry", "zsh/_quarry", "fish/quarry.fish"] {
        let text = fs::read_to_string(folder.path().join(file)).unwrap();
        assert!(text.contains("COMPLETE="), "{file}: {text}");
    }
}

/// The words that bash is offered for the last of `words`.
fn offered(words: &[&str]) -> Vec<String> {
    let mut command: Command = quarry();
    command.env("COMPLETE", "bash").env("_CLAP_IFS", "\n");
    command.env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
    let output = command.arg("--").args(words).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn completions_know_policies_options_and_processes() {
    assert!(offered(&["quarry", "pro"]).contains(&"profile".to_owned()));
    assert_eq!(offered(&["quarry", "run", "--slab", "slq"]), ["slqb"]);
    assert_eq!(offered(&["quarry", "run", "--set", "LIM"]), ["LIMIT="]);
    let Some(served) = Served::python("") else { return };
    served.text(&["slabinfo"]);
    assert!(offered(&["quarry", "top", "--pid", ""]).contains(&served.pid()));
}

/// `quarry lab` is another program, which completes its own lines.
#[test]
fn the_lab_completes_its_own_lines() {
    let folder = tempfile::tempdir().unwrap();
    let lab = folder.path().join("lab");
    fs::write(&lab, "#!/bin/sh\necho \"$COMPLETE $_CLAP_COMPLETE_INDEX $*\"\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&lab, mode).unwrap();
    let told = |words: &[&str]| {
        let mut command = quarry();
        command.env("COMPLETE", "bash").env("QUARRY_LAB", &lab);
        command.env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
        String::from_utf8(command.arg("--").args(words).output().unwrap().stdout).unwrap()
    };
    assert_eq!(told(&["quarry", "lab", "run", "ma"]), "bash 2 -- quarry-lab run ma\n");
    assert_eq!(told(&["quarry", "simulate", "--po"]), "bash 2 -- quarry-lab simulate --po\n");
    assert!(told(&["quarry", "la"]).starts_with("lab"));
}
