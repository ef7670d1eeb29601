//! `scripts/install.sh`, with empty files in place of those that `make build` makes.

use quarry_tidy::workspace::root;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of `make build` and `make lab`, in the target folder.
const BUILT: [&str; 10] = [
    "release/libquarry.so",
    "release/libquarry-full.so",
    "release/libquarry-slub.so",
    "tools/quarry",
    "tools/quarry-lab",
    "pages/man/quarry.1",
    "pages/man/libquarry.7",
    "pages/bash/quarry",
    "pages/zsh/_quarry",
    "pages/fish/quarry.fish",
];

/// A folder with built files in `target`, into which nothing is installed yet.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&place);
        for file in BUILT {
            let file = place.join("target").join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        Self(place)
    }

    /// Runs the script as `make install` does, into `prefix` below `stage`.
    fn run(&self, options: &[&str], stage: &str, prefix: &Path) {
        let prefix = |inner: &str| prefix.join(inner).display().to_string();
        let output = Command::new(root().join("scripts/install.sh"))
            .args(options)
            .env("TARGET", self.0.join("target"))
            .env("DESTDIR", stage)
            .env("PREFIX", prefix("").trim_end_matches('/'))
            .env("LIBDIR", prefix("lib"))
            .env("MANDIR", prefix("share/man"))
            .env("BASHDIR", prefix("share/bash-completion/completions"))
            .env("ZSHDIR", prefix("share/zsh/site-functions"))
            .env("FISHDIR", prefix("share/fish/vendor_completions.d"))
            .envs([("VERSION", "1"), ("ABI", "0"), ("SLABS", "slub"), ("PROGRAMS_BUILT", "job")])
            .output()
            .expect("bash runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// All files and folders, without those of `target`.
    fn tree(&self) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        let mut folders = vec![self.0.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
                let is_built = entry.file_name() == "target";
                folders.extend(
                    (entry.file_type().unwrap().is_dir() && !is_built).then(|| entry.path()),
                );
                found.insert(entry.path());
            }
        }
        found
    }
}

#[test]
fn uninstalling_leaves_what_was_there_before() {
    let place = Place::new("install");
    let prefix = place.0.join("opt/quarry");
    fs::create_dir_all(prefix.join("share/man/man1")).unwrap();
    let before = place.tree();
    // The second time is an upgrade.
    place.run(&[], "", &prefix);
    place.run(&[], "", &prefix);
    for file in ["bin/quarry", "lib/quarry/libquarry-slub.so", "share/man/man7/libquarry.7"] {
        assert!(prefix.join(file).is_file(), "{file}");
    }
    let own = prefix.join("lib/quarry/of-the-user");
    fs::write(&own, "").unwrap();
    place.run(&["--remove"], "", &prefix);
    let folders = [prefix.join("lib"), prefix.join("lib/quarry"), own];
    assert_eq!(place.tree(), before.into_iter().chain(folders).collect());
}

#[test]
fn a_stage_has_no_list_of_folders_and_is_empty_afterwards() {
    let place = Place::new("install-stage");
    let stage = place.0.join("stage");
    place.run(&[], stage.to_str().unwrap(), Path::new("/usr"));
    assert!(stage.join("usr/share/quarry/programs").is_dir());
    assert!(!stage.join("usr/share/quarry/folders").exists());
    let own = stage.join("usr/share/man/man1/of-the-user.1");
    fs::write(&own, "").unwrap();
    place.run(&["--remove"], stage.to_str().unwrap(), Path::new("/usr"));
    let left = || -> BTreeSet<_> {
        place.tree().into_iter().filter(|it| it.starts_with(&stage)).collect()
    };
    let above = own.ancestors().take_while(|it| it.starts_with(&stage));
    assert_eq!(left(), above.map(Path::to_owned).collect());
    fs::remove_file(&own).unwrap();
    place.run(&["--remove"], stage.to_str().unwrap(), Path::new("/usr"));
    assert_eq!(left(), [stage.clone()].into());
}

#[test]
fn cargo_binstall_looks_for_the_archive_of_make_dist() {
    let text = |file: &str| fs::read_to_string(root().join(file)).unwrap();
    let between = |text: &str, before: &str| {
        let rest = text.split(before).nth(1).unwrap_or_else(|| panic!("{before}"));
        rest.split(['"', '\n']).next().unwrap().to_owned()
    };
    let manifest = text("bench/cli/Cargo.toml");
    let name = between(&text("scripts/dist.sh"), "\nname=")
        .replace("$version", "{ version }")
        .replace("$machine", "x86_64");
    let releases = "{ repo }/releases/download/v{ version }";
    assert_eq!(between(&manifest, "pkg-url = \""), format!("{releases}/{name}.tar.gz"));
    assert_eq!(between(&manifest, "bin-dir = \""), format!("{name}/bin/{{ bin }}"));
}
