//! Own heaps: two threads take objects of one heap and free each other's, while a third one makes
//! and destroys heaps, and looks at statistics; heaps of groups that end.

use crate::explore;
use crate::hands::Hands;
use crate::system::{Backing, TestOs};
use quarry_mm::heap::options::StackOptions;
use quarry_mm::own_heap::{Missed, OwnHeapId, Use};
use quarry_mm::pcp::V6_18;
use quarry_mm::slab::Sheaf;
use quarry_mm::stack::{Request, Stack, StackConfig, StackHost};
use quarry_mm::zone::{GroupId, GroupLimits, Name};
use quarry_sys::percpu::{Object, SteppedSlots};
use quarry_watch::AllInstruments;
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;

struct Config;

impl StackConfig for Config {
    type PerCpu = SteppedSlots;
    type Slab = Sheaf;
    type Pages = V6_18;
    type Cache = ();
    type Watch = AllInstruments;
}

type OfModel = Stack<Config>;

fn stack() -> (&'static TestOs, Arc<OfModel>) {
    let os: &'static TestOs = Box::leak(Box::new(TestOs::new(Backing::Fake, 4096)));
    let stack = Arc::new(OfModel::new());
    stack.percpu().sequences().set_cpus(2);
    let mut options = StackOptions { heap: false, ..StackOptions::default() };
    options.pages.reserve_bytes = 64 << 20;
    stack.init(os, &options, &Default::default()).expect("a system on which nothing fails");
    (os, stack)
}

/// Gives back what dead heaps left: no frame is lost.
fn end(os: &TestOs, stack: &OfModel) {
    let _ = stack.trim();
    assert_eq!(stack.pages().zones().budget().used(), 0, "frames of dead heaps are free");
    os.release_all();
}

fn create(stack: &OfModel) -> OwnHeapId {
    let of = (GroupId::ROOT, Use::Program);
    stack
        .own
        .create(Name::of("model"), of, u32::MAX, stack.metadata())
        .expect("memory for a record")
}

/// Takes an object as a program does: first without waiting for the lock.
fn take(stack: &OfModel, heap: OwnHeapId, size: usize) -> Result<Object, Missed> {
    match stack.own_take(heap, size) {
        Some(object) => Ok(object),
        None => stack.own_alloc(heap, Request::of(size)),
    }
}

/// Frees an object as a program does.
///
/// # Safety
/// The object is live, and its user has given it up.
unsafe fn free(stack: &OfModel, object: Object) {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        match stack.own_give(object.as_ptr()) {
            Some(0) => {}
            Some(emptied) => stack.own_trim(emptied),
            None => stack.free(object),
        }
    }
}

#[test]
fn an_object_is_with_one_thread_at_a_time() {
    explore(300, || {
        let (os, stack) = stack();
        let (heap, hands) = (create(&stack), Arc::new(Hands::default()));
        let passed = Arc::new(Mutex::new(Vec::new()));
        let users: Vec<_> = (0..2)
            .map(|_| {
                let (stack, hands, passed) = (stack.clone(), hands.clone(), passed.clone());
                thread::spawn(move || {
                    for size in [4096, 4000, 8192] {
                        let object = take(&stack, heap, size).expect("there is memory");
                        hands.take(object);
                        let other = {
                            let mut passed = passed.lock().expect("no panic under this lock");
                            passed.push(object.as_ptr() as usize);
                            if passed.len() > 1 { Some(passed.remove(0)) } else { None }
                        };
                        if let Some(object) = other.and_then(|it| Object::new(it as *mut u8)) {
                            hands.give(object);
                            // SAFETY: it was passed on once, and so is freed once.
                            unsafe { free(&stack, object) };
                        }
                    }
                })
            })
            .collect();
        let other = create(&stack);
        assert!(take(&stack, other, 100).is_ok());
        assert_eq!(stack.destroy_own_heap(other), Ok(()));
        let _ = stack.stats();
        for user in users {
            user.join().expect("an object is with one thread");
        }
        assert_eq!(stack.validate(), Ok(()));
        assert_eq!(stack.destroy_own_heap(heap), Ok(()));
        end(os, &stack);
    });
}

