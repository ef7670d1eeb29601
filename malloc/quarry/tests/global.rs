//! A program whose global allocator is Quarry: all parts of std that allocate, and layouts.

use quarry::Quarry;
use std::alloc::{GlobalAlloc, Layout};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::process::Command;
use std::sync::mpsc;
use std::thread;

#[global_allocator]
static A: Quarry = Quarry;

fn owned<T>(slice: &[T]) -> bool {
    Quarry::owns(slice.as_ptr().cast())
}

#[test]
fn collections_live_in_our_memory() {
    let vector: Vec<u64> = (0..100_000).collect();
    assert!(owned(&vector));
    assert_eq!(vector.iter().sum::<u64>(), 4_999_950_000);
    let words: HashMap<String, usize> =
        (0..5000).map(|number| (format!("word {number}"), number)).collect();
    assert!(words.iter().all(|(word, number)| {
        Quarry::owns(word.as_ptr()) && *word == format!("word {number}")
    }));
    let mut tree: BTreeMap<u32, Box<[u8]>> =
        (0..3000).map(|number| (number, vec![number as u8; number as usize].into())).collect();
    tree.retain(|number, _| number % 3 == 0);
    assert!(tree.iter().all(|(number, bytes)| bytes.iter().all(|byte| *byte == *number as u8)));
    let mut queue: VecDeque<_> = (0..10).collect();
    for number in 10..10_000 {
        queue.push_back(number);
        assert_eq!(queue.pop_front(), Some(number - 10));
    }
    let on_the_stack = [0u8; 16];
    assert!(!owned(&on_the_stack), "the stack is not ours");
    assert!(!Quarry::owns(std::ptr::null()));
}

#[test]
fn vectors_grow_and_shrink_with_their_contents() {
    let mut vector = Vec::new();
    for number in 0..3_000_000u32 {
        vector.push(number);
    }
    for length in [2_500_000, 300_000, 40_000, 5000, 3] {
        vector.truncate(length);
        vector.shrink_to_fit();
        assert!(vector.iter().enumerate().all(|(index, number)| index == *number as usize));
    }
    assert!(vec![0u8; 5 << 20].iter().all(|byte| *byte == 0));
}

#[test]
fn what_one_thread_makes_another_drops() {
    let (sender, receiver) = mpsc::channel::<Vec<String>>();
    let consumer = thread::spawn(move || {
        receiver.iter().map(|strings| strings.iter().map(String::len).sum::<usize>()).sum::<usize>()
    });
    for _ in 0..8 {
        // Threads that start and end, so that some objects are freed after their threads.
        let producers: Vec<_> = (0..4)
            .map(|_| {
                let sender = sender.clone();
                thread::spawn(move || {
                    for count in 0..200usize {
                        let strings = (0..10).map(|_| "s".repeat(count)).collect();
                        sender.send(strings).expect("the consumer listens");
                    }
                })
            })
            .collect();
        producers.into_iter().for_each(|producer| producer.join().expect("a producer"));
    }
    drop(sender);
    assert_eq!(consumer.join().expect("the consumer"), 8 * 4 * 10 * (199 * 200 / 2));
}

/// An allocation made directly, with its expected contents.
struct Block {
    pointer: *mut u8,
    layout: Layout,
    byte: u8,
}

impl Block {
    fn new(size: usize, align: usize, byte: u8, zeroed: bool) -> Self {
        let layout = Layout::from_size_align(size, align).expect("a layout");
        // SAFETY: the size is not 0.
        let pointer = unsafe { if zeroed { A.alloc_zeroed(layout) } else { A.alloc(layout) } };
        assert!(Quarry::owns(pointer), "{layout:?}");
        assert!((pointer as usize).is_multiple_of(align), "{layout:?} at {pointer:p}");
        let block = Self { pointer, layout, byte };
        assert!(!zeroed || block.bytes().iter().all(|byte| *byte == 0), "{layout:?}");
        block.fill();
        block
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the block has this many bytes; they were zeroed or filled.
        unsafe { std::slice::from_raw_parts(self.pointer, self.layout.size()) }
    }

