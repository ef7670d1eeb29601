//! Processes that are chosen by name, and processes that come and go.

use super::served::{Served, eventually, python};
use crate::support::quarry;
use std::process::Output;

/// A program with a name that no other process has.
fn called(name: &str) -> Option<(Served, String)> {
    let name = format!("{name}-{}", std::process::id());
    Some((Served::python(&format!("ctypes.CDLL(None).prctl(15, b'{name}')"))?, name))
}

fn of(name: &str, verb: &[&str]) -> Output {
    quarry().args(verb).args(["--name", name]).output().expect("it runs")
}

/// Standard output of a command once the process has published.
fn said(name: &str, verb: &[&str]) -> String {
    eventually(&format!("{verb:?}"), || {
        let Output { status, stdout, stderr } = of(name, verb);
        let [out, error] = [stdout, stderr].map(|it| String::from_utf8(it).expect("text"));
        if status.success() { Ok(out) } else { Err(error) }
    })
}

#[test]
fn processes_are_listed_with_what_they_hold() {
    let Some((served, name)) = called("ps") else { return };
    said(&name, &["top", "--once"]);
    let list = said(&name, &["ps"]);
    let words: Vec<&str> = list.lines().nth(1).expect("a line").split_whitespace().collect();
    assert_eq!(words[0], served.pid(), "{list}");
    assert!(words.contains(&name.as_str()) && words[2] == "MiB", "{list}");
    assert!(list.starts_with("    PID") || list.contains("OTHER"), "{list}");
    let json = said(&name, &["ps", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("a line of JSON");
    assert!(json["resident_bytes"].as_u64() > Some(1 << 20), "{json}");
}

/// A number with its unit stays whole, and a process has one line.
#[test]
fn a_narrow_terminal_gets_a_line_for_each_process() {
    let Some((served, name)) = called("narrow") else { return };
    said(&name, &["top", "--once"]);
    for columns in [40, 60, 80] {
        let quarry = env!("CARGO_BIN_EXE_quarry");
        let commands = format!("stty cols {columns}; {quarry} ps --name {name}");
        let mut terminal = std::process::Command::new("script");
        let output = terminal.args(["-q", "-e", "-c", &commands, "/dev/null"]).output();
        let text = String::from_utf8(output.expect("script is installed").stdout).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= columns), "{text}");
        let words: Vec<&str> = lines[1].split_whitespace().collect();
        assert_eq!((words[0], words[2]), (&*served.pid(), "MiB"), "{text}");
        assert!(words.iter().any(|word| word.starts_with("narrow")), "{text}");
    }
}

#[test]
fn each_command_takes_a_name() {
    let Some((_served, name)) = called("name") else { return };
    assert!(said(&name, &["slabinfo"]).starts_with("slabinfo - "));
    let top = said(&name, &["top", "--once"]);
    assert!(top.contains(" other = ") && top.contains(" RSS"), "{top}");
    let metrics = said(&name, &["metrics"]);
    let series = metrics.lines().filter(|line| !line.starts_with('#')).count();
    let first = format!("quarry_resident_bytes{{process=\"{name}\",");
    assert!(metrics.contains(&first) && (10..=13).contains(&series), "{metrics}");
    let metrics = said(&name, &["metrics", "--level=all"]);
    assert!(metrics.contains("quarry_resident_bytes{pid="), "{metrics}");
    let profile = of(&name, &["profile", "--seconds", "0.1", "--wait", "100"]);
    let error = String::from_utf8_lossy(&profile.stderr).into_owned();
    assert!(profile.status.success() && error.contains(&format!("{name}[")), "{error}");
}

#[test]
fn a_name_that_several_have_is_their_sum_but_no_profile() {
    let Some((one, name)) = called("two") else { return };
    let large = "large = b'x' * (64 << 20)";
    let script = format!("ctypes.CDLL(None).prctl(15, b'{name}'); {large}");
    let Some(other) = Served::python(&script) else { return };
    for served in [&one, &other] {
        served.text(&["slabinfo"]);
    }
    let top = said(&name, &["top", "--once"]);
    assert!(top.starts_with(&format!("quarry top  {name}+1[")), "{top}");
    let refused = of(&name, &["profile"]);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success(), "{error}");
    // The larger one comes first, although it was started later, and is proposed.
    let both = format!("{name}[{}], {name}[{}]", other.pid(), one.pid());
    let expected =
        format!("quarry: several processes are on Quarry and match --name {name}: {both}; ");
    assert!(error.starts_with(&expected), "{error}");
    assert!(
        error.ends_with(&format!("; choose one by --pid {}\n", other.pid())),
        "no sum: {error}"
    );
}

