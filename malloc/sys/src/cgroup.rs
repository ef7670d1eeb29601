//! Limits of the control group, version 1 or 2: memory, and CPU time; read without allocating.
//!
//! The limit of a control group, here a *group*, is the lowest of its own and its ancestors'. This
//! module subtracts from a group's use the memory that the kernel reclaims before it fails a charge
//! (`try_charge_memcg` in `mm/memcontrol.c`, Linux 6.x, which reclaims sixteen times):
//!
//! * the page cache on both LRU lists, except dirty pages and those under writeback, which reclaim
//!   leaves to the flusher threads. The kernel also reclaims pages that are on the active list
//!   because they were read twice. Neither list holds `shmem` or locked pages;
//! * half of the reclaimable slab memory, as in `MemAvailable`: objects in use keep the other half.
//!
//! `memory.high` fails no charge: beyond it the kernel reclaims, and slows the group down.

use crate::file::try_find_piece;
use crate::os::{OsError, OsResult};
use crate::report::Line;
use core::ffi::CStr;
use core::fmt::Write;

const ROOT_V2: &str = "/sys/fs/cgroup";
/// Where version 2 is mounted beside controllers of version 1.
const ROOT_UNIFIED: &str = "/sys/fs/cgroup/unified";
const ROOT_V1: &str = "/sys/fs/cgroup/memory";
/// Where CPU time and its accounting are one hierarchy, this is a link to it.
const CPU_ROOT_V1: &str = "/sys/fs/cgroup/cpu";
/// Values of version 1 from here on mean "no limit" (`PAGE_COUNTER_MAX`, Linux 6.x).
const UNLIMITED: u64 = 1 << 62;

/// Limit and use of a group, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The lowest limit among the group and its ancestors; all bits set where there is no limit.
    pub limit: u64,
    /// Bytes that the group with this limit uses and that the kernel cannot reclaim.
    pub usage: u64,
    /// Bytes that the group or an ancestor may still use before the kernel slows it down
    /// (`memory.high`); all bits set where none of them has a `memory.high`.
    pub room_below_high: u64,
    /// Processes of the group with this limit, at least 1; counted up to [`Self::MOST_COUNTED`].
    pub processes: u32,
}

impl MemoryLimit {
    /// Processes are counted up to this number.
    pub const MOST_COUNTED: u32 = 4;

    const NONE: Self = Self { limit: u64::MAX, usage: 0, room_below_high: u64::MAX, processes: 1 };
}

struct Names {
    root: &'static str,
    max: &'static str,
    high: Option<&'static str>,
    usage: &'static str,
}

const V1: Names = Names {
    root: ROOT_V1,
    max: "memory.limit_in_bytes",
    high: None,
    usage: "memory.usage_in_bytes",
};
const V2: Names =
    Names { root: ROOT_V2, max: "memory.max", high: Some("memory.high"), usage: "memory.current" };

/// Long enough for the path of a container's group; a truncated longer path names no file.
type Path = Line<640>;

/// Returns the limit of this process; `None` where it has none, or where `/proc` or `/sys` is
/// missing. Makes a handful of system calls.
///
/// # Errors
/// The error of a file that cannot be read now, such as `EMFILE`: the caller keeps the old limit.
pub fn memory_limit() -> OsResult<Option<MemoryLimit>> {
    let Some((is_v1, group)) = own_group("memory")? else { return Ok(None) };
    let names = if is_v1 { V1 } else { V2 };
    match core::str::from_utf8(group.as_bytes()) {
        Ok(path) => lowest(&names, names.root, path),
        Err(_) => Ok(None),
    }
}

/// Returns the CPU time that this process may use each second, in CPUs, rounded up: `cpu.max`, or
/// the quota of version 1, of its group or an ancestor, whichever is lowest. `None` where there is
/// no quota. Makes a handful of system calls.
///
/// # Errors
/// The error of a file that cannot be read now, such as `EMFILE`: the caller keeps the old quota.
#[inline(never)]
pub fn cpu_quota() -> OsResult<Option<u32>> {
    let Some((is_v1, group)) = own_group("cpu")? else { return Ok(None) };
    let root = if is_v1 { CPU_ROOT_V1 } else { ROOT_V2 };
    match core::str::from_utf8(group.as_bytes()) {
        Ok(path) => lowest_quota(is_v1, root, path),
        Err(_) => Ok(None),
    }
}