    fn fill(&self) {
        // SAFETY: the block has this many bytes.
        unsafe { self.pointer.write_bytes(self.byte, self.layout.size()) };
    }

    fn resize(&mut self, size: usize) {
        // SAFETY: the pointer came with this layout.
        let moved = unsafe { A.realloc(self.pointer, self.layout, size) };
        assert!((moved as usize).is_multiple_of(self.layout.align()), "{:?}", self.layout);
        let kept = size.min(self.layout.size());
        self.pointer = moved;
        self.layout = Layout::from_size_align(size, self.layout.align()).expect("a layout");
        assert!(self.bytes()[..kept].iter().all(|byte| *byte == self.byte));
        self.fill();
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        assert!(self.bytes().iter().all(|byte| *byte == self.byte), "{:?}", self.layout);
        // SAFETY: the pointer came with this layout, and is not used any more.
        unsafe { A.dealloc(self.pointer, self.layout) };
    }
}

#[test]
fn layouts_are_kept_by_alloc_and_by_realloc() {
    let mut blocks = Vec::new();
    for shift in 0..=23 {
        for size in [1, 24, 1000, 33_000, 1_100_000] {
            blocks.push(Block::new(size, 1 << shift, shift as u8 + 1, shift % 2 == 0));
        }
    }
    for (number, block) in blocks.iter_mut().enumerate() {
        let size = block.layout.size();
        block.resize(if number % 3 == 0 { size / 2 + 1 } else { size * 3 });
    }
    drop(blocks);
    let _ = Quarry::trim();
    assert!(Block::new(100, 16, 7, true).bytes().iter().all(|byte| *byte == 7));
}

#[test]
fn what_nothing_can_hold_is_refused() {
    for (size, align) in [(isize::MAX as usize - 4096, 1), (1, 1 << 62), (1 << 50, 4096)] {
        let layout = Layout::from_size_align(size, align).expect("a layout");
        // SAFETY: the size is not 0.
        assert!(unsafe { A.alloc(layout) }.is_null(), "{layout:?}");
    }
    let mut vector: Vec<u8> = Vec::new();
    assert!(vector.try_reserve_exact(1 << 50).is_err());
}

/// Runs an ignored test of this program in another process, and returns what it printed.
fn run_alone(test: &str, variables: &[(&str, &str)]) -> String {
    let program = std::env::current_exe().expect("the path of this program");
    let output = Command::new(program)
        .args([test, "--exact", "--ignored", "--nocapture"])
        .envs(variables.iter().copied())
        .output()
        .expect("this program runs");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    text.into_owned()
}

/// A program that contains Quarry prints the statistics that `libquarry.so` prints.
#[test]
fn statistics_are_printed_where_they_are_asked_for() {
    let tables = "slabinfo - version: 2.1 (quarry, ";
    assert!(!run_alone("allocates", &[]).contains(tables));
    assert!(!run_alone("allocates", &[("QUARRY_STATS", "0")]).contains(tables));
    let text = run_alone("allocates", &[("QUARRY_STATS", "1")]);
    assert!(text.contains(tables), "{text}");
    let mappings = text.lines().find(|line| line.starts_with("mappings "));
    let count = mappings.and_then(|line| line.split_whitespace().nth(3)?.parse::<u32>().ok());
    assert!(count.is_some_and(|count| count >= 80), "{text}");
    let none = run_alone("allocates", &[("QUARRY_STATS", "/no/such/folder/stats")]);
    let line = "quarry: no statistics: QUARRY_STATS=/no/such/folder/stats cannot be opened \
                (no such folder); use 0, 1 or a regular file";
    assert!(none.contains(line), "{none}");
    let of_c = run_alone("allocates", &[("QUARRY_STATS", "1"), ("QUARRY_DISABLE", "1")]);
    assert!(of_c.contains("]: QUARRY_DISABLE=1, the C library serves\n"), "{of_c}");
    assert!(!of_c.contains(tables), "{of_c}");
}

