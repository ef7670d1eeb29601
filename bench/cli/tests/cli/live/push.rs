//! `quarry profile --push`, and receivers that decode it by the published definitions.

mod decoded;
mod receiver;

use super::profile::{LEAKY, leak, text};
use super::served::Served;
use crate::support::{Workshop, quarry, real_library};
use decoded::{Decoded, of_otlp, of_pprof};
use opentelemetry_proto::tonic::collector::profiles::v1development::{
    ExportProfilesPartialSuccess, ExportProfilesServiceResponse,
};
use prost::Message;
use receiver::{Answer, Receiver};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A program that has leaked, and the file with its profile.
fn leaked() -> Option<(Workshop, PathBuf)> {
    let library = real_library()?;
    let shop = Workshop::new();
    let program = shop.compile("leaky", LEAKY, &["-O2", "-g"]);
    let file = leak(&shop, &library, &program);
    Some((shop, file))
}

/// Pushes a profile in a file, and writes it for pprof as well.
fn push(file: &Path, url: &str, more: &[&str]) -> (std::process::Output, Vec<u8>) {
    let pb = file.with_extension("pb.gz");
    let mut command = quarry();
    command.arg("profile").arg(file).arg("-o").arg(&pb).args(["--push", url]).args(more);
    let output = command.output().expect("it runs");
    (output, fs::read(&pb).unwrap_or_default())
}

fn error(output: &std::process::Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn opentelemetry_gets_what_pprof_gets() {
    let Some((_shop, file)) = leaked() else { return };
    let receiver = Receiver::new(vec![]);
    let url = format!("otlp+http://{}/otlp", receiver.address);
    let more = ["--header", "Authorization: Bearer 123", "--label", "env=test", "--view", "alloc"];
    let (output, pprof) = push(&file, &url, &more);
    assert_eq!(text(&output), "", "a profile that is pushed is not printed");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("quarry: pushed ") && said.contains("of leaky["), "{said}");
    let request = receiver.next();
    assert_eq!(request.target, "/otlp/v1development/profiles");
    assert_eq!(request.header("content-type"), "application/x-protobuf");
    assert_eq!(request.header("authorization"), "Bearer 123");
    let otlp = of_otlp(&request);
    assert_eq!(otlp.sample_types[0], ("alloc_space".into(), "bytes".into()), "what was chosen");
    let raw = of_pprof(&pprof);
    let Decoded { sample_types, values, times, .. } = &raw;
    assert!(values["inuse_space"].values().sum::<i64>() > 10_000_000, "{values:?}");
    let functions: Vec<_> =
        values["inuse_space"].keys().flatten().flat_map(|it| &it.lines).collect();
    assert!(functions.iter().any(|it| it.name == "leaks" && it.line > 0), "{functions:?}");
    assert_eq!(otlp.values, *values, "values by stack, with mappings, functions and lines");
    let sorted = |types: &[(String, String)]| {
        let mut types = types.to_vec();
        types.sort();
        types
    };
    assert_eq!(sorted(&otlp.sample_types), sorted(sample_types));
    assert_eq!(otlp.times, *times, "start, duration and mean");
    assert_eq!(otlp.comments, raw.comments);
    let pid = said.split(['[', ']']).nth(1).expect("its number");
    for (name, value) in [
        ("service.name", "leaky"),
        ("process.pid", pid),
        ("process.executable.name", "leaky"),
        ("env", "test"),
    ] {
        assert_eq!(otlp.attributes.get(name).map(String::as_str), Some(value), "{name}");
    }
}

#[test]
fn pyroscope_gets_the_file_of_pprof() {
    let Some((shop, file)) = leaked() else { return };
    let token = shop.path("token");
    fs::write(&token, "X-Scope-OrgID: shop\nAuthorization: Bearer 123\n").expect("a file");
    let receiver = Receiver::new(vec![]);
    let url = format!("pyroscope+http://{}", receiver.address);
    let header = format!("@{}", token.display());
    let more = ["--service", "my shop", "--label", "env=test", "--label", "zone=a b"];
    let (output, pprof) = push(&file, &url, &[&more[..], &["--header", &header]].concat());
    text(&output);
    let request = receiver.next();
    let (path, query) = request.target.split_once('?').expect("a query");
    assert_eq!(path, "/ingest");
    let [started, duration, _] = of_pprof(&pprof).times;
    let second = |ns: u64| (ns / 1_000_000_000).to_string();
    let (from, until) = (second(started), second(started + duration));
    let name = "my_shop%7Benv%3Dtest%2Czone%3Da%20b%7D";
    let wanted = format!("name={name}&from={from}&until={until}&format=pprof&spyName=quarry");
    assert_eq!(query, wanted);
    assert_eq!(request.header("authorization"), "Bearer 123");
    assert_eq!(request.header("x-scope-orgid"), "shop");
    assert!(request.body == pprof && !pprof.is_empty(), "the same bytes");
}

