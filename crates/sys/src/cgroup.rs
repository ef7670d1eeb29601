//! The memory limit that the control group sets, version 1 or 2; read without allocating.
//!
//! A group's limit is the lowest of its own and its ancestors'. What the group uses is counted
//! without its inactive page cache, which the kernel drops before it refuses anything.

use crate::report::Line;
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

type Path = Line<512>;
type Text = Line<4096>;

/// The limit that applies to this process, `None` where there is none or nothing can be read.
/// A handful of system calls.
#[must_use]
pub fn memory_limit() -> Option<MemoryLimit> {
    let groups = read("/proc/self/cgroup")?;
    let groups = core::str::from_utf8(groups.as_bytes()).ok()?;
    let mut version_2 = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        if controllers.split(',').any(|controller| controller == "memory") {
            return lowest(ROOT_V1, path, &["memory.limit_in_bytes"], "memory.usage_in_bytes");
        }
        if controllers.is_empty() {
            version_2 = Some(path);
        }
    }
    lowest(ROOT_V2, version_2?, &["memory.max", "memory.high"], "memory.current")
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

fn join(root: &str, group: &str, name: &str) -> Path {
    let mut path = Path::default();
    let _ = write!(path, "{root}{group}/{name}");
    path
}

fn number(path: &Path) -> Option<u64> {
    let text = read(core::str::from_utf8(path.as_bytes()).ok()?)?;
    core::str::from_utf8(text.as_bytes()).ok()?.trim().parse().ok()
}

fn inactive_file(path: &Path) -> u64 {
    let Some(text) = core::str::from_utf8(path.as_bytes()).ok().and_then(read) else { return 0 };
    let text = core::str::from_utf8(text.as_bytes()).unwrap_or("");
    let value = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
    };
    value("total_inactive_file ").or_else(|| value("inactive_file ")).unwrap_or(0)
}

/// The first 4 KiB of a file.
fn read(path: &str) -> Option<Text> {
    let mut name = Line::<520>::default();
    let _ = write!(name, "{path}\0");
    let mut text = Text::default();
    let mut piece = [0u8; 512];
    // SAFETY: the name is NUL-terminated (paths are below 512 bytes, or the file is not found), and
    // each read writes at most the piece.
    unsafe {
        let fd = libc::open(name.as_bytes().as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return None;
        }
        loop {
            let got = libc::read(fd, piece.as_mut_ptr().cast(), piece.len());
            if got <= 0 {
                break;
            }
            // A multi-byte character cut in two is in no file that is read here.
            if let Ok(part) = core::str::from_utf8(&piece[..got as usize]) {
                let _ = text.write_str(part);
            }
        }
        libc::close(fd);
    }
    Some(text)
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
