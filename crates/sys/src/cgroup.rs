//! The memory limit that the control group sets, version 1 or 2; read without allocating.
//!
//! A group's limit is the lowest of its own and its ancestors'. What the group uses is counted
//! without its inactive page cache, which the kernel drops before it refuses anything.

use crate::file::find_piece;
use crate::report::Line;
use core::ffi::CStr;
use core::fmt::Write;

/// The group's files, where no `/sys` hides them.
const ROOT_V2: &str = "/sys/fs/cgroup";
const ROOT_V1: &str = "/sys/fs/cgroup/memory";
/// Values of version 1 from here on mean "no limit" (`PAGE_COUNTER_MAX`, Linux 6.x).
const UNLIMITED: u64 = 1 << 62;

/// Limit and use of a group, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The lowest limit that applies: `memory.max` or `memory.high`, of the group or an ancestor.
    pub limit: u64,
    /// What the group uses that cannot be dropped at once.
    pub usage: u64,
}

/// Long enough for the group of a container; a longer path is cut, and its files are not found.
type Path = Line<640>;

/// The limit that applies to this process, `None` where there is none or nothing can be read.
/// A handful of system calls.
#[must_use]
pub fn memory_limit() -> Option<MemoryLimit> {
    let mut version_2 = None;
    let version_1 = find_piece(c"/proc/self/cgroup", b'\n', |line| {
        let mut fields = core::str::from_utf8(line).ok()?.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next()?, fields.next()?);
        let mut path = Path::default();
        let _ = path.write_str(group);
        if controllers.is_empty() {
            version_2 = Some(path);
            return None;
        }
        controllers.split(',').any(|controller| controller == "memory").then_some(path)
    });
    if let Some(group) = version_1 {
        return lowest(ROOT_V1, text(&group)?, &["memory.limit_in_bytes"], "memory.usage_in_bytes");
    }
    let group = version_2?;
    lowest(ROOT_V2, text(&group)?, &["memory.max", "memory.high"], "memory.current")
}

fn text(path: &Path) -> Option<&str> {
    core::str::from_utf8(path.as_bytes()).ok()
}

/// Walks from the group up to the root. In a container the path may be that of the host: where it
/// does not exist, the root of the mount is the group.
fn lowest(root: &str, path: &str, limits: &[&str], usage: &str) -> Option<MemoryLimit> {
    let mut group = path.trim_end_matches('/');
    let mut lowest: Option<MemoryLimit> = None;
    loop {
        let limit = limits.iter().filter_map(|name| number(&join(root, group, name))).min();
        if let Some(limit) = limit.filter(|limit| *limit < UNLIMITED)
            && lowest.is_none_or(|known| limit < known.limit)
        {
            let used = number(&join(root, group, usage)).unwrap_or(0);
            let cache = inactive_file(&join(root, group, "memory.stat"));
            lowest = Some(MemoryLimit { limit, usage: used.saturating_sub(cache) });
        }
        let Some(parent) = group.rfind('/') else { return lowest };
        group = &group[..parent];
    }
}

/// The path of a group's file, with the NUL that the system asks for.
fn join(root: &str, group: &str, name: &str) -> Path {
    let mut path = Path::default();
    let _ = write!(path, "{root}{group}/{name}\0");
    path
}

/// What `value` makes of the first line of a file that it can make something of.
fn find<R>(path: &Path, mut value: impl FnMut(&str) -> Option<R>) -> Option<R> {
    let path = CStr::from_bytes_with_nul(path.as_bytes()).ok()?;
    find_piece(path, b'\n', |line| value(core::str::from_utf8(line).ok()?))
}

fn number(path: &Path) -> Option<u64> {
    find(path, |line| line.trim().parse().ok())
}

/// Inactive page cache of the group and its children: version 1 has a total of its own, behind the
/// group's figure.
fn inactive_file(path: &Path) -> u64 {
    let value = |line: &str, name: &str| line.strip_prefix(name)?.trim().parse::<u64>().ok();
    let total = find(path, |line| value(line, "total_inactive_file "));
    total.or_else(|| find(path, |line| value(line, "inactive_file "))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn scratch(name: &str) -> std::path::PathBuf {
        let root = std::env::temp_dir().join(format!("quarry-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("a/b")).unwrap();
        root
    }

    #[test]
    fn the_lowest_limit_of_all_ancestors_applies() {
        let root = scratch("cgroup2");
        fs::write(root.join("a/memory.max"), "100\n").unwrap();
        fs::write(root.join("a/memory.current"), "70\n").unwrap();
        fs::write(root.join("a/memory.stat"), "anon 60\ninactive_file 10\n").unwrap();
        fs::write(root.join("a/b/memory.max"), "max\n").unwrap();
        fs::write(root.join("a/b/memory.high"), "500\n").unwrap();
        let found = lowest(
            root.to_str().unwrap(),
            "/a/b",
            &["memory.max", "memory.high"],
            "memory.current",
        );
        assert_eq!(found, Some(MemoryLimit { limit: 100, usage: 60 }));
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn no_limit_is_none() {
        let root = scratch("cgroup1");
        fs::write(root.join("a/memory.limit_in_bytes"), "9223372036854771712\n").unwrap();
        let found =
            lowest(root.to_str().unwrap(), "/a", &["memory.limit_in_bytes"], "memory.usage");
        assert_eq!(found, None);
        assert_eq!(lowest("/nowhere", "/x", &["memory.max"], "memory.current"), None);
        fs::remove_dir_all(&root).unwrap();
    }
}
