//! Sends profiles to a collector: by OpenTelemetry's protocol, or as Pyroscope takes them.

use crate::otlp::{self, Value};
use crate::pprof;
use crate::profile::{Profile, View};
use crate::protobuf::fields;
use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::builder::NonEmptyStringValueParser;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};

/// Longest time in seconds that one push takes.
const PATIENCE: u64 = 30;

/// Maximum number of bytes of an answer that are read, and of characters that an error quotes.
const MOST_BYTES: u64 = 64 << 10;
const MOST_QUOTED: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Otlp,
    Pyroscope,
}

/// Each protocol with its scheme, its usual port and the path of its requests.
const PROTOCOLS: [(Protocol, &str, u16, &str); 2] = [
    (Protocol::Otlp, "otlp+http", 4318, "/v1development/profiles"),
    (Protocol::Pyroscope, "pyroscope+http", 4040, "/ingest"),
];

/// A receiver of profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Receiver {
    protocol: Protocol,
    url: String,
}

/// Parses `otlp+http://HOST[:PORT][/PATH]` and the same with `pyroscope+http`.
pub(crate) fn receiver(text: &str) -> Result<Receiver, String> {
    let accepted =
        "accepted: otlp+http://HOST[:PORT][/PATH] or pyroscope+http://HOST[:PORT][/PATH]";
    let (scheme, rest) = text.split_once("://").ok_or(accepted)?;
    let named = |scheme: &str| PROTOCOLS.into_iter().find(|(_, name, ..)| *name == scheme);
    if scheme.strip_suffix('s').and_then(named).is_some() {
        return Err("this command has no TLS: push by http to an agent or a collector on this \
                    machine, which passes profiles on by https"
            .to_owned());
    }
    let (protocol, _, usual, suffix) = named(scheme).ok_or(accepted)?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if host.contains('@') {
        return Err("names and passwords are accepted in --header 'Authorization: ..'".to_owned());
    }
    let (name, port) = match host.split_once(':') {
        Some((name, port)) => (name, port.parse().map_err(|_| accepted)?),
        None => (host, usual),
    };
    let of_name = |it: char| it.is_ascii_alphanumeric() || "-._".contains(it);
    let of_path = |it: char| it.is_ascii_graphic() && !"?#".contains(it);
    if name.is_empty() || !name.chars().all(of_name) || !path.chars().all(of_path) {
        return Err(format!("{accepted}, HOST a name or an IPv4 address"));
    }
    let path = path.trim_end_matches('/');
    let path = path.strip_suffix(suffix).unwrap_or(path);
    Ok(Receiver { protocol, url: format!("http://{name}:{port}{path}{suffix}") })
}

fn interval(text: &str) -> Result<f64, String> {
    let usual = text.parse().ok().filter(|it| (0.1..=1e6).contains(it));
    usual.ok_or_else(|| "accepted: 0.1 to 1000000 seconds".to_owned())
}

/// Names and values.
pub(crate) type Pairs = Vec<(String, String)>;

/// Parses `NAME: VALUE`, or reads such lines from the file of `@FILE`.
pub(crate) fn headers(text: &str) -> Result<Pairs, String> {
    let text = match text.strip_prefix('@') {
        Some(path) => fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?,
        None => text.to_owned(),
    };
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let (name, value) = (name.trim(), value.trim());
        let of_name = |it: char| it.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(it);
        let is_usual =
            !name.is_empty() && name.chars().all(of_name) && !value.chars().any(char::is_control);
        is_usual.then(|| (name.to_owned(), value.to_owned()))
    };
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let pairs = lines.map(header).collect::<Option<_>>();
    pairs.ok_or_else(|| "accepted: NAME: VALUE, or @FILE, a file with such lines".to_owned())
}

/// Parses `NAME=VALUE`.
pub(crate) fn label(text: &str) -> Result<(String, String), String> {
    let of_name = |it: char| it.is_ascii_alphanumeric() || "._".contains(it);
    let of_value = |it: char| !it.is_control() && !"{},=\"".contains(it);
    let pair = text.split_once('=').filter(|(name, value)| {
        !name.is_empty() && name.chars().all(of_name) && value.chars().all(of_value)
    });
    let pair = pair.map(|(name, value)| (name.to_owned(), value.to_owned()));
    pair.ok_or_else(|| {
        "accepted: NAME=VALUE, NAME of letters, digits, '.' and '_', VALUE without any of {},=\""
            .to_owned()
    })
}

