//! The kernel's layouts of living processes: the kernel's own tools read them.

use super::served::{Served, eventually};
use crate::support::{quarry, skipped};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn each_layout_is_the_kernels() {
    let Some(python) = Served::python("") else { return };
    let slabinfo = python.text(&["slabinfo"]);
    let lines: Vec<&str> = slabinfo.lines().collect();
    assert_eq!(lines[0], "slabinfo - version: 2.1");
    assert!(lines.len() > 10, "{slabinfo}");
    for line in &lines[2..] {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!((words.len(), words[6], words[7], words[11]), (16, ":", "tunables", ":"));
        let number = |at: usize| words[at].parse::<u64>().expect(line);
        assert!(number(1) <= number(2) && number(13) <= number(14), "{line}");
        assert!(number(2) <= number(4) * number(14), "{line}");
    }
    let active = python.text(&["slabinfo", "-AD"]);
    assert_eq!(
        active.lines().next(),
        Some("Name                   Objects    Alloc     Free   %Fast")
    );
    let counts: Vec<u64> = active
        .lines()
        .skip(1)
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words[2].parse::<u64>().expect(line) + words[3].parse::<u64>().expect(line)
        })
        .collect();
    assert!(counts[0] > 100 && counts.is_sorted_by(|one, next| one >= next), "{active}");
    let buddyinfo = python.text(&["buddyinfo"]);
    assert!(buddyinfo.starts_with("Node 0, zone   Normal "), "{buddyinfo}");
    assert_eq!(buddyinfo.lines().next().unwrap().split_whitespace().count(), 4 + 11);
    let zoneinfo = python.text(&["zoneinfo"]);
    assert!(zoneinfo.contains("\n  pages free     ") && zoneinfo.contains("\n    cpu: "));
    let vmstat = python.text(&["vmstat"]);
    assert!(vmstat.lines().all(|line| {
        line.split_once(' ').is_some_and(|(_, count)| count.parse::<u64>().is_ok())
    }));
    assert!(python.text(&["lockstat"]).starts_with("lock_stat version 0.4\n---"));
}

#[test]
fn the_age_and_the_policies_go_to_standard_error() {
    let Some(python) = Served::python("") else { return };
    python.text(&["slabinfo"]);
    let error = String::from_utf8(python.look(&["slabinfo"]).stderr).unwrap();
    assert!(error.starts_with(&format!("quarry: python3[{}], ", python.pid())), "{error}");
    assert!(error.contains(" s old; Quarry ") && error.contains(": sheaf, v6.18, "), "{error}");
    assert_eq!(error.lines().count(), 1);
}

#[test]
fn json_has_the_same_numbers() {
    let Some(python) = Served::python("") else { return };
    for verb in ["slabinfo", "buddyinfo", "zoneinfo", "vmstat", "lockstat", "top"] {
        let text = python.text(&[verb, "--json"]);
        let value: Value = serde_json::from_str(&text).expect(&text);
        assert_eq!(value["pid"].to_string(), python.pid());
        assert_eq!(value["program"], "python3");
        assert!(value["age_ms"].is_u64() && value["memory"]["objects"].is_u64(), "{verb}: {text}");
        assert!(value["caches"].as_array().is_some_and(|it| it.len() > 10), "{verb}: {text}");
    }
}

/// The child dies with its parent (PR_SET_PDEATHSIG).
const FORK: &str = "child = os.fork()\nif child == 0: ctypes.CDLL(None).prctl(1, 9)";

