//! The statistics page of a process, as another process reads it.

use crate::support::{Run, is_full, library, program, scratch, skipped, slab_policy};
use quarry_record::{
    CacheRow, LEAST_DESCRIPTOR, PAGE_BYTES, RECORD_BYTES, RECORDS, RecordError, Snapshot, flags,
    record_of,
};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus, Stdio};

/// The usual limit of open files, with which the program starts.
const USUAL_LIMIT: u64 = 1024;

/// This process's limit of open files.
fn open_files() -> libc::rlimit {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable for the call.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit
}

/// The program `record.c`, which obeys commands on its standard input. Killed when dropped.
struct Shown {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Shown {
    /// A program that makes its page at the start, unless the environment says otherwise.
    fn new(environment: &[(&str, &str)]) -> Self {
        Self::in_folder(&[&[("QUARRY_RECORD", "1")], environment].concat(), &scratch())
    }

    /// A program that makes its page at its first publication.
    fn on_demand() -> Self {
        Self::in_folder(&[], &scratch())
    }

    fn in_folder(environment: &[(&str, &str)], folder: &Path) -> Self {
        let run = Run::new(program("record.c")).without_stats().current_dir(folder);
        let mut command = run.into_command();
        command.envs(environment.iter().copied());
        // SAFETY: both are bare system calls, allowed between fork and exec.
        unsafe {
            command.pre_exec(|| {
                let mut limit = open_files();
                limit.rlim_cur = limit.rlim_cur.min(USUAL_LIMIT);
                libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
                Ok(())
            });
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it was compiled");
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = BufReader::new(output.expect("a pipe"));
        let mut shown = Self { child, input: input.expect("a pipe"), output };
        assert!(shown.answer().starts_with("ready"));
        shown
    }

    /// The next line of the program's output; empty at the end.
    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the pipe is open");
        line.trim_end().to_owned()
    }

    fn tell(&mut self, command: &str) {
        writeln!(self.input, "{command}").expect("it reads");
    }

    fn ask(&mut self, command: &str) -> String {
        self.tell(command);
        self.answer()
    }

    /// Sends a command, and waits until the program reports that it is done.
    fn has_done(&mut self, command: &str) {
        let word = command.split(' ').next().unwrap_or_default();
        assert_eq!(self.ask(command), format!("did {word}"));
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn page(&self) -> Page {
        Page::of(self.pid()).expect("the process has a page")
    }

    fn ended(mut self) -> ExitStatus {
        self.child.wait().expect("it is our child")
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A statistics page that is open here.
struct Page {
    number: i32,
    file: File,
}

impl Page {
    /// The statistics pages that a process has open.
    fn all_of(pid: u32) -> Vec<(i32, PathBuf)> {
        let entries = fs::read_dir(format!("/proc/{pid}/fd")).expect("our own child").flatten();
        let pages = entries.filter(|entry| {
            let link = fs::read_link(entry.path()).unwrap_or_default();
            link == Path::new("/memfd:quarry-record (deleted)")
        });
        let number = |path: &Path| path.file_name()?.to_str()?.parse().ok();
        pages.filter_map(|entry| Some((number(&entry.path())?, entry.path()))).collect()
    }

    fn of(pid: u32) -> Option<Self> {
        let found = Self::all_of(pid);
        assert!(found.len() <= 1, "a process has one page: {found:?}");
        let (number, path) = found.into_iter().next()?;
        Some(Self { number, file: File::open(path).expect("our own child's") })
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; PAGE_BYTES];
        self.file.read_exact_at(&mut bytes, 0).expect("it has its full size");
        bytes
    }

    /// The record of the process whose pid in its own namespace is `pid`. The process must be idle.
    fn record(&self, pid: u32) -> Vec<u8> {
        let page = self.bytes();
        let record = record_of(&page, pid, 0).unwrap_or_else(|| panic!("{pid} has no record"));
        page[record * RECORD_BYTES..][..RECORD_BYTES].to_vec()
    }

    /// The pids of the records' owners, in order.
    fn owners(&self) -> Vec<u32> {
        let page = self.bytes();
        let owner = |record| Some(Snapshot::parse(record).ok()?.owner().pid);
        page.chunks(RECORD_BYTES).filter_map(owner).collect()
    }
}

fn parsed(record: &[u8]) -> Snapshot<'_> {
    Snapshot::parse(record).unwrap_or_else(|error| panic!("the record {error}"))
}

#[test]
fn another_process_reads_it() {
    let mut shown = Shown::new(&[]);
    shown.has_done("work");
    let page = shown.page();
    assert!(page.number >= LEAST_DESCRIPTOR, "{}", page.number);
    if open_files().rlim_max > USUAL_LIMIT {
        // A program that tries all numbers below its limit does not find the descriptor.
        assert_eq!(page.number as u64, USUAL_LIMIT);
        let limits = fs::read_to_string(format!("/proc/{}/limits", shown.pid()));
        let limits = limits.expect("our own child");
        let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a line");
        assert_eq!(line.split_whitespace().nth(3), Some("1024"), "{line}");
    }
    let info = fs::read_to_string(format!("/proc/{}/fdinfo/{}", shown.pid(), page.number));
    let info = info.expect("it is open");
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).expect("has flags");
    let flags = i32::from_str_radix(flags.trim(), 8).expect("an octal number");
    assert_ne!(flags & libc::O_CLOEXEC, 0, "{info}");