/// How profiles are pushed.
#[derive(clap::Args)]
pub(crate) struct PushArgs {
    /// Send the profile to a collector: otlp+http://HOST[:PORT][/PATH] for OpenTelemetry's protocol
    /// (port 4318), pyroscope+http://HOST[:PORT][/PATH] for Pyroscope's /ingest (port 4040).
    #[arg(long, value_name = "URL", value_parser = receiver, conflicts_with = "diff")]
    push: Option<Receiver>,
    /// Push again and again: every so many seconds, until the process ends or --seconds have
    /// passed.
    #[arg(long, value_name = "SECONDS", value_parser = interval, requires = "push",
        conflicts_with_all = ["file", "output"])]
    pub(crate) every: Option<f64>,
    /// Name of the service [default: the name of the process].
    #[arg(long, value_name = "NAME", requires = "push",
        value_parser = NonEmptyStringValueParser::new())]
    service: Option<String>,
    /// A label of the profiles, such as env=production. Can be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = label, requires = "push")]
    label: Vec<(String, String)>,
    /// A header of the requests, such as 'Authorization: Bearer TOKEN'; @FILE reads headers from a
    /// file, so that no list of processes shows them. Can be given several times.
    #[arg(long, value_name = "NAME: VALUE", value_parser = headers, requires = "push")]
    header: Vec<Pairs>,
}

/// Sends profiles of one process.
pub(crate) struct Pusher<'a> {
    receiver: &'a Receiver,
    args: &'a PushArgs,
}

impl PushArgs {
    /// `None` if profiles are not to be pushed.
    pub(crate) fn pusher(&self) -> Option<Pusher<'_>> {
        self.push.as_ref().map(|receiver| Pusher { receiver, args: self })
    }
}

impl Pusher<'_> {
    /// Sends a profile, and reports that on standard error.
    pub(crate) fn push(&self, profile: &Profile, shown: View) -> Result<()> {
        let request = match self.receiver.protocol {
            Protocol::Otlp => self.otlp(profile, shown)?,
            Protocol::Pyroscope => self.pyroscope(profile, shown)?,
        };
        let agent = concat!("quarry/", env!("CARGO_PKG_VERSION"));
        let request = request.with_header("User-Agent", agent);
        let request = request.with_headers(self.args.header.iter().flatten().cloned());
        // A header with a token is for this receiver only.
        let request = request.with_follow_redirects(false).with_timeout(PATIENCE);
        let url = &self.receiver.url;
        let of = || format!("pushing the profile to {url}");
        // The error's source has the same text.
        let answer = request.send_lazy().map_err(|error| anyhow!("{}: {error}", of()))?;
        let (status, reason) =
            (answer.status_code, quarry_wary::plain(&answer.reason_phrase).into_owned());
        let is_message = answer.headers.iter().any(|(name, value)| {
            name.eq_ignore_ascii_case("content-type") && value.starts_with("application/x-protobuf")
        });
        let mut body = Vec::new();
        // The part that was read tells more than the reason why the rest was not.
        let _ = answer.take(MOST_BYTES).read_to_end(&mut body);
        if !(200..300).contains(&status) {
            // The field of `google.rpc.Status` that has the message.
            let text = if is_message { text_of(&body, 2) } else { first_line(&body) };
            let says = if text.is_empty() { String::new() } else { format!(": {text}") };
            bail!("{}: the receiver answers {status} {reason}{says}", of());
        }
        if self.receiver.protocol == Protocol::Otlp && is_message {
            self.heed_partial_success(&body).with_context(of)?;
        }
        let sites = crate::text::counted(profile.stacks.len() as i64, "call site");
        eprintln!("quarry: pushed {sites} of {} to {url}", profile.process);
        Ok(())
    }

    fn service<'a>(&'a self, profile: &'a Profile) -> &'a str {
        self.args.service.as_deref().unwrap_or_else(|| profile.process.name.as_str())
    }

    fn otlp(&self, profile: &Profile, shown: View) -> Result<minreq::Request> {
        let mut process = vec![
            ("service.name", Value::Text(self.service(profile))),
            ("process.pid", Value::Number(profile.process.pid.into())),
            ("process.executable.name", Value::Text(profile.process.name.as_str())),
        ];
        // Each name may be there once.
        process.retain(|(name, _)| self.args.label.iter().all(|(label, _)| label != name));
        process.extend(self.args.label.iter().map(|(name, value)| (&**name, Value::Text(value))));
        let mut gz = GzEncoder::new(Vec::new(), Compression::default());
        gz.write_all(&otlp::request(profile, shown, &process))?;
        Ok(minreq::post(&self.receiver.url)
            .with_header("Content-Type", "application/x-protobuf")
            .with_header("Content-Encoding", "gzip")
            .with_body(gz.finish()?))
    }

    /// The request of Pyroscope's `/ingest` with the format `pprof`.
    fn pyroscope(&self, profile: &Profile, shown: View) -> Result<minreq::Request> {
        // Pyroscope refuses other characters.
        let usual =
            |it: char| if it.is_ascii_alphanumeric() || "-./_".contains(it) { it } else { '_' };
        let service: String = self.service(profile).chars().map(usual).collect();
        let labels: Vec<_> =
            self.args.label.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let name = encoded(&format!("{service}{{{}}}", labels.join(",")));
        let ended = profile.started_ns + profile.duration_ns;
        let [from, until] = [profile.started_ns, ended].map(|ns| ns / 1_000_000_000);
        let url = &self.receiver.url;
        let mut body = Vec::new();
        pprof::write(profile, shown, &mut body)?;
        Ok(minreq::post(format!(
            "{url}?name={name}&from={from}&until={until}&format=pprof&spyName=quarry"
        ))
        .with_header("Content-Type", "application/octet-stream")
        .with_body(body))
    }

    /// Reads the `ExportProfilesPartialSuccess` of an answer. A receiver may refuse profiles by it,
    /// or only warn.
    fn heed_partial_success(&self, body: &[u8]) -> Result<()> {
        let Some((.., partial)) = fields(body).into_iter().find(|(field, ..)| *field == 1) else {
            return Ok(());
        };
        let rejected = fields(partial).into_iter().find(|(field, ..)| *field == 1);
        let text = text_of(partial, 2);
        let rejected = rejected.map_or(0, |(_, profiles, _)| profiles);
        ensure!(rejected == 0, "the receiver rejects {rejected} of the sample types: {text}");
        if !text.is_empty() {
            eprintln!("quarry: the receiver warns: {text}");
        }
        Ok(())
    }
}