/// A child of a fork publishes in the memory that it has inherited, and the sum has both.
#[test]
fn a_forked_child_has_figures_of_its_own() {
    let Some(python) = Served::python(FORK) else { return };
    let task = format!("/proc/{0}/task/{0}/children", python.pid());
    let child = fs::read_to_string(task).unwrap().trim().to_owned();
    let allocs = |arguments: &[&str]| -> u64 {
        let mut command = quarry();
        let output = command.args(["slabinfo", "--json"]).args(arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let values = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let caches = values.flat_map(|it: Value| it["caches"].as_array().cloned().unwrap());
        let sum = |of| caches.clone().filter_map(|cache| cache[of].as_u64()).sum::<u64>();
        sum("alloc_fast") + sum("alloc_slow")
    };
    let (parent, child) = (["--pid", &python.pid()], ["--pid", &child]);
    let both = [parent[0], parent[1], "--tree"];
    eventually("both publish", || {
        // The parent is read before the sum: counts only grow.
        let (one, other) = (allocs(&parent), allocs(&child));
        let sum = allocs(&both);
        let are_there = one > 0 && other > 0 && sum >= one + other;
        are_there.then_some(()).ok_or_else(|| format!("{one} + {other}, {sum}"))
    });
}

/// `slabtop` opens /proc/slabinfo, so it gets a mount namespace in which that is our file.
#[test]
fn slabtop_takes_it_for_the_kernels() {
    let Some(python) = Served::python("") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("slabinfo");
    fs::write(&file, python.text(&["slabinfo"])).unwrap();
    let script = "mount --bind \"$0\" /proc/slabinfo && exec slabtop -o -s o";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .arg(&file)
        .env("TERM", "dumb")
        .output()
        .expect("unshare is installed");
    let (text, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() && error.contains("unshare failed") {
        return skipped(&format!("no user namespaces here: {error}"));
    }
    assert!(output.status.success(), "{error}");
    assert!(text.contains("Active / Total Objects (% used)"), "{text}");
    let lines = text.lines().filter(|line| line.contains(" malloc-")).count();
    let caches = fs::read_to_string(&file).unwrap().lines().count() - 2;
    assert_eq!(lines, caches, "{text}");
}

/// The script that a monitoring program's author would write from `slabinfo(5)`.
#[test]
fn a_parser_of_the_manual_page_reads_it() {
    let Some(python) = Served::python("") else { return };
    let parser = r"
import re, sys
head, names, *lines = sys.stdin.read().splitlines()
assert re.fullmatch(r'slabinfo - version: 2\.1', head), head
fields = re.findall(r'<(\w+)>', names)
total = 0
for line in lines:
    info, tunables, slabs = (part.split() for part in line.split(' : '))
    values = info[1:] + tunables[1:] + slabs[1:]
    assert tunables[0] == 'tunables' and slabs[0] == 'slabdata'
    row = dict(zip(fields, map(int, values), strict=True))
    total += row['num_slabs'] * row['pagesperslab']
print(total)
";
    let mut parse = Command::new("/usr/bin/python3")
        .args(["-c", parser])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let text = python.text(&["slabinfo"]);
    parse.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = parse.wait_with_output().unwrap();
    assert!(output.status.success());
    let pages: u64 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    assert!(pages > 100, "{pages}");
}

#[test]
fn redis_under_load_counts_its_objects() {
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let port = port.to_string();
    let script = "redis-server --port \"$0\" --save '' > /dev/null & echo ready; wait";
    // The shell is the process that is looked at as a tree, redis is its child.
    let Some(mut shell) = Served::start(&["sh", "-c", script, &port]) else { return };
    eventually("redis answers", || {
        TcpStream::connect(format!("127.0.0.1:{port}")).map_err(|error| error.to_string())
    });
    let load = ["-p", &port, "-n", "30000", "-r", "30000", "-t", "set", "-q"];
    let benchmark = Command::new("redis-benchmark").args(load).output().unwrap();
    assert!(benchmark.status.success());
    let live = eventually("its figures", || {
        let text = shell.text(&["slabinfo", "--tree"]);
        let lives = text.lines().skip(2).filter_map(|line| line.split_whitespace().nth(1));
        let live: u64 = lives.filter_map(|it| it.parse::<u64>().ok()).sum();
        if live > 20_000 { Ok(live) } else { Err(format!("{live} live objects")) }
    });
    assert!(live < 1_000_000, "{live}");
    let _ = Command::new("redis-cli").args(["-p", &port, "shutdown", "nosave"]).status();
    shell.kill();
}

/// A core dump holds the page: gdb makes one of a living process.
#[test]
fn a_core_dump_has_the_statistics() {
    let Some(python) = Served::python("") else { return };
    python.text(&["slabinfo"]);
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("core");
    let dump = Command::new("gcore").arg("-o").arg(&prefix).arg(python.pid()).output();
    let dump = dump.expect("gdb is installed");
    let file = prefix.with_extension(python.pid());
    if !file.exists() {
        return skipped(&format!("gcore: {}", String::from_utf8_lossy(&dump.stderr)));
    }
    let read = |file: &Path| quarry().arg("slabinfo").arg("--core").arg(file).output().unwrap();
    let output = read(&file);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.lines().filter(|line| line.starts_with("malloc-")).count() > 10, "{text}");
    let error = String::from_utf8(output.stderr).unwrap();
    let heading = format!("quarry: python3[{}], of unknown age; ", python.pid());
    assert!(error.starts_with(&heading), "{error}");
    let top = |options: &[&str]| {
        quarry().arg("top").arg("--core").arg(&file).args(options).output().unwrap()
    };
    let output = top(&["--sort", "name"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with(&format!("quarry top  python3[{}], of unknown age", python.pid())));
    let rows = text.lines().filter(|line| line.starts_with("malloc-")).count();
    assert!(rows > 10 && text.contains(" live, ") && !text.contains(" RSS"), "{text}");
    let refused = String::from_utf8(top(&["--sort", "growth"]).stderr).unwrap();
    assert_eq!(refused, "quarry: --core has one reading, and no growth\n");
    let other = read(Path::new("/usr/bin/python3"));
    assert!(String::from_utf8_lossy(&other.stderr).contains("not a core dump"));
}