/// The first result of `read` for the file `name` of this process's group of version 2, or of its
/// nearest ancestor that has this file. A handful of system calls.
pub fn find_in_own_group(name: &str, read: impl Fn(&CStr) -> Option<u64>) -> Option<u64> {
    // No controller has this name.
    let (_, own) = own_group("-").ok()??;
    let own = core::str::from_utf8(own.as_bytes()).ok()?.trim_end_matches('/');
    let (mut root, mut group) = (ROOT_V2, own);
    loop {
        let path = join(root, group, name);
        let found = CStr::from_bytes_with_nul(path.as_bytes()).ok().and_then(&read);
        match group.rsplit_once('/') {
            _ if found.is_some() => return found,
            Some((parent, _)) => group = parent,
            None if root == ROOT_V2 => (root, group) = (ROOT_UNIFIED, own),
            None => return None,
        }
    }
}

fn lowest_quota(is_v1: bool, root: &str, path: &str) -> OsResult<Option<u32>> {
    let mut group = path.trim_end_matches('/');
    let mut lowest: Option<u32> = None;
    loop {
        let read = |name| numbers(&join(root, group, name));
        let of_group = if is_v1 {
            let period = read("cpu.cfs_period_us")?.map_or(0, |(period, _)| period);
            read("cpu.cfs_quota_us")?.map(|(quota, _)| (quota, period))
        } else {
            read("cpu.max")?
        };
        let cpus = of_group
            .map(|(quota, period)| quota.div_ceil(period.max(1)).clamp(1, u32::MAX.into()) as u32);
        lowest = lowest.into_iter().chain(cpus).min();
        let Some((parent, _)) = group.rsplit_once('/') else { return Ok(lowest) };
        group = parent;
    }
}

/// The group of this process that has a controller, and whether that is one of version 1.
#[inline(never)]
fn own_group(controller: &str) -> OsResult<Option<(bool, Path)>> {
    let mut version_2 = None;
    let version_1 = find(c"/proc/self/cgroup", |line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next()?, fields.next()?);
        let mut path = Path::default();
        let _ = path.write_str(group);
        if controllers.is_empty() {
            version_2 = Some(path);
            return None;
        }
        controllers.split(',').any(|name| name == controller).then_some(path)
    })?;
    let version_1 = version_1.map(|path| (true, path));
    Ok(version_1.or(version_2.map(|path| (false, path))))
}

/// Walks from the control group at `path` up to the root. A container may see the path that its
/// group has on the host; if no such path exists, the mount's root is the group of the process.
fn lowest(names: &Names, root: &str, path: &str) -> OsResult<Option<MemoryLimit>> {
    let mut group = path.trim_end_matches('/');
    let mut lowest = MemoryLimit::NONE;
    loop {
        let bytes = |name| number(&join(root, group, name));
        let limit = bytes(names.max)?.filter(|limit| *limit < UNLIMITED.min(lowest.limit));
        let high = names.high.map_or(Ok(None), bytes)?;
        if limit.is_some() || high.is_some() {
            let used = bytes(names.usage)?.unwrap_or(0);
            let used = used.saturating_sub(reclaimable(&join(root, group, "memory.stat"))?);
            if let Some(limit) = limit {
                (lowest.limit, lowest.usage) = (limit, used);
                lowest.processes = processes(&join(root, group, "cgroup.procs"))?;
            }
            let room = high.map_or(u64::MAX, |high| high.saturating_sub(used));
            lowest.room_below_high = lowest.room_below_high.min(room);
        }
        let Some((parent, _)) = group.rsplit_once('/') else {
            return Ok((lowest != MemoryLimit::NONE).then_some(lowest));
        };
        group = parent;
    }
}