#[test]
fn a_push_that_fails_says_why() {
    let Some((_shop, file)) = leaked() else { return };
    let closed = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let (output, pprof) = push(&file, &format!("otlp+http://{closed}"), &[]);
    let refused = error(&output);
    assert!(refused.contains(&closed.to_string()), "{refused}");
    assert_eq!(refused.matches("refused").count(), 1, "{refused}");
    assert!(!pprof.is_empty(), "the file is written all the same");
    // `google.rpc.Status`: a code and a message.
    let status = b"\x08\x03\x12\x0bno profiles";
    let partial = ExportProfilesServiceResponse {
        partial_success: Some(ExportProfilesPartialSuccess {
            rejected_profiles: 2,
            error_message: "too old".into(),
        }),
    };
    for (scheme, answer, part) in [
        ("pyroscope", Answer::text(401, "\nno token\nmore"), "answers 401 Some Reason: no token\n"),
        ("pyroscope", Answer::text(302, ""), "answers 302 Some Reason\n"),
        ("otlp", Answer::message(400, status.to_vec()), "400 Some Reason: no profiles\n"),
        (
            "otlp",
            Answer::message(200, partial.encode_to_vec()),
            "rejects 2 of the sample types: too old",
        ),
    ] {
        let receiver = Receiver::new(vec![answer]);
        let output = push(&file, &format!("{scheme}+http://{}", receiver.address), &[]).0;
        let error = error(&output);
        assert!(error.contains(part) && error.contains(&receiver.address.to_string()), "{error}");
    }
    let file = file.to_str().expect("text");
    for (arguments, part) in [
        (&["--push", "http://host"][..], "accepted: otlp+http://HOST[:PORT][/PATH] or pyroscope+"),
        (&["--push", "otlp+https://host"], "has no TLS"),
        (&["--every", "1"], "--push <URL>"),
        (&["--push", "otlp+http://host", "--every", "0"], "accepted: 0.1 to 1000000 seconds"),
        (&[file, "--push", "otlp+http://host", "--every", "1"], "cannot be used with"),
    ] {
        let mut command = quarry();
        let output = command.arg("profile").args(arguments).output().expect("it runs");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && error.contains(part), "{arguments:?}: {error}");
    }
}

#[test]
fn a_running_process_is_pushed_until_it_ends() {
    let Some(mut served) = Served::python("") else { return };
    // Waits until the process has published.
    served.text(&["slabinfo"]);
    let push = ["profile", "--wait", "100", "--every", "0.2", "--push", "otlp+http://localhost:1"];
    for (view, part) in [("frees", "take the profile with --frees"), ("pinned", "--view pinned")] {
        let refused = error(&served.look(&[&push[..], &["--view", view]].concat()));
        assert!(refused.contains(part) && !refused.contains("localhost"), "{refused}");
    }
    // The third push fails; the fourth has what it should have had.
    let receiver = Receiver::new(vec![Answer::OK, Answer::OK, Answer::text(503, "busy")]);
    let mut run = std::process::Command::new(env!("CARGO_BIN_EXE_quarry"));
    run.args(["profile", "--pid", &served.pid(), "--wait", "100", "--mean", "4096"]);
    run.args(["--every", "0.3", "--push", &format!("otlp+http://{}", receiver.address)]);
    let pusher = run.stderr(Stdio::piped()).spawn().expect("it runs");
    let pushed: Vec<Decoded> = (0..5).map(|_| of_otlp(&receiver.next())).collect();
    served.kill();
    let output = pusher.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("answers 503 Some Reason: busy; the next try is in 300ms"), "{said}");
    let times = |push: usize| {
        let [start, duration, _] = pushed[push].times;
        (start, start + duration)
    };
    for (push, before) in [(1, 0), (2, 1), (3, 1), (4, 3)] {
        assert_eq!(times(push).0, times(before).1, "push {push} begins where {before} ended");
    }
    let total = |push: usize, of: &str| pushed[push].values[of].values().sum::<i64>();
    for (push, Decoded { values, .. }) in pushed.iter().enumerate() {
        assert!(total(push, "alloc_space") > 0 && total(push, "inuse_space") > 0, "{push}");
        assert!(values["alloc_space"].values().all(|value| *value > 0), "no negative values");
        let mut frames = values["alloc_space"].keys().flatten();
        assert!(frames.any(|it| it.lines[0].name.starts_with("Py")), "names stay");
    }
    // The next push has the allocations of the failed one.
    assert!(total(3, "alloc_space") >= total(2, "alloc_space"), "{pushed:?}");
}
