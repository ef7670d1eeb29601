//! Checks that this command accepts the command lines that lab/docs/sharding.md shows.

use crate::{Cli, Command};
use clap::Parser;
use saphyr::{LoadableYamlNode, Yaml};
use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../docs/sharding.md");
const JOB: &str = include_str!("../../../../scripts/slurm-job.sh");

fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    let of = |text: &'static str| text.split("```").next().unwrap();
    PAGE.split(&fence).skip(1).map(of).collect()
}

/// Parses a line by the command's own parser; `quarry lab` stands for `quarry-lab`.
fn parse(line: &str) {
    let words = shlex::split(line).unwrap_or_else(|| panic!("no shell reads {line}"));
    let [quarry, lab, rest @ ..] = &words[..] else { panic!("{line}: no command") };
    assert_eq!((&quarry[..], &lab[..]), ("quarry", "lab"), "{line}: not of the lab");
    match Cli::try_parse_from(["quarry-lab"].into_iter().chain(rest.iter().map(String::as_str))) {
        Ok(Cli { command: Command::Lab(_) }) => {}
        Ok(_) => panic!("{line}: not of the lab"),
        Err(error) => panic!("{line}: {error}"),
    }
}

#[test]
fn commands_of_the_page_are_accepted() {
    let lines: Vec<&str> = blocks("sh").into_iter().flat_map(str::lines).collect();
    let commands: Vec<&str> =
        lines.iter().filter(|line| line.starts_with("quarry ")).copied().collect();
    assert!(commands.len() >= 5, "{commands:?}");
    for line in commands {
        parse(line.split(" #").next().unwrap());
    }
}

#[test]
fn an_array_of_slurm_starts_shards() {
    let call = r#"lab run "$@" --shard="$shard" --out="${OUT:?"#;
    assert!(JOB.contains(call), "the script calls the command so");
    let lines = blocks("sh").into_iter().flat_map(str::lines);
    let submitted: Vec<&str> =
        lines.filter_map(|line| line.split_once("scripts/slurm-job.sh ")).map(|it| it.1).collect();
    assert_eq!(submitted.len(), 2, "{submitted:?}");
    for words in submitted {
        parse(&format!("quarry lab run {words} --shard=3/8 --out=/shared/run"));
    }
}

#[test]
fn a_job_of_kubernetes_takes_every_shard_once() {
    let [text] = blocks("yaml")[..] else { panic!("one block of YAML") };
    let documents = Yaml::load_from_str(text).expect("YAML");
    let [job] = &documents[..] else { panic!("one document") };
    let said = |it: &Yaml<'_>| it.as_str().map(str::to_owned).unwrap_or_default();
    assert_eq!((said(&job["apiVersion"]), said(&job["kind"])), ("batch/v1".into(), "Job".into()));
    let spec = &job["spec"];
    assert_eq!(said(&spec["completionMode"]), "Indexed");
    let completions = spec["completions"].as_integer().expect("a number of shards");
    assert!(spec["parallelism"].as_integer().is_some_and(|it| it <= completions));
    let pod = &spec["template"]["spec"];
    // Kubernetes requires this of jobs that have a failure policy.
    assert_eq!(said(&pod["restartPolicy"]), "Never");
    let container = &pod["containers"][0];
    let rule = &spec["podFailurePolicy"]["rules"][0]["onExitCodes"];
    assert_eq!(said(&rule["containerName"]), said(&container["name"]));
    assert_eq!(rule["values"][0].as_integer(), Some(quarry_cli::exit_status::EXIT_USAGE.into()));
    assert_eq!(
        (said(&container["command"][0]), said(&container["command"][1])),
        ("sh".into(), "-c".into())
    );
    let line = said(&container["args"][0]);
    let mount = said(&container["volumeMounts"][0]["mountPath"]);
    let line = line.strip_prefix("exec ").expect("signals reach the command");
    assert!(line.contains(&format!(" --out={mount}/")), "{line}");
    let mut shards = BTreeSet::new();
    for index in 0..completions {
        let number = (index + 1).to_string();
        let line = line.replace("$((JOB_COMPLETION_INDEX + 1))", &number);
        parse(&line);
        let shard = line.split(" --shard=").nth(1).and_then(|rest| rest.split(' ').next());
        assert_eq!(shard, Some(format!("{number}/{completions}").as_str()));
        shards.extend(shard.map(str::to_owned));
    }
    assert_eq!(shards.len(), usize::try_from(completions).unwrap());
}