    let record = page.record(shown.pid());
    let snapshot = parsed(&record);
    assert_eq!(snapshot.publications(), 1);
    let about = snapshot.about();
    let library = library().expect("the library is under test");
    assert_eq!(about.slab.as_str(), slab_policy(library));
    let lru = if is_full(library) { "splice" } else { "none" };
    assert_eq!((about.pages.as_str(), about.lru.as_str()), ("v6.18", lru));
    assert_eq!(about.quarry.as_str(), env!("CARGO_PKG_VERSION"));
    assert_eq!(about.flags & (flags::IS_CHILD | flags::IS_LAST), 0);
    let memory = snapshot.memory();
    assert!(memory.objects > 0 && memory.arena > memory.used, "{memory:?}");
    assert!(snapshot.caches().map(|row| CacheRow::allocs(&row)).sum::<u64>() > 0);
    assert!(snapshot.event("block_allocs") > Some(0), "it asks for blocks only");
    shown.has_done("work");
    assert_eq!(parsed(&page.record(shown.pid())).publications(), 2);
}

/// The program waits for a command all the time, and so does a child of it. Neither allocates after
/// its start.
#[test]
fn a_live_record_goes_on_while_the_process_sleeps() {
    let mut shown = Shown::new(&[("QUARRY_RECORD", "live")]);
    let page = shown.page();
    let goes_on = |pid: u32| {
        let publications = || {
            let bytes = page.bytes();
            let record = &bytes[record_of(&bytes, pid, 0)? * RECORD_BYTES..][..RECORD_BYTES];
            // The process may be publishing at this moment.
            Some(Snapshot::parse(record).ok()?.publications())
        };
        // Each publication will come, even on a slow machine; hangs are ended from outside.
        while publications().is_none_or(|number| number < 4) {
            std::thread::yield_now();
        }
    };
    goes_on(shown.pid());
    shown.tell("fork-idle 1");
    let child = child_of(&shown.answer());
    goes_on(child);
    goes_on(shown.pid());
    end(&[child]);
}

#[test]
fn each_child_of_a_fork_has_a_record_of_its_own() {
    let mut shown = Shown::new(&[]);
    shown.has_done("work");
    shown.tell("fork 3");
    let mut pids = vec![shown.pid()];
    pids.extend((0..3).map(|_| child_of(&shown.answer())));
    let page = shown.page();
    for pid in &pids {
        let record = page.record(*pid);
        let is_child = parsed(&record).about().flags & flags::IS_CHILD != 0;
        assert_eq!(is_child, *pid != shown.pid());
    }
    assert_eq!(page.owners().len(), 4);
    assert_eq!(Page::of(pids[1]).expect("it inherits the page").owners(), page.owners());
    end(&pids[1..]);
}

fn child_of(answer: &str) -> u32 {
    answer.strip_prefix("child ").and_then(|pid| pid.parse().ok()).expect(answer)
}

fn end(pids: &[u32]) {
    for pid in pids {
        // SAFETY: kill takes numbers only; the processes are children of ours or of our child.
        unsafe { libc::kill(*pid as i32, libc::SIGKILL) };
    }
}

/// Records of children that no longer publish pass to processes without a record; the first record
/// remains that of the process that made the page.
#[test]
fn more_children_than_records() {
    let mut shown = Shown::new(&[]);
    shown.has_done("work");
    let children = RECORDS + 4;
    shown.tell(&format!("fork {children}"));
    let pids: Vec<u32> = (0..children).map(|_| child_of(&shown.answer())).collect();
    let owners = shown.page().owners();
    assert_eq!(owners.len(), RECORDS, "{owners:?}");
    assert_eq!(owners[0], shown.pid());
    assert!(owners[1..].iter().all(|owner| pids.contains(owner)), "{owners:?}, {pids:?}");
    shown.has_done("work");
    end(&pids);
}

#[test]
fn a_thousand_children_leave_the_parents_record_alone() {
    let mut shown = Shown::new(&[]);
    shown.has_done("work");
    shown.has_done("storm 1000");
    shown.has_done("work");
    let record = shown.page().record(shown.pid());
    assert_eq!(parsed(&record).about().flags & flags::IS_CHILD, 0);
}

/// A child of `vfork` shares the memory of its parent, and so the parent's statistics and record.
#[test]
fn a_child_of_vfork_publishes_for_its_parent() {
    let mut shown = Shown::new(&[]);
    shown.has_done("vfork");
    let page = shown.page();
    assert_eq!(page.owners(), [shown.pid()]);
    shown.has_done("work");
    assert!(parsed(&page.record(shown.pid())).publications() >= 2);
}

#[test]
fn a_program_closes_the_descriptor_and_reuses_its_number() {
    let mut shown = Shown::new(&[]);
    let number = shown.page().number;
    shown.has_done(&format!("close {number}"));
    assert!(Page::of(shown.pid()).is_none(), "nobody finds the page by a descriptor");
    let maps = fs::read_to_string(format!("/proc/{}/maps", shown.pid())).expect("our child");
    assert!(maps.contains("memfd:quarry-record"), "the mapping is left:\n{maps}");
}

#[test]
fn the_program_that_is_executed_has_a_page_of_its_own() {
    let mut shown = Shown::new(&[]);
    shown.has_done("work");
    let before = shown.page();
    assert!(shown.ask("exec").starts_with("ready"));
    let after = shown.page();
    assert!(after.owners().is_empty(), "nothing is published yet");
    shown.has_done("work");
    assert_eq!(after.owners(), [shown.pid()]);
    assert_eq!(parsed(&before.record(shown.pid())).publications(), 1, "the old page is left");
}

#[test]
fn a_process_that_changes_its_user_goes_on() {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return skipped("only root changes its user");
    }
    let mut shown = Shown::new(&[]);
    shown.has_done("work");
    let page = shown.page();
    let before = parsed(&page.record(shown.pid())).publications();
    shown.has_done("user");
    assert!(parsed(&page.record(shown.pid())).publications() > before);
    assert!(Page::of(shown.pid()).is_some(), "root still finds it");
}