/// A reset beside a request, whose frames may be on their way into the heap, keeps the account.
#[test]
fn a_heap_that_is_reset_beside_a_request_keeps_its_account() {
    explore(300, || {
        let (os, stack) = stack();
        let heap = create(&stack);
        let of_user = stack.clone();
        let user = thread::spawn(move || {
            for size in [4096, 100_000, 4096] {
                assert!(take(&of_user, heap, size).is_ok());
            }
        });
        assert_eq!(stack.reset_own_heap(heap), Ok(()));
        user.join().expect("it got what it asked for");
        assert_eq!(stack.validate(), Ok(()));
        assert_eq!(stack.reset_own_heap(heap), Ok(()));
        assert_eq!(stack.validate(), Ok(()));
        assert_eq!(stack.destroy_own_heap(heap), Ok(()));
        end(os, &stack);
    });
}

/// A thread that takes objects of a heap while another one destroys it gets objects until then, and
/// learns that the heap is dead.
#[test]
fn a_heap_that_is_destroyed_beside_a_request_loses_nothing() {
    explore(300, || {
        let (os, stack) = stack();
        let heap = create(&stack);
        let of_user = stack.clone();
        let user = thread::spawn(move || {
            for size in [4096, 100_000, 4096] {
                match take(&of_user, heap, size) {
                    Ok(_) => {}
                    Err(missed) => return assert_eq!(missed, Missed::Dead),
                }
            }
        });
        assert_eq!(stack.destroy_own_heap(heap), Ok(()));
        user.join().expect("it saw a heap or none");
        assert_eq!(take(&stack, heap, 16), Err(Missed::Dead));
        assert_eq!(stack.validate(), Ok(()));
        end(os, &stack);
    });
}

fn group(stack: &OfModel, parent: GroupId, max: u32) -> GroupId {
    let limits = GroupLimits { max, ..GroupLimits::default() };
    let made = stack.groups.create(parent, Name::of("model"), limits, stack.metadata());
    made.expect("memory for a record")
}

/// A group is removed when the last thread has left it, and its objects go with their last user:
/// no charge is lost or counted twice.
#[test]
fn a_group_ends_beside_the_threads_that_leave_it() {
    explore(300, || {
        let (os, stack) = stack();
        let above = group(&stack, GroupId::ROOT, u32::MAX);
        let id = group(&stack, above, u32::MAX);
        let users: Vec<_> = (0..2)
            .map(|number| {
                let stack = stack.clone();
                thread::spawn(move || {
                    if !stack.groups.enter(id) {
                        return;
                    }
                    let heap = stack.heap_of_group(id).expect("memory for a record");
                    let object = take(&stack, heap, 4096 << (4 * number)).expect("no limit");
                    stack.groups.exit(id);
                    // SAFETY: the object is this thread's, which gives it up.
                    unsafe { free(&stack, object) };
                })
            })
            .collect();
        let mut is_gone = stack.end_group(id);
        for user in users {
            user.join().expect("it was inside or not");
        }
        is_gone |= stack.end_group(id);
        assert!(is_gone && !stack.groups.enter(id), "no thread is inside");
        assert_eq!(stack.validate(), Ok(()));
        assert_eq!((stack.own.live(), stack.groups.at(above).used()), (0, 0), "nothing is left");
        assert!(stack.end_group(above));
        end(os, &stack);
    });
}

/// The charges of two groups never exceed the limit of the group above them, and each charge that
/// failed has left nothing.
#[test]
fn charges_meet_the_limit_above() {
    explore(500, || {
        let (os, stack) = stack();
        let above = group(&stack, GroupId::ROOT, 10);
        let users: Vec<_> = (0..2)
            .map(|_| {
                let (stack, id) = (stack.clone(), group(&stack, above, 8));
                thread::spawn(move || {
                    let mut charged = 0;
                    for frames in [5, 3, 4] {
                        match stack.groups.charge(id, frames) {
                            Ok(()) => charged += frames,
                            Err(limited) => assert!(limited == id || limited == above),
                        }
                        assert!(stack.groups.at(id).used() <= 8);
                        assert!(stack.groups.at(above).used() <= 10);
                    }
                    stack.groups.uncharge(id, charged);
                    assert_eq!(stack.groups.at(id).used(), 0);
                    id
                })
            })
            .collect();
        for user in users {
            assert!(stack.end_group(user.join().expect("no limit was passed")));
        }
        assert_eq!(stack.groups.at(above).used(), 0);
        end(os, &stack);
    });
}
