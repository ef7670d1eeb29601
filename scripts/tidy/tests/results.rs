//! `scripts/results.sh` records no figures of a busy machine.

use quarry_tidy::figures::record::with_records;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Two measurements, with what an earlier run left.
const PAGE: &str = "\
<!-- run: quarry lab run first -->
old
<!-- end -->
between
<!-- run: quarry lab run second -->
old
<!-- end -->
";

/// A folder with the script, one page, and stand-ins for the command and for `sleep`.
struct Repository {
    root: PathBuf,
}

impl Repository {
    fn new(name: &str) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&root);
        for folder in ["scripts", "docs", "target/tools", "bin"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/results.sh");
        fs::copy(script, root.join("scripts/results.sh")).unwrap();
        fs::write(root.join("docs/page.md"), PAGE).unwrap();
        let repository = Self { root };
        repository.program("bin/sleep", "");
        repository.program("target/tools/quarry", "echo measured $3");
        repository
    }

    fn program(&self, path: &str, body: &str) {
        let path = self.root.join(path);
        fs::write(&path, format!("#!/bin/bash\n{body}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn set_load(&self, load: f64) {
        fs::write(self.root.join("loadavg"), format!("{load:.2} 0.10 0.10 1/99 42\n")).unwrap();
    }

    fn fill(&self) -> Output {
        let path = std::env::var("PATH").expect("there is a search path");
        let path = format!("{}:{path}", self.root.join("bin").display());
        Command::new("bash")
            .args(["scripts/results.sh", "page"])
            .current_dir(&self.root)
            .env("PATH", path)
            .env("CARGO_TARGET_DIR", "target")
            .env("RESULTS_LOADAVG", "loadavg")
            .env("LOADAVG", self.root.join("loadavg"))
            .env_remove("RESULTS_OPTIONS")
            .env_remove("RUNS")
            .output()
            .expect("bash runs")
    }

    fn page(&self) -> String {
        fs::read_to_string(self.root.join("docs/page.md")).unwrap()
    }

    fn assert_filled(&self, output: &Output) {
        assert!(output.status.success(), "{output:?}");
        let page = self.page();
        let all = ["measured first", "measured second", "between"];
        assert!(all.iter().all(|part| page.contains(part)) && !page.contains("old"), "{page}");
    }

    fn assert_refused(&self, output: &Output) {
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("figures are recorded at 0.5 per CPU or less only"), "{said}");
        assert_eq!(self.page(), PAGE, "a refused page stays as it was");
    }
}

/// A table with so many rows, as an experiment prints it.
fn table(rows: usize) -> String {
    let row = |index: usize| format!("|    {index} |       | 1.00 [0.9, 1.1] * |");
    let rows = (0..rows).map(row).collect::<Vec<_>>().join("\n");
    format!("| row | empty |             / glibc |\n|-----|-------|-----|\n{rows}")
}

#[test]
fn raw_output_lies_beside_a_page_of_results() {
    let repository = Repository::new("results-tables");
    repository.set_load(0.0);
    let programs = "| quarry / glibc |   CPU |\n|------|------|\n| git |  0.8 |";
    let text = format!("2 CPUs (x), glibc 2.36\nBefore:\n\n{}\n\n{programs}\n\nEnd\n", table(11));
    fs::write(repository.root.join("printed"), text).unwrap();
    repository.program("target/tools/quarry", "cat printed");
    let results = repository.root.join("docs/results");
    fs::create_dir(&results).unwrap();
    fs::rename(repository.root.join("docs/page.md"), results.join("page.md")).unwrap();
    let output = repository.fill();
    assert!(output.status.success(), "{output:?}");
    let page = fs::read_to_string(results.join("page.md")).unwrap();
    let [first, second] = [1, 2].map(|number| {
        let link = format!("[page-{number}.txt.gz](../../lab/recorded/page-{number}.txt.gz)");
        format!("{link}\n\n| quarry / glibc | CPU |\n|---|---|\n| git | 0.8 |\n<!-- end -->")
    });
    let is_in_order = page.split_once(&first).is_some_and(|(_, rest)| rest.contains(&second));
    assert!(is_in_order && page.contains("`quarry lab run first`, 2"), "{page}");
    assert!(page.contains("\n2 CPUs (x), glibc 2.36\n") && !page.contains("Before:"), "{page}");
    let whole = with_records(&page, &results).unwrap();
    assert_eq!(whole.matches(&table(11)).count(), 2, "{whole}");
    assert!(whole.contains("Before:") && whole.contains(programs), "{whole}");
}

fn cpus() -> f64 {
    let output = Command::new("nproc").output().expect("nproc runs");
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("nproc prints a number")
}

#[test]
fn a_quiet_machine_is_measured() {
    let repository = Repository::new("results-quiet");
    repository.set_load(cpus() / 2.0);
    repository.assert_filled(&repository.fill());
}

#[test]
fn a_busy_machine_is_refused() {
    let repository = Repository::new("results-busy");
    repository.set_load(cpus() / 2.0 + 0.01);
    repository.assert_refused(&repository.fill());
}

#[test]
fn a_machine_that_becomes_busy_is_refused() {
    let repository = Repository::new("results-becomes-busy");
    repository.set_load(0.0);
    let busy = "echo measured $3; echo '1000.00 0 0 1000/1009 4' > $LOADAVG";
    repository.program("target/tools/quarry", busy);
    repository.assert_refused(&repository.fill());
}

/// A measurement with hundreds of threads stays in the system's load average for minutes.
#[test]
fn what_the_script_has_measured_itself_is_not_waited_for() {
    let repository = Repository::new("results-own-load");
    repository.set_load(0.0);
    let own = "echo measured $3; echo '1000.00 0 0 1/9 4' > $LOADAVG";
    repository.program("target/tools/quarry", own);
    repository.program("bin/sleep", "[[ $1 == 0.5 ]]");
    repository.assert_filled(&repository.fill());
}

#[test]
fn the_load_of_what_ran_before_is_waited_for() {
    let repository = Repository::new("results-waits");
    repository.set_load(1000.0);
    repository.program("bin/sleep", "echo '0.00 0 0 1/9 4' > $LOADAVG");
    repository.assert_filled(&repository.fill());
}
