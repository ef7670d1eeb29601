//! The lines that put an answer into effect: for systemd, Docker and Kubernetes.

use crate::allocators::GLIBC;
use crate::contenders::Contender;
use crate::known::KNOWN;
use serde::Serialize;
use std::path::Path;

const OWN_FOLDER: &str = "/usr/local/lib";

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Deploy {
    /// A shell command that puts the library into its place, if no package does that.
    pub(super) install: Option<String>,
    pub(super) systemd: String,
    pub(super) docker: String,
    /// Lines of a container's specification, for an image that has the library.
    pub(super) kubernetes: String,
}

impl Deploy {
    pub(super) fn of(contender: &Contender) -> Self {
        let library =
            contender.allocator.preload.as_deref().map(|file| Library::of(contender, file));
        let preload = |path: Option<String>| path.map(|path| ("LD_PRELOAD".to_owned(), path));
        let with = |path: Option<String>| -> Vec<(String, String)> {
            preload(path).into_iter().chain(contender.settings.iter().cloned()).collect()
        };
        let on_host = with(library.as_ref().map(|it| it.on_host.clone()));
        let in_image = with(library.as_ref().map(|it| it.in_image.clone()));
        let systemd = on_host.iter().map(|(key, value)| {
            format!("Environment={}", quoted(&format!("{key}={}", value.replace('%', "%%"))))
        });
        let docker = in_image.iter().map(|(key, value)| format!("ENV {key}={}", quoted(value)));
        let kubernetes = in_image.iter().map(|(key, value)| {
            format!("- name: {key}\n  value: {}", serde_json::Value::from(value.as_str()))
        });
        let get = library.as_ref().and_then(|it| it.get.clone());
        let lines = |head: &str, rest: Vec<String>| {
            std::iter::once(head.to_owned()).chain(rest).collect::<Vec<String>>().join("\n")
        };
        Self {
            install: library.and_then(|it| it.install),
            systemd: lines("[Service]", systemd.collect()),
            docker: get.into_iter().chain(docker).collect::<Vec<String>>().join("\n"),
            kubernetes: lines("env:", kubernetes.collect()),
        }
    }
}

struct Library {
    on_host: String,
    in_image: String,
    install: Option<String>,
    get: Option<String>,
}

impl Library {
    fn of(contender: &Contender, file: &Path) -> Self {
        let known = KNOWN.allocator(&contender.allocator.name);
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Of the packages that have the library in some release, the one that is installed here.
        let package = known.and_then(|it| {
            let is_installed =
                |package: &&String| contender.allocator.description.contains(*package);
            it.packages.iter().find(is_installed)
        });
        if let Some(package) = package {
            // The loader looks for a bare name in the image's library folder for its architecture.
            let soname = known
                .and_then(|it| it.files.iter().find(|soname| name.starts_with(soname.as_str())));
            return Self {
                on_host: file.display().to_string(),
                in_image: soname.cloned().unwrap_or(name),
                install: None,
                get: Some(format!(
                    "RUN apt-get update && apt-get install -y --no-install-recommends {package} && \
                     rm -rf /var/lib/apt/lists/*"
                )),
            };
        }
        if contender.allocator.name == GLIBC {
            // Every image has glibc.
            let (on_host, in_image) = (file.display().to_string(), name);
            return Self { on_host, in_image, install: None, get: None };
        }
        let own = format!("{OWN_FOLDER}/{name}");
        let is_installed = ["/usr", "/lib", "/opt"].iter().any(|folder| file.starts_with(folder));
        // A library that this command carries inside has no file to copy.
        let is_inside = file.starts_with("/proc");
        Self {
            on_host: if is_installed { file.display().to_string() } else { own.clone() },
            in_image: own.clone(),
            install: (!is_installed && !is_inside).then(|| {
                format!("sudo install -m 644 {} {own}", shell(&file.display().to_string()))
            }),
            get: Some(format!("COPY {name} {OWN_FOLDER}/")),
        }
    }
}

/// Quotes text that systemd and Docker would split.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-+./:=,%".contains(c);
    match text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
    }
}

fn shell(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-+./:=,".contains(c);
    match text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocators;
    use std::path::PathBuf;

    fn contender(name: &str, file: &str, version: Option<&str>) -> Contender {
        let version = version.map(str::to_owned);
        Contender::from(allocators::preloaded(name, PathBuf::from(file), version))
    }

    #[test]
    fn a_package_is_installed_in_the_image() {
        let file = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
        let lines = Deploy::of(&contender("jemalloc", file, Some("libjemalloc2 5.3.0-1")));
        assert_eq!(lines.install, None);
        assert_eq!(lines.systemd, format!("[Service]\nEnvironment=LD_PRELOAD={file}"));
        let (first, second) = lines.docker.split_once('\n').unwrap();
        assert!(first.contains("--no-install-recommends libjemalloc2 &&"), "{first}");
        assert_eq!(second, "ENV LD_PRELOAD=libjemalloc.so.2");
        let expected = "env:\n- name: LD_PRELOAD\n  value: \"libjemalloc.so.2\"";
        assert_eq!(lines.kubernetes, expected);
    }

    #[test]
    fn a_file_of_ones_own_is_copied_and_settings_follow() {
        let quarry = contender("quarry", "/build/it's/libquarry.so", None);
        let lines = Deploy::of(&quarry.with("quarry:THP=0", &[("QUARRY_THP", "0")]));
        let install =
            "sudo install -m 644 '/build/it'\\''s/libquarry.so' /usr/local/lib/libquarry.so";
        assert_eq!(lines.install.as_deref(), Some(install));
        let expected = "[Service]\nEnvironment=LD_PRELOAD=/usr/local/lib/libquarry.so\n\
                        Environment=QUARRY_THP=0";
        assert_eq!(lines.systemd, expected);
        let expected = "COPY libquarry.so /usr/local/lib/\n\
                        ENV LD_PRELOAD=/usr/local/lib/libquarry.so\nENV QUARRY_THP=0";
        assert_eq!(lines.docker, expected);
        let expected = "env:\n- name: LD_PRELOAD\n  value: \"/usr/local/lib/libquarry.so\"\n\
                        - name: QUARRY_THP\n  value: \"0\"";
        assert_eq!(lines.kubernetes, expected);
    }

    #[test]
    fn glibc_takes_the_place_of_what_a_program_links() {
        let lines = Deploy::of(&contender("glibc", "/usr/lib/x86_64-linux-gnu/libc.so.6", None));
        assert_eq!(lines.docker, "ENV LD_PRELOAD=libc.so.6");
        assert_eq!(lines.install, None);
    }

    #[test]
    fn glibc_with_a_setting_needs_no_library() {
        let glibc = Contender::from(allocators::glibc());
        let lines = Deploy::of(&glibc.with("glibc:X=a b%", &[("X", "a b%")]));
        assert_eq!(lines.systemd, "[Service]\nEnvironment=\"X=a b%%\"");
        assert_eq!((lines.docker.as_str(), lines.install), ("ENV X=\"a b%\"", None));
    }
}
