//! `quarry top` on a terminal.

use super::served::{Served, eventually};
use crate::support::quarry;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A terminal of `script(1)` in which `quarry top` runs. A line before it and a line after it show
/// the settings of the terminal.
struct Terminal {
    script: Child,
    folder: TempDir,
}

impl Terminal {
    fn open(served: &Served, columns: u16) -> Self {
        served.text(&["top", "--once"]);
        let folder = tempfile::tempdir().unwrap();
        let command = format!(
            "stty rows 40 cols {columns}; echo set=$(stty -g); '{}' top --delay 0.2 --pid {} & \
             echo $! > {}/pid; fg; echo status=$?; echo set=$(stty -g)",
            env!("CARGO_BIN_EXE_quarry"),
            served.pid(),
            folder.path().display()
        );
        let file = folder.path().join("commands");
        fs::write(&file, format!("set -m\n{command}\n")).unwrap();
        let script = Command::new("script")
            .args(["-q", "-f", "-c"])
            .arg(format!("bash {}", file.display()))
            .arg(folder.path().join("screen"))
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("script is installed");
        Self { script, folder }
    }

    fn screen(&self) -> String {
        let bytes = fs::read(self.folder.path().join("screen")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn wait_for(&self, text: &str) {
        eventually(text, || {
            let screen = self.screen();
            if screen.contains(text) { Ok(()) } else { Err(screen) }
        });
    }

    fn press(&mut self, keys: &str) {
        let input = self.script.stdin.as_mut().expect("its input");
        input.write_all(keys.as_bytes()).expect("it reads");
        input.flush().expect("it reads");
    }

    fn pid(&self) -> String {
        let file: PathBuf = self.folder.path().join("pid");
        eventually("its number", || match fs::read_to_string(&file) {
            Ok(text) if text.ends_with('\n') => Ok(text.trim().to_owned()),
            other => Err(format!("{other:?}")),
        })
    }

    /// The output up to its end; checks that the terminal's settings are then as at the beginning.
    fn close(mut self) -> String {
        self.wait_for("status=");
        self.script.stdin.take();
        self.script.wait().unwrap();
        let screen = self.screen();
        let settings: Vec<&str> = screen.lines().filter_map(|it| it.split("set=").nth(1)).collect();
        assert_eq!(settings.len(), 2, "{screen}");
        assert_eq!(settings[0], settings[1], "the terminal is as it was");
        let (enter, leave) = ("\x1b[?1049h", "\x1b[?1049l");
        assert_eq!((screen.matches(enter).count(), screen.matches(leave).count()), (1, 1));
        assert!(screen.rfind(leave) > screen.rfind("malloc-"), "it draws nothing afterwards");
        assert!(screen.rfind("\x1b[?25h") > screen.rfind("\x1b[?25l"), "the cursor is visible");
        screen
    }
}

/// Nothing of the summary is cut off, and the columns that matter most stay.
#[test]
fn a_narrow_terminal_shows_what_matters() {
    let Some(served) = Served::python("") else { return };
    for columns in [60, 80] {
        let mut terminal = Terminal::open(&served, columns);
        for text in ["other", "RSS", "returned", "CPU", "help", "LIVE", "GROWTH", "malloc-"] {
            terminal.wait_for(text);
        }
        terminal.press("q");
        terminal.close();
    }
}

#[test]
fn it_draws_and_reacts_to_keys() {
    let Some(served) = Served::python("") else { return };
    let mut terminal = Terminal::open(&served, 120);
    terminal.wait_for("GROWTH");
    terminal.wait_for("malloc-");
    terminal.press("h");
    // One word only: the screen skips cells that stay the same, so spaces may be missing.
    terminal.wait_for("round");
    terminal.press("h ");
    terminal.wait_for("paused (space)");
    terminal.press("q");
    let screen = terminal.close();
    assert!(screen.contains("status=0"), "{screen}");
}

#[test]
fn a_signal_restores_the_terminal() {
    let Some(served) = Served::python("") else { return };
    let terminal = Terminal::open(&served, 120);
    terminal.wait_for("malloc-");
    let killed = Command::new("kill").args(["-TERM", &terminal.pid()]).status().unwrap();
    assert!(killed.success());
    let screen = terminal.close();
    assert!(screen.contains("status=143"), "{screen}");
}

#[test]
fn the_end_of_the_process_restores_the_terminal() {
    let Some(mut served) = Served::python("") else { return };
    let terminal = Terminal::open(&served, 120);
    terminal.wait_for("malloc-");
    served.kill();
    let screen = terminal.close();
    assert!(screen.contains(&format!("python3[{}] has ended", served.pid())), "{screen}");
    assert!(screen.contains("status=0"), "{screen}");
}

#[test]
fn without_a_terminal_it_prints_once() {
    let Some(served) = Served::python("") else { return };
    let text = served.text(&["top", "--once", "--sort", "name"]);
    assert!(text.starts_with("quarry top  python3["), "{text}");
    assert!(!text.contains("every 1 s"), "nothing follows: {text}");
    let names: Vec<&str> =
        text.lines().skip(6).filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 10 && names.is_sorted(), "{text}");
    let refused = served.look(&["top"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("use --once"));
    quarry().args(["top", "--delay", "0", "--pid", &served.pid()]).assert().code(2);
}