#[inline(never)]
fn join(root: &str, group: &str, name: &str) -> Path {
    let mut path = Path::default();
    let _ = write!(path, "{root}{group}/{name}\0");
    path
}

/// Calls `value` with each line of the file and returns its first result; `None` also if the file
/// does not exist or may not be read.
fn find<R>(path: &CStr, mut value: impl FnMut(&str) -> Option<R>) -> OsResult<Option<R>> {
    match try_find_piece(path, b'\n', |line| value(core::str::from_utf8(line).ok()?)) {
        Err(OsError(
            libc::ENOENT | libc::ENOTDIR | libc::ENODEV | libc::EACCES | libc::EPERM | libc::ENOSYS,
        )) => Ok(None),
        answer => answer,
    }
}

fn find_in<R>(path: &Path, value: impl FnMut(&str) -> Option<R>) -> OsResult<Option<R>> {
    match CStr::from_bytes_with_nul(path.as_bytes()) {
        Ok(path) => find(path, value),
        // The path was truncated.
        Err(_) => Ok(None),
    }
}

fn number(path: &Path) -> OsResult<Option<u64>> {
    Ok(numbers(path)?.map(|(first, _)| first))
}

/// The one or two numbers in a file; the second one is 0 where there is one.
#[inline(never)]
fn numbers(path: &Path) -> OsResult<Option<(u64, u64)>> {
    find_in(path, |line| {
        let mut words = line.trim_ascii().split(' ').map(|word| word.parse().ok());
        Some((words.next()??, words.next().flatten().unwrap_or(0)))
    })
}

fn processes(path: &Path) -> OsResult<u32> {
    let mut count = 0;
    find_in(path, |line| {
        count += u32::from(!line.is_empty());
        (count >= MemoryLimit::MOST_COUNTED).then_some(())
    })?;
    Ok(count.max(1))
}

/// Figures of `memory.stat`, in bytes.
#[derive(Clone, Copy, Default)]
struct Stat {
    /// Page cache on the LRU.
    file: u64,
    /// The part of `file` that is dirty or under writeback.
    unwritten: u64,
    slab: u64,
}

impl Stat {
    fn add(&mut self, name: &str, bytes: u64) {
        match name {
            "active_file" | "inactive_file" => self.file += bytes,
            "file_dirty" | "file_writeback" | "dirty" | "writeback" => self.unwritten += bytes,
            "slab_reclaimable" => self.slab += bytes,
            _ => {}
        }
    }
}

