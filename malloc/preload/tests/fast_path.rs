//! Budgets of the fast paths: a change that makes a path longer must raise a number here.
//!
//! A fast path begins at the entry of a function, takes no conditional jump, follows unconditional
//! jumps and calls, and ends where the function returns. Nearly every call in a running program
//! takes it. The test counts instructions, loads and stores of memory (including the stack's by
//! `call`, `ret`, `push` and `pop`), branches of every kind, and locked read-modify-writes.

use crate::support::library;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
};
use object::{Object, ObjectSection, ObjectSymbol};
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;

/// Instructions after which the test assumes that a path is a loop.
const LONGEST: u32 = 1000;

/// Counts of the parts of a path; as a budget, the most that it may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Makeup {
    instructions: u32,
    loads: u32,
    stores: u32,
    branches: u32,
    locked: u32,
}

/// The budget of each path. Lower a number when its path gets shorter; raise one only with a
/// measurement, in the commit message, of what was gained.
const BUDGETS: &[(&str, Makeup)] = &[
    ("malloc", Makeup { instructions: 26, loads: 11, stores: 2, branches: 4, locked: 0 }),
    ("free", Makeup { instructions: 41, loads: 16, stores: 3, branches: 8, locked: 0 }),
    // operator new(std::size_t)
    ("_Znwm", Makeup { instructions: 26, loads: 11, stores: 2, branches: 4, locked: 0 }),
    // operator delete(void*, std::size_t)
    ("_ZdlPvm", Makeup { instructions: 46, loads: 18, stores: 3, branches: 9, locked: 0 }),
    // up to 64 bytes
    ("calloc", Makeup { instructions: 53, loads: 14, stores: 9, branches: 9, locked: 0 }),
    // of an object that stays in place
    ("realloc", Makeup { instructions: 34, loads: 9, stores: 0, branches: 6, locked: 0 }),
    (
        "malloc_usable_size",
        Makeup { instructions: 58, loads: 18, stores: 0, branches: 10, locked: 0 },
    ),
];

impl Makeup {
    fn figures(&self) -> [(&'static str, u32); 5] {
        [
            ("instructions", self.instructions),
            ("loads", self.loads),
            ("stores", self.stores),
            ("branches", self.branches),
            ("locked read-modify-writes", self.locked),
        ]
    }

    fn add(&mut self, instruction: &Instruction, info: &mut InstructionInfoFactory) {
        self.instructions += 1;
        let accesses = info.info(instruction).used_memory().iter();
        let (mut loads, mut stores) = (0, 0);
        for (reads, writes) in accesses.map(|memory| loads_and_stores(memory.access())) {
            loads += reads;
            stores += writes;
        }
        self.loads += loads;
        self.stores += stores;
        self.branches += u32::from(instruction.flow_control() != FlowControl::Next);
        // An `xchg` with memory is locked even without the prefix.
        let exchanges = instruction.mnemonic() == Mnemonic::Xchg && stores > 0;
        self.locked += u32::from(instruction.has_lock_prefix() || exchanges);
    }
}

/// The number of loads and stores in one access to memory.
fn loads_and_stores(access: OpAccess) -> (u32, u32) {
    match access {
        OpAccess::Read | OpAccess::CondRead => (1, 0),
        OpAccess::Write | OpAccess::CondWrite => (0, 1),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => (1, 1),
        OpAccess::None | OpAccess::NoMemAccess => (0, 0),
    }
}

impl fmt::Display for Makeup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.figures().map(|(name, count)| format!("{count} {name}"));
        f.write_str(&parts.join(", "))
    }
}

/// Machine code, and the address at which it is loaded.
struct Code<'a> {
    bytes: &'a [u8],
    address: u64,
}

impl Code<'_> {
    fn instruction_at(&self, address: u64) -> Result<Instruction, String> {
        let offset = address.checked_sub(self.address).map(|offset| offset as usize);
        let rest = offset.and_then(|offset| self.bytes.get(offset..));
        let rest = rest.filter(|rest| !rest.is_empty());
        let rest = rest.ok_or_else(|| format!("{address:#x} is outside of the code"))?;
        let instruction = Decoder::with_ip(64, rest, address, DecoderOptions::NONE).decode();
        if instruction.is_invalid() {
            return Err(format!("no instruction at {address:#x}"));
        }
        Ok(instruction)
    }

    /// Follows the fast path from `entry`, and counts.
    fn fast_path(&self, entry: u64) -> Result<Makeup, String> {
        let (mut path, mut info) = (Makeup::default(), InstructionInfoFactory::new());
        let (mut at, mut returns) = (entry, Vec::new());
        while path.instructions < LONGEST {
            let instruction = self.instruction_at(at)?;
            path.add(&instruction, &mut info);
            at = match instruction.flow_control() {
                FlowControl::Next | FlowControl::ConditionalBranch => instruction.next_ip(),
                FlowControl::UnconditionalBranch => instruction.near_branch_target(),
                FlowControl::Call => {
                    returns.push(instruction.next_ip());
                    instruction.near_branch_target()
                }
                FlowControl::Return => match returns.pop() {
                    Some(caller) => caller,
                    None => return Ok(path),
                },
                other => return Err(format!("{other:?} at {at:#x}: the path leads elsewhere")),
            };
        }
        Err(format!("the path from {entry:#x} does not end"))
    }
}