/// As in a container: the process has another pid inside, and the reader is outside.
#[test]
fn a_process_in_other_namespaces() {
    let mut shown = Shown::new(&[]);
    shown.has_done("work");
    let answer = shown.ask("namespace");
    if let Some(errno) = answer.strip_prefix("refused ") {
        return skipped(&format!("no namespaces here (errno {errno})"));
    }
    let pid: u32 = answer.strip_prefix("inside ").and_then(|pid| pid.parse().ok()).expect("a pid");
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let inner = status.lines().find_map(|line| line.strip_prefix("NSpid:")).expect("has pids");
    let inner: u32 = inner.split_whitespace().last().and_then(|it| it.parse().ok()).expect("one");
    assert_eq!(inner, 1);
    let page = Page::of(pid).expect("it inherits the page");
    let record = page.record(inner);
    assert_ne!(parsed(&record).about().flags & flags::IS_CHILD, 0);
    assert_eq!(page.owners(), [shown.pid(), 1]);
    end(&[pid]);
}

/// A reader that has opened the page can read the last publication however the process died.
#[test]
fn a_reader_keeps_what_a_dead_process_has_published() {
    for (command, is_last) in [("exit", true), ("quick-exit", false), ("kill", false)] {
        let mut shown = Shown::new(&[("QUARRY_RECORD", "exit")]);
        let (page, pid) = (shown.page(), shown.pid());
        assert_eq!(page.owners(), [pid], "it publishes at its start");
        shown.tell(command);
        if command == "kill" {
            end(&[pid]);
        }
        let _ = shown.ended();
        let record = page.record(pid);
        assert_eq!(parsed(&record).about().flags & flags::IS_LAST != 0, is_last, "{command}");
    }
}

/// A process that ends at once makes no page. (On a machine so slow that the first publication is
/// due by then, it makes one.)
#[test]
fn a_page_is_made_with_the_first_publication() {
    let mut shown = Shown::on_demand();
    if let Some(page) = Page::of(shown.pid()) {
        assert_eq!(page.owners(), [shown.pid()], "its first publication was due");
    }
    shown.has_done("work");
    assert_eq!(shown.page().owners(), [shown.pid()]);
    let mut shown = Shown::on_demand();
    shown.has_done("grow");
    assert_eq!(shown.page().owners(), [shown.pid()], "a heap of 4 MiB does not wait");
}