/// Returns the bytes that the kernel can take back from a control group and its children. In
/// version 1 `memory.stat` has the group's own figures first, then the totals with its children.
fn reclaimable(path: &Path) -> OsResult<u64> {
    let (mut own, mut total) = (Stat::default(), None);
    find_in(path, |line| {
        let (name, bytes) = line.split_once(' ')?;
        let bytes = bytes.trim_ascii().parse().ok()?;
        match name.strip_prefix("total_") {
            Some(name) => total.get_or_insert(Stat::default()).add(name, bytes),
            None => own.add(name, bytes),
        }
        None::<()>
    })?;
    let stat = total.unwrap_or(own);
    Ok(stat.file.saturating_sub(stat.unwritten) + stat.slab / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};

    struct Groups(PathBuf);

    impl Groups {
        fn new(name: &str) -> Self {
            let root = std::env::temp_dir().join(format!("quarry-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&root);
            fs::create_dir_all(root.join("a/b")).unwrap();
            Self(root)
        }

        fn write(&self, file: &str, text: &str) -> &Self {
            fs::write(self.0.join(file), text).unwrap();
            self
        }

        fn lowest(&self, names: &Names, path: &str) -> OsResult<Option<MemoryLimit>> {
            lowest(names, self.0.to_str().unwrap(), path)
        }

        fn file(&self, file: &str) -> PathBuf {
            self.0.join(file)
        }
    }

    impl Drop for Groups {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn limit(limit: u64, usage: u64) -> OsResult<Option<MemoryLimit>> {
        Ok(Some(MemoryLimit { limit, usage, ..MemoryLimit::NONE }))
    }

    #[test]
    fn the_lowest_limit_of_all_ancestors_applies() {
        let groups = Groups::new("cgroup2");
        groups.write("a/memory.max", "100\n").write("a/memory.current", "70\n");
        groups.write("a/memory.stat", "anon 60\ninactive_file 10\n");
        groups.write("a/b/memory.max", "max\n");
        assert_eq!(groups.lowest(&V2, "/a/b"), limit(100, 60));
        groups.write("a/b/memory.max", "150\n").write("a/b/memory.current", "50\n");
        assert_eq!(groups.lowest(&V2, "/a/b"), limit(100, 60));
        groups.write("a/b/memory.max", "90\n");
        assert_eq!(groups.lowest(&V2, "/a/b"), limit(90, 50));
    }

    #[test]
    fn the_processes_of_the_group_with_the_limit_are_counted() {
        let groups = Groups::new("processes");
        groups.write("a/memory.max", "100\n").write("a/b/memory.max", "200\n");
        groups.write("a/b/cgroup.procs", "1\n2\n");
        let processes = || groups.lowest(&V2, "/a/b").map(|limit| limit.unwrap().processes);
        assert_eq!(processes(), Ok(1), "no file tells");
        groups.write("a/cgroup.procs", "1\n2\n31\n");
        assert_eq!(processes(), Ok(3));
        groups.write("a/cgroup.procs", "1\n2\n31\n4\n5\n6\n");
        assert_eq!(processes(), Ok(MemoryLimit::MOST_COUNTED));
    }

    #[test]
    fn the_lowest_quota_of_all_ancestors_applies() {
        let groups = Groups::new("quota");
        let quota = |is_v1| lowest_quota(is_v1, groups.0.to_str().unwrap(), "/a/b");
        assert_eq!((quota(false), quota(true)), (Ok(None), Ok(None)));
        groups.write("a/b/cpu.max", "max 100000\n");
        assert_eq!(quota(false), Ok(None));
        groups.write("a/cpu.max", "150000 100000\n");
        assert_eq!(quota(false), Ok(Some(2)), "rounded up");
        groups.write("a/b/cpu.max", "50000 100000\n").write("cpu.max", "400000 100000\n");
        assert_eq!(quota(false), Ok(Some(1)));
        for wrong in ["", "0 0\n", "many of them\n", "18446744073709551616 1\n", "4294967296 1\n"] {
            groups.write("a/b/cpu.max", wrong);
            assert!(matches!(quota(false), Ok(Some(1 | 2))), "{wrong}");
        }
        groups.write("a/cpu.cfs_quota_us", "-1\n").write("a/cpu.cfs_period_us", "100000\n");
        assert_eq!(quota(true), Ok(None));
        groups.write("a/cpu.cfs_quota_us", "300000\n");
        assert_eq!(quota(true), Ok(Some(3)));
    }

    /// A process in a real group, if this machine lets us make one.
    #[test]
    fn a_group_gets_the_quota_that_it_was_given() {
        let (is_v1, group) = own_group("cpu").unwrap().expect("/proc is there");
        let path = str::from_utf8(group.as_bytes()).unwrap().trim_start_matches('/');
        let root = Path::new(if is_v1 { CPU_ROOT_V1 } else { ROOT_V2 });
        let folder = root.join(path).join(format!("quarry-quota-{}", std::process::id()));
        let quota =
            if is_v1 { ("cpu.cfs_quota_us", "150000") } else { ("cpu.max", "150000 100000") };
        let made = fs::create_dir(&folder)
            .and_then(|()| fs::write(folder.join(quota.0), quota.1))
            .map(|()| folder.join("cgroup.procs"));
        let Ok(processes) = made else {
            let _ = fs::remove_dir(&folder);
            return println!("skipped: no group with a quota of CPU time can be made");
        };
        let test = "cgroup::tests::in_a_group_with_a_quota";
        let status = std::process::Command::new("sh")
            .args(["-c", "echo $$ > $0 && exec $1 --exact $2 --ignored"])
            .args([processes.as_os_str(), std::env::current_exe().unwrap().as_os_str()])
            .arg(test)
            .status();
        fs::remove_dir(&folder).expect("no process is left in the group");
        assert!(status.unwrap().success());
    }

    #[test]
    #[ignore = "run by the test above, in a group"]
    fn in_a_group_with_a_quota() {
        assert_eq!(cpu_quota(), Ok(Some(2)));
    }

    #[test]
    fn no_limit_is_none() {
        let groups = Groups::new("cgroup1");
        groups.write("a/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(groups.lowest(&V1, "/a"), Ok(None));
        assert_eq!(lowest(&V2, "/nowhere", "/x"), Ok(None));
    }

    #[test]
    fn what_the_kernel_can_take_back_is_not_used() {
        let groups = Groups::new("reclaimable2");
        groups.write("a/memory.max", "1000\n").write("a/memory.current", "900\n");
        let stat = "anon 100\nfile 600\nshmem 40\nfile_mapped 90\nfile_dirty 30\n\
                    file_writeback 20\nactive_anon 50\ninactive_file 110\nactive_file 400\n\
                    unevictable 50\nslab_reclaimable 60\nslab_unreclaimable 80\nslab 140\n";
        groups.write("a/memory.stat", stat);
        let reclaimable = 110 + 400 - 30 - 20 + 60 / 2;
        assert_eq!(groups.lowest(&V2, "/a"), limit(1000, 900 - reclaimable));
    }

    #[test]
    fn version_1_counts_children_as_well() {
        let groups = Groups::new("reclaimable1");
        groups.write("a/memory.limit_in_bytes", "1000\n").write("a/memory.usage_in_bytes", "900\n");
        let stat = "cache 10\ndirty 1\nwriteback 1\ninactive_file 4\nactive_file 5\n\
                    total_cache 600\ntotal_dirty 30\ntotal_writeback 20\n\
                    total_inactive_file 110\ntotal_active_file 400\n";
        groups.write("a/memory.stat", stat);
        assert_eq!(groups.lowest(&V1, "/a"), limit(1000, 900 - (110 + 400 - 30 - 20)));
    }

    #[test]
    fn high_is_no_limit() {
        let groups = Groups::new("high");
        groups.write("a/memory.high", "500\n").write("a/memory.current", "470\n");
        groups.write("a/memory.stat", "inactive_file 10\n");
        groups.write("a/b/memory.high", "max\n").write("a/b/memory.max", "max\n");
        let only_high = MemoryLimit { room_below_high: 40, ..MemoryLimit::NONE };
        assert_eq!(groups.lowest(&V2, "/a/b"), Ok(Some(only_high)));
        groups.write("a/b/memory.max", "450\n").write("a/b/memory.current", "300\n");
        let both = MemoryLimit { limit: 450, usage: 300, ..only_high };
        assert_eq!(groups.lowest(&V2, "/a/b"), Ok(Some(both)));
        groups.write("a/memory.high", "100\n");
        let beyond = MemoryLimit { room_below_high: 0, ..both };
        assert_eq!(groups.lowest(&V2, "/a/b"), Ok(Some(beyond)));
    }

    /// A symbolic link to itself cannot be opened, like a file when all descriptors are in use.
    #[test]
    fn files_that_cannot_be_read_now_are_not_taken_for_no_limit() {
        for hidden in ["memory.max", "memory.current", "memory.stat"] {
            let groups = Groups::new(&format!("hidden-{hidden}"));
            groups.write("a/memory.max", "100\n").write("a/memory.current", "70\n");
            groups.write("a/memory.stat", "inactive_file 10\n");
            assert_eq!(groups.lowest(&V2, "/a/b"), limit(100, 60));
            let file: &Path = &groups.file(&format!("a/{hidden}"));
            fs::remove_file(file).unwrap();
            symlink(file, file).unwrap();
            assert_eq!(groups.lowest(&V2, "/a/b"), Err(OsError(libc::ELOOP)), "{hidden}");
        }
    }
}