#[test]
#[ignore = "run by the test above"]
fn allocates() {
    for number in 0..80u8 {
        let bytes = std::hint::black_box(vec![number; 20 << 20]);
        assert_eq!(bytes.last(), Some(&number));
    }
}

#[test]
fn the_c_library_serves_where_quarry_is_disabled() {
    run_alone("disabled", &[("QUARRY_DISABLE", "1")]);
}

#[test]
#[ignore = "run by the test above, with QUARRY_DISABLE=1"]
fn disabled() {
    let mut vector: Vec<u64> = (0..100_000).collect();
    vector.extend(0..100_000);
    vector.truncate(10);
    vector.shrink_to_fit();
    assert_eq!(vector, (0..10).collect::<Vec<_>>());
    assert!(!owned(&vector), "the C library's");
    assert!(vec![0u8; 1 << 20].iter().all(|byte| *byte == 0));
    let layout = Layout::from_size_align(100, 256).expect("a layout");
    // SAFETY: each pointer is used with the layout that it came with, and freed once.
    unsafe {
        let pointer = A.alloc_zeroed(layout);
        assert!((pointer as usize).is_multiple_of(256));
        pointer.write(9);
        let larger = A.realloc(pointer, layout, 5000);
        assert!((larger as usize).is_multiple_of(256) && larger.read() == 9);
        A.dealloc(larger, Layout::from_size_align(5000, 256).expect("a layout"));
    }
    assert_eq!(Quarry::trim(), 0);
}

/// Handlers of `fork` registered before the allocator's; they allocate between its handlers.
mod early {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    pub(super) static CALLS: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn allocate() {
        let bytes: usize = (0..50).map(|length| vec![7u8; length * 2000].len()).sum();
        assert_eq!(bytes, 2000 * 49 * 50 / 2);
        CALLS.fetch_add(1, Relaxed);
    }

    extern "C" fn register() {
        // SAFETY: the handlers live as long as the process.
        unsafe { libc::pthread_atfork(Some(allocate), Some(allocate), Some(allocate)) };
    }

    #[used]
    #[unsafe(link_section = ".preinit_array")]
    static REGISTER: extern "C" fn() = register;
}

#[test]
fn both_sides_of_a_fork_go_on_allocating() {
    run_alone("forks", &[]);
}

#[test]
#[ignore = "run by the test above, because it forks"]
fn forks() {
    let busy = std::sync::atomic::AtomicBool::new(true);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while busy.load(std::sync::atomic::Ordering::Relaxed) {
                    drop((0..50).map(|length| vec![1u8; length * 700]).collect::<Vec<_>>());
                }
            });
        }
        let early_calls = || early::CALLS.load(std::sync::atomic::Ordering::Relaxed);
        for _ in 0..50 {
            let calls = early_calls();
            // SAFETY: the child allocates, which the fork handlers make possible, and leaves by
            // `_exit`; nothing of the harness runs in it.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let sum: usize = (0..200).map(|length| vec![1u8; length * 300].len()).sum();
                // musl runs no `.preinit_array`, so no early handlers are registered.
                let handlers = if cfg!(target_env = "musl") { 0 } else { 2 };
                let passed = sum == 300 * 199 * 200 / 2 && early_calls() == calls + handlers;
                // SAFETY: as above.
                unsafe { libc::_exit(i32::from(!passed)) };
            }
            let mut status = -1;
            // SAFETY: `status` is writable.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
        }
        busy.store(false, std::sync::atomic::Ordering::Relaxed);
    });
}

/// A limit far above what the other tests need, because they share the heap.
#[test]
fn a_program_sets_its_own_limit() {
    let before = Quarry::limit();
    Quarry::set_limit((3 << 30) + 5).unwrap();
    assert!(Quarry::limit().is_some_and(|limit| limit <= 3 << 30));
    let beyond = Vec::<u8>::new().try_reserve_exact(4 << 30);
    assert!(beyond.is_err(), "more than the limit");
    Quarry::set_limit(usize::MAX).unwrap();
    assert_eq!(Quarry::limit(), before);
}