#[test]
fn a_child_makes_a_page_of_its_own_where_its_parent_has_none() {
    let mut shown = Shown::on_demand();
    shown.tell("fork 1");
    let child = child_of(&shown.answer());
    let page = Page::of(child).expect("the child has published");
    let record = page.record(child);
    let is_child = parsed(&record).about().flags & flags::IS_CHILD != 0;
    if Page::of(shown.pid()).is_none() {
        assert!(!is_child, "it has made the page");
        assert_eq!(page.owners(), [child]);
        shown.has_done("work");
        assert_eq!(shown.page().owners(), [shown.pid()], "each has its own");
    }
    end(&[child]);
}

/// A filter would kill the process for making a page. If one is in force, no page is made.
#[test]
fn no_page_is_made_under_a_filter() {
    let mut shown = Shown::on_demand();
    let had_page = Page::of(shown.pid()).is_some();
    shown.has_done("filter");
    shown.has_done("grow");
    assert_eq!(Page::of(shown.pid()).is_some(), had_page);
}

#[test]
fn who_wants_no_page_has_none() {
    for setting in [("QUARRY_RECORD", "0"), ("QUARRY_SANDBOX", "1")] {
        let shown = Shown::new(&[setting]);
        assert!(Page::of(shown.pid()).is_none(), "{setting:?}");
    }
    let run = Run::new("sleep").arg("60").env("QUARRY_DISABLE", "1").without_stats();
    let mut child = run.into_command().stdout(Stdio::null()).spawn().expect("sleep is there");
    assert!(Page::of(child.id()).is_none());
    child.kill().and_then(|()| child.wait()).expect("it is our child");
}

/// A limit of file sizes below the page's size: the kernel would kill the process.
#[test]
fn a_process_that_may_make_small_files_only() {
    let script = "ulimit -f 8; exec true";
    Run::new("sh").args(["-c", script]).without_stats().finish().success();
}

/// A core file contains the page by default, and the symbol has its address.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_core_file_has_it() {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").expect("/proc is mounted");
    if pattern.contains(['/', '|', '%']) {
        return skipped(&format!("core files go elsewhere: {}", pattern.trim()));
    }
    let folder = scratch();
    let mut shown = Shown::in_folder(&[("QUARRY_RECORD", "1")], &folder);
    shown.has_done("work");
    let pid = shown.pid();
    let answer = shown.ask("core");
    let mut numbers = answer.split(' ').filter_map(|word| word.strip_prefix("0x"));
    let mut number = || u64::from_str_radix(numbers.next().expect("two numbers"), 16);
    let (page, symbol) = (number().expect("hexadecimal"), number().expect("hexadecimal"));
    assert!(shown.ended().core_dumped(), "no core file, with {pattern}");
    let names = [pattern.trim().to_owned(), format!("{}.{pid}", pattern.trim())];
    let core = names.iter().find_map(|name| fs::read(folder.join(name)).ok());
    let core = core.unwrap_or_else(|| panic!("no core file in {}", folder.display()));
    let word = bytes_at(&core, symbol, 8).expect("the library's data are in the core file");
    assert_eq!(u64::from_ne_bytes(word.try_into().expect("8 bytes")), page);
    let record = bytes_at(&core, page, RECORD_BYTES).expect("the page is in the core file");
    assert_eq!(parsed(record).owner().pid, pid);
}

/// The memory at an address, in a core file.
#[cfg(target_arch = "x86_64")]
fn bytes_at(core: &[u8], address: u64, bytes: usize) -> Option<&[u8]> {
    use object::{Object, ObjectSegment};
    let core = object::File::parse(core).expect("an ELF file");
    core.segments().find_map(|segment| {
        let from = usize::try_from(address.checked_sub(segment.address())?).ok()?;
        segment.data().ok()?.get(from..from + bytes)
    })
}

/// A record in which its owner has published nothing is reported as such.
#[test]
fn a_fresh_page_is_empty() {
    let mut shown = Shown::new(&[]);
    let page = shown.page();
    let mut first = vec![0; RECORD_BYTES];
    (&page.file).read_exact(&mut first).expect("it has its full size");
    if Snapshot::parse(&first).err() != Some(RecordError::Blank) {
        // Or, on a slow machine, the first publication was due already.
        shown.has_done("work");
        assert_eq!(page.owners(), [shown.pid()]);
    }
}
