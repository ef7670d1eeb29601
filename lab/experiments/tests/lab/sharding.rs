//! `quarry lab run --shard` and `quarry lab merge`.

use crate::runs::{meta, samples};
use crate::support::lab;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use std::fs;
use std::path::Path;

const RUN: &[&str] = &["run", "empty", "--samples=3", "--millis=1", "--seed=7"];

fn take(folder: &Path, shard: &str) -> assert_cmd::assert::Assert {
    let shard = format!("--shard={shard}");
    lab().current_dir(folder).args(RUN).args([&shard, "--out=run"]).assert()
}

fn merge(folder: &Path, out: &str) -> assert_cmd::assert::Assert {
    lab().current_dir(folder).args(["merge", "run", "--out", out]).assert()
}

#[test]
fn shards_become_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    take(folder, "2/2").success().stdout(contains("shard 2/2: ").and(contains("| steps").not()));
    merge(folder, "whole").code(3).stderr(contains("quarry: missing of 2 shards: 1\n"));
    take(folder, "1/2").success();
    take(folder, "1/2").success().stdout(contains("warning: taken before: nothing was measured"));
    merge(folder, "whole").success().stdout("2 shards, 24 samples: whole\n");
    let taken = samples(&folder.join("whole"));
    assert_eq!(taken.len(), (3 + 1) * 2 * 3, "rounds and warm-up, workloads, variants");
    let meta = meta(&folder.join("whole"));
    assert_eq!(
        (&meta["part"], &meta["options"]["shards"]),
        (&serde_json::Value::Null, &"2".into())
    );
    let command: Vec<&str> =
        meta["origin"]["command"].as_array().unwrap().iter().filter_map(|it| it.as_str()).collect();
    assert_eq!((command[1], &command[2..]), ("lab", RUN), "the command is that of the whole run");
    lab()
        .current_dir(folder)
        .args(["compare", "whole"])
        .assert()
        .success()
        .stdout(contains("| steps"));
    lab().current_dir(folder).args(["report", "whole", "-o", "whole.html"]).assert().success();
    merge(folder, "whole").code(2).stderr(contains("the directory is not empty"));
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    take(folder, "1/2").success();
    lab()
        .current_dir(folder)
        .args(["run", "empty", "--samples=4", "--millis=1", "--seed=8"])
        .args(["--shard=2/2", "--out=run"])
        .assert()
        .code(2)
        .stderr(contains("shard-1-of-2: a shard of another run: ").and(contains("seed 8, not 7")));
    take(folder, "2/2").success();
    let meta = folder.join("run/shard-2-of-2/meta.json");
    let text = fs::read_to_string(&meta).unwrap();
    fs::write(&meta, text.replace("\"governor\": ", "\"governor\": \"odd\", \"was\": ")).unwrap();
    merge(folder, "whole").code(2).stderr(contains("environment.governor odd, not "));
    assert!(folder.join("whole").read_dir().unwrap().next().is_none(), "nothing was written");
    take(folder, "3/2").code(2).stderr(contains("3/2 is no shard; accepted: K/N with 1 <= K <= N"));
    lab()
        .current_dir(folder)
        .args(["run", "empty", "--shard=1/2"])
        .assert()
        .code(2)
        .stderr(contains("--seed <N>").and(contains("--out <DIR>")));
}