/// Each of several processes has its own growth and its own call sites.
#[test]
fn growth_of_several_processes_has_a_section_for_each() {
    let Some((one, name)) = called("grow") else { return };
    let script = format!("ctypes.CDLL(None).prctl(15, b'{name}')");
    let Some(other) = Served::python(&script) else { return };
    for served in [&one, &other] {
        served.text(&["slabinfo"]);
    }
    let text = said(&name, &["top", "--once", "--sort", "growth", "--delay", "2"]);
    assert!(text.starts_with(&format!("quarry top  {name}+1[")), "{text}");
    for served in [&one, &other] {
        let (_, section) =
            text.split_once(&format!("\nquarry top  {name}[{}]", served.pid())).expect(&text);
        let (table, sites) = section.split_once("Allocated since the first look").expect(&text);
        assert!(table.contains(" GROWTH ") && table.contains(" RSS"), "{text}");
        let (sites, _) = sites.split_once("\nquarry top  ").unwrap_or((sites, ""));
        assert!(sites.contains("in use") && sites.contains("call site"), "{text}");
    }
}

/// `python3` is a link to a program of another name.
#[test]
fn a_process_that_was_started_by_a_link_has_the_name_of_the_link() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = format!("link-{}", std::process::id());
    let link = folder.path().join(&name);
    std::os::unix::fs::symlink("/usr/bin/python3", &link).expect("a link");
    let script = python("ctypes.CDLL(None).prctl(15, b'another')");
    let Some(served) = Served::start(&[link.to_str().expect("text"), "-c", &script]) else {
        return;
    };
    served.text(&["slabinfo"]);
    let list = said(&name, &["ps"]);
    assert!(list.contains(&served.pid()) && list.contains("another"), "{list}");
}

#[test]
fn what_is_not_there_is_said() {
    for option in [["--name", "no such name"], ["--cgroup", "no.such.service"]] {
        for verb in [&["ps"][..], &["top", "--once"], &["slabinfo"], &["profile"], &["metrics"]] {
            let output = quarry().args(verb).args(option).output().expect("it runs");
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{verb:?}: {error}");
            let what = format!("has this name or control group: {} {}; ", option[0], option[1]);
            assert!(error.contains("no process on Quarry ") && error.contains(&what), "{error}");
        }
    }
}

/// A profile maps descriptors. Most of them stay untouched, and are no part of the sum.
#[test]
fn live_parked_dirty_and_other_memory_are_all_that_is_resident() {
    let Some(served) = Served::python("") else { return };
    served.text(&["profile", "--seconds", "0.5", "--mean", "4K"]);
    let top = served.text(&["top", "--once"]);
    let line = top.lines().find(|it| it.starts_with("Memory ")).expect(&top);
    let words: Vec<&str> = line.split([' ', ',']).filter(|it| !it.is_empty()).collect();
    let kib: Vec<f64> = { words.windows(2).filter(|it| it[1].ends_with('B')) }
        .map(|it| it[0].parse::<f64>().expect(line) * [1.0, 1024.0][usize::from(it[1] == "MiB")])
        .collect();
    let [live, parked, dirty, other, resident] = kib[..] else { panic!("{line}") };
    // Each of the five is rounded by less than 0.1 MiB.
    assert!((live + parked + dirty + other - resident).abs() < 0.5 * 1024.0, "{line}");
}

/// One command: growth by size class, and by call site.
#[test]
fn growth_has_classes_and_call_sites() {
    let grow = "import threading\ndef grow():\n    global grown\n    grown = []\n    \
                while True:\n        grown.append(bytes(4000))\n        time.sleep(0.0005)\n\
                threading.Thread(target=grow, daemon=True).start()";
    let Some(served) = Served::python(grow) else { return };
    let text = served.text(&["top", "--once", "--sort", "growth", "--delay", "2"]);
    let first = text.lines().nth(6).expect("a row");
    assert!(first.contains('+') && text.contains(" GROWTH "), "{text}");
    let (_, sites) = text.split_once("Allocated since the first look").expect(&text);
    assert!(sites.contains("in use") && sites.contains("call site"), "{text}");
    assert!(sites.contains("(samples count as blocks)"), "{text}");
}

#[test]
fn a_sidecar_outlives_its_service() {
    use std::io::{BufRead, BufReader, Read, Write};
    let Some((mut served, name)) = called("side") else { return };
    said(&name, &["metrics"]);
    let mut sidecar = std::process::Command::new(env!("CARGO_BIN_EXE_quarry"))
        .args(["metrics", "--level=all", "--listen", "127.0.0.1:0", "--name", &name])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    BufReader::new(sidecar.stderr.take().expect("piped")).read_line(&mut line).expect("a line");
    let address = line.split("http://").nth(1).and_then(|it| it.split('/').next()).expect(&line);
    let scrape = || {
        let mut stream = std::net::TcpStream::connect(address).expect("it listens");
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    };
    let served_text = || {
        let answer = scrape();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer
    };
    let pid = |of: &Served| format!("quarry_used_bytes{{pid=\"{}\"", of.pid());
    assert!(served_text().contains(&pid(&served)));
    served.kill();
    let without = served_text();
    assert!(!without.contains("pid=") && without.contains("\nquarry_processes 0\n"), "{without}");
    let again = Served::python(&format!("ctypes.CDLL(None).prctl(15, b'{name}')"));
    let again = again.expect("there was one");
    // Until the new process publishes, the sidecar answers that no process has figures.
    eventually("the next one", || {
        let answer = scrape();
        if answer.contains(&pid(&again)) { Ok(()) } else { Err(answer) }
    });
    sidecar.kill().expect("it runs");
    sidecar.wait().expect("it ends");
}