/// The names of the counts that exceed their budget.
fn excess(path: &Makeup, budget: &Makeup) -> Vec<String> {
    let pairs = path.figures().into_iter().zip(budget.figures());
    pairs
        .filter(|((_, found), (_, most))| found > most)
        .map(|((name, found), (_, most))| format!("{found} {name}, the budget is {most}"))
        .collect()
}

#[test]
fn fast_paths_stay_within_their_budgets() {
    let library = library().expect("the library is under test");
    let bytes = fs::read(library).expect("the library can be read");
    let file = object::File::parse(&*bytes).expect("the library is an object file");
    let section = file.section_by_name(".text").expect("the library has code");
    let code =
        Code { bytes: section.data().expect("it is in the file"), address: section.address() };
    let mut breaches = Vec::new();
    for (name, budget) in BUDGETS {
        let symbol = file.dynamic_symbols().find(|symbol| symbol.name() == Ok(name));
        let entry = symbol.unwrap_or_else(|| panic!("{name} is exported")).address();
        let path = code.fast_path(entry).unwrap_or_else(|error| panic!("{name}: {error}"));
        println!("{name}: {path}");
        breaches.extend(excess(&path, budget).iter().map(|what| format!("{name}: {what}")));
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

/// Parts of the names of functions that nearly every program calls.
const OFTEN: [&str; 9] = [
    "7process5build",
    "16alloc_on_process",
    "14alloc_of_cache",
    "14refill_and_pop",
    "8take_run",
    "13take_fallback",
    "10add_frames",
    "11note_mapped",
    "Zones$GT$4grow",
];

/// A page fault reads 64 KiB of a file, so functions that all programs call are side by side.
#[test]
fn functions_that_are_called_often_lie_together() {
    let library = library().expect("the library is under test");
    let bytes = fs::read(library).expect("it can be read");
    let file = object::File::parse(&*bytes).expect("the library is an object file");
    let section = file.section_by_name(".text").expect("the library has code");
    // The debug link of a stripped library names the file with its symbols.
    let link = file.gnu_debuglink().expect("the library is whole");
    let debug = link.map(|(name, _)| library.with_file_name(OsStr::from_bytes(name)));
    let debug = fs::read(debug.as_deref().unwrap_or(library)).expect("symbols lie beside it");
    let symbols = object::File::parse(&*debug).expect("symbols are in an object file");
    let often = section.address()..section.address() + (128 << 10);
    let exported = BUDGETS.iter().map(|(name, _)| {
        let symbol = file.dynamic_symbols().find(|symbol| symbol.name() == Ok(name));
        symbol.unwrap_or_else(|| panic!("{name} is exported"))
    });
    let slow = symbols.symbols().filter(|symbol| {
        let name = symbol.name().unwrap_or_default();
        OFTEN.iter().any(|part| name.contains(part))
    });
    let (mut checked, mut all) = (0, exported.chain(slow));
    for symbol in &mut all {
        let (name, address) = (symbol.name().unwrap_or_default(), symbol.address());
        assert!(often.contains(&address), "{name} lies at {address:#x}, outside of {often:x?}");
        checked += 1;
    }
    assert!(checked >= BUDGETS.len() + OFTEN.len(), "a name fits no function any more");
}

#[test]
fn paths_are_counted_as_documented() {
    // mov rax, [rdi]; test rax, rax; je +0x7f; lock inc qword [rdi]; call +2; jmp +1; int3; ret;
    // ret. Not on the path: int3. The call leads to the first ret, the jmp to the last.
    let bytes = [
        0x48, 0x8b, 0x07, 0x48, 0x85, 0xc0, 0x74, 0x7f, 0xf0, 0x48, 0xff, 0x07, 0xe8, 0x02, 0x00,
        0x00, 0x00, 0xeb, 0x01, 0xc3, 0xc3,
    ];
    let code = Code { bytes: &bytes, address: 0x1000 };
    let path = code.fast_path(0x1000).unwrap();
    let expected = Makeup { instructions: 8, loads: 4, stores: 2, branches: 5, locked: 1 };
    assert_eq!(path, expected);
    assert_eq!(excess(&path, &expected), Vec::<String>::new());
    let tighter = Makeup { stores: 1, locked: 0, ..expected };
    let words = ["2 stores, the budget is 1", "1 locked read-modify-writes, the budget is 0"];
    assert_eq!(excess(&path, &tighter), words);
    assert!(code.fast_path(0x2000).unwrap_err().contains("outside of the code"));
    let endless = Code { bytes: &[0xeb, 0xfe], address: 0 };
    assert!(endless.fast_path(0).unwrap_err().contains("does not end"));
}