/// The text in a field of a message.
fn text_of(message: &[u8], field: u64) -> String {
    let found = fields(message).into_iter().find(|(number, ..)| *number == field);
    found.map_or_else(String::new, |(.., text)| first_line(text))
}

fn first_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    quarry_wary::plain(line).chars().take(MOST_QUOTED).collect()
}

/// A text as part of a URL's query (RFC 3986, section 2.3).
fn encoded(text: &str) -> String {
    let mut url = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                url.push(char::from(byte));
            }
            _ => write!(url, "%{byte:02X}").expect("a string takes all"),
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_chooses_the_protocol() {
        let url = |text| receiver(text).map(|it| it.url);
        for (text, expected) in [
            ("otlp+http://host", "http://host:4318/v1development/profiles"),
            ("otlp+http://10.0.0.1:1/", "http://10.0.0.1:1/v1development/profiles"),
            ("otlp+http://h/v1development/profiles", "http://h:4318/v1development/profiles"),
            ("pyroscope+http://host/a/b", "http://host:4040/a/b/ingest"),
            ("pyroscope+http://host:80/ingest", "http://host:80/ingest"),
        ] {
            assert_eq!(url(text), Ok(expected.to_owned()), "{text}");
        }
        for (text, part) in [
            ("host:4318", "accepted: otlp+http://HOST"),
            ("http://host:4318", "accepted: otlp+http://HOST"),
            ("otlp+http://", "accepted: otlp+http://HOST"),
            ("otlp+http://host:port", "accepted: otlp+http://HOST"),
            ("otlp+http://[::1]:4318", "accepted: otlp+http://HOST"),
            ("otlp+http://host/a?b", "a name or an IPv4 address"),
            ("pyroscope+https://host", "no TLS"),
            ("pyroscope+http://me:secret@host", "--header"),
        ] {
            let error = url(text).expect_err(text);
            assert!(error.contains(part) && !error.contains("secret"), "{text}: {error}");
        }
    }

    #[test]
    fn headers_and_labels_are_pairs() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(headers("A-b:  c: d "), Ok(vec![pair("A-b", "c: d")]));
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(&file, "A: 1\n\nB: 2\n").expect("its lines");
        let read = headers(&format!("@{}", file.path().display()));
        assert_eq!(read, Ok(vec![pair("A", "1"), pair("B", "2")]));
        for text in ["secret", ": secret", "a b: secret", "@/secret", "A: a\r\nsecret"] {
            let error = headers(text).expect_err(text);
            assert!(error.contains("accepted: NAME: VALUE") || text.starts_with('@'), "{error}");
        }
        assert_eq!(label("env=a b"), Ok(pair("env", "a b")));
        for text in ["env", "=a", "a-b=c", "a=b,c", "a=}"] {
            assert!(label(text).expect_err(text).contains("accepted: NAME=VALUE"));
        }
    }

    #[test]
    fn an_answer_is_quoted_by_its_first_line() {
        assert_eq!(first_line(b"\r\n no \x1b[31mtoken\nmore"), "no ?[31mtoken");
        assert_eq!(first_line(&[b'a'; 1000]).len(), MOST_QUOTED);
        assert_eq!(text_of(b"\x08\x05\x12\x03bad", 2), "bad");
        assert_eq!(encoded("a{b=c d}"), "a%7Bb%3Dc%20d%7D");
    }
}
