//! Names of functions that a program has compiled while it ran, from the file that it writes for
//! perf: `perf-PID.map` in `/tmp`, by node, Java's agents, .NET and Python from 3.12 on. A line is
//! `START BYTES NAME`, with hexadecimal numbers.
//!
//! Anyone can write into /tmp, so a file counts only if the process's user, the reader or root owns
//! it. Its folder and its number are those that the process sees. A file that changed after the
//! profile's end is that of a later process with the same number.

use quarry_wary::{open, plain, read_whole};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Some hundred thousand functions; node's files have less than a tenth.
const MOST_BYTES: u64 = 64 << 20;

/// Functions by their first address.
#[derive(Default)]
pub(crate) struct PerfMap(Vec<Function>);

/// Seconds after the end of a profile in which its process may still write names.
const SLACK_S: u64 = 10;

struct Function {
    start: u64,
    limit: u64,
    name: String,
}

impl PerfMap {
    /// The functions that a process has written down, by its number in its own namespace; none
    /// without such a file. `root` leads to the root folder of the process; the profile ended at
    /// `end_ns` since 1970, or at an unknown time if that is 0.
    pub(crate) fn of(root: &Path, pid: u32, end_ns: u64) -> Self {
        let path = root.join(format!("tmp/perf-{pid}.map"));
        let latest_s = if end_ns == 0 { u64::MAX } else { end_ns / 1_000_000_000 + SLACK_S };
        load(root, &path, latest_s).map_or_else(|_| Self::default(), |text| Self::parse(&text))
    }

    fn parse(text: &[u8]) -> Self {
        let line = |line: &[u8]| {
            let line = String::from_utf8_lossy(line);
            let mut fields = line.trim_end().splitn(3, ' ');
            let mut number = || {
                let field = fields.next()?;
                u64::from_str_radix(field.strip_prefix("0x").unwrap_or(field), 16).ok()
            };
            let (start, bytes) = (number()?, number()?);
            let (limit, name) = (start.checked_add(bytes)?, plain(fields.next()?).into_owned());
            Some(Function { start, limit, name })
        };
        let mut functions: Vec<_> =
            text.split(|byte| *byte == b'\n').rev().filter_map(line).collect();
        // Of functions at one address, the last one of the file has replaced the others.
        functions.sort_by_key(|function| function.start);
        functions.dedup_by_key(|function| function.start);
        Self(functions)
    }

    /// The name of the function at an address.
    pub(crate) fn name(&self, address: u64) -> Option<&str> {
        let after = self.0.partition_point(|function| function.start <= address);
        let function = &self.0[after.checked_sub(1)?];
        (address < function.limit).then_some(function.name.as_str())
    }
}

fn load(root: &Path, path: &Path, latest_s: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let (link, opened) = (fs::symlink_metadata(path)?, file.metadata()?);
    // The owner of /proc/PID/root is the user of the process.
    let owners = [0, fs::metadata("/proc/self")?.uid(), fs::symlink_metadata(root)?.uid()];
    let is_trusted = link.is_file() && link.ino() == opened.ino() && link.dev() == opened.dev();
    let is_later = u64::try_from(opened.mtime()).is_ok_and(|it| it > latest_s);
    if !is_trusted || is_later || !owners.contains(&opened.uid()) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    read_whole(file, MOST_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, symlink};

    #[test]
    fn addresses_have_the_names_of_the_last_function_there() {
        let text = b"1000 10 old\n1000 20 new one\n0x1020 8 a\x1b[2J\n\nrubbish\nff\n1 2\n\
            ffffffffffffffff 2 beyond\n30 1 \xff\n";
        let map = PerfMap::parse(text);
        let name = |address| map.name(address).unwrap_or("");
        assert_eq!([name(0xfff), name(0x1000), name(0x101f)], ["", "new one", "new one"]);
        assert_eq!([name(0x1020), name(0x1028), name(u64::MAX)], ["a?[2J", "", ""]);
        assert_eq!([name(0x30), name(0)], ["\u{fffd}", ""]);
        assert_eq!(PerfMap::parse(b"").name(0), None);
    }

    #[test]
    fn a_file_of_another_user_has_no_names() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("tmp");
        fs::create_dir(&folder).unwrap();
        let at = |pid: u32| folder.join(format!("perf-{pid}.map"));
        let name = |pid| PerfMap::of(root.path(), pid, 0).name(0x10).map(str::to_owned);
        fs::write(at(1), "10 1 mine\n").unwrap();
        assert_eq!(name(1).as_deref(), Some("mine"));
        let at_end = |end_ns| PerfMap::of(root.path(), 1, end_ns).name(0x10).is_some();
        assert!(!at_end(1) && at_end(u64::MAX), "a later process wrote it");
        symlink(at(1), at(2)).unwrap();
        let status = std::process::Command::new("mkfifo").arg(at(3)).status();
        assert!(status.unwrap().success());
        fs::create_dir(at(4)).unwrap();
        fs::File::create(at(5)).unwrap().set_len(MOST_BYTES + 1).unwrap();
        for pid in 2..7 {
            assert_eq!(name(pid), None, "{pid}");
        }
        // Only root can give a file away.
        if chown(at(1), Some(12_345), None).is_ok() {
            assert_eq!(name(1), None);
        }
    }
}
