//! Stack use of the shared object, from its machine code: the maximum number of bytes that each
//! exported function may take on any path. The test `stack` measures paths that run.
//!
//! A frame is the sum of pushes and changes of the stack pointer. Calls are followed if the code
//! names the target; [`INDIRECT`] has the targets of the others. Code that runs on a stack of
//! Quarry's own (`quarry_sys::own_stack`) does not use the caller's, so it is not counted. Neither
//! is code that reports a broken invariant, because it ends the process.

use crate::support::{DEFAULT_SLAB, full_library, library, slab_policy};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use object::{Object, ObjectSection, ObjectSymbol};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes that a function of the C library is assumed to need. Functions that need more (the loader,
/// `pthread_create`) are called on a stack of Quarry's own.
const OF_LIBRARY: u64 = 128;

/// Maximum number of bytes of stack for an exported function on any path, under any option. The
/// last entry whose text begins the function's name applies. The aim for all is 1.5 KiB.
const LIMITS: [(&str, u64); 19] = [
    // C and C++. Functions that do not allocate take about 2 KiB at most.
    ("", 2112),
    ("malloc", 2432),
    ("calloc", 2432),
    ("realloc", 2432),
    ("mallocx", 2432),
    ("rallocx", 2432),
    ("aligned_alloc", 2432),
    ("memalign", 2432),
    ("posix_memalign", 2432),
    ("valloc", 2432),
    ("pvalloc", 2432),
    ("_Zn", 2432),
    // Caches, pages, limits.
    ("quarry_", 2560),
    ("quarry_cache_destroy", 4352),
    ("quarry_reclaim", 4096),
    ("quarry_limit_wait", 4224),
    // The page cache.
    ("quarry_page_", 6208),
    ("quarry_mapping_", 6400),
    ("quarry_page_dirty", 1536),
];

/// Functions that end the process, and the switch to another stack.
const NOT_FOLLOWED: [&str; 10] = [
    // Called only before the C library has started, on the loader's stack.
    "12each_of_file",
    "panic",
    "unwrap_failed",
    "expect_failed",
    "slice_index_fail",
    "slice_error_fail",
    "6report5fatal",
    "6report5abort",
    "13entered_again",
    "rust_begin_unwind",
];

/// The targets of indirect calls: a part of the caller's name, and a part of the targets' names.
/// The first entry that matches applies.
const INDIRECT: [(&str, &str); 7] = [
    ("9make_room", "9take_back"),
    ("11serve_again", "16alloc_on_process28_"),
    ("ZoneRef$GT$3put", "drain..Drain"),
    ("ZoneRef$GT$4take", "drain..Drain"),
    ("8take_run", "drain..Drain"),
    ("12take_singles", "drain..Drain"),
    ("", "os..system..Os$GT$"),
];

/// The stack use of a function: all numbers are bytes below its caller's stack pointer, including
/// the return address.
#[derive(Default)]
struct Function {
    name: String,
    deepest: u64,
    calls: Vec<(u64, Target)>,
}

#[derive(Clone, Copy)]
enum Target {
    Function(u64),
    Library,
    Unknown,
}

/// The functions of the shared object, by their addresses.
struct Program(BTreeMap<u64, Function>);

impl Program {
    fn read(path: &Path) -> Self {
        let bytes = fs::read(path).expect("the library can be read");
        let file = object::File::parse(&*bytes).expect("the library is an object file");
        // The debug link of a stripped library names the file with its symbols.
        let link = file.gnu_debuglink().expect("the library is whole");
        let debug = link.map(|(name, _)| path.with_file_name(OsStr::from_bytes(name)));
        let debug = fs::read(debug.as_deref().unwrap_or(path)).expect("symbols lie beside it");
        let symbols = object::File::parse(&*debug).expect("symbols are in an object file");
        let mut starts = BTreeMap::new();
        for symbol in symbols.symbols().filter(|symbol| symbol.kind() == object::SymbolKind::Text) {
            let name = symbol.name().unwrap_or_default().to_owned();
            starts.insert(symbol.address(), (name, symbol.size()));
        }
        let mut functions = BTreeMap::new();
        for section in file
            .sections()
            .filter(|section| section.name().is_ok_and(|name| name.starts_with(".text")))
        {
            let (base, code) = (section.address(), section.data().expect("it is in the file"));
            for (start, (name, size)) in starts.range(base..base + code.len() as u64) {
                let offset = (start - base) as usize;
                let code = &code[offset..(offset + *size as usize).min(code.len())];
                let function = Walk::through(*start, code).into_function(name.clone());
                functions.insert(*start, function);
            }
        }
        Self(functions)
    }

    /// The functions that the library exports, by its list.
    fn entries(&self) -> impl Iterator<Item = (u64, &'static str)> {
        let lists = [include_str!("../abi.txt"), include_str!("../abi-full.txt")];
        let lines = lists.into_iter().flat_map(str::lines).map(str::trim);
        lines.filter_map(|line| {
            let found = self.0.iter().find(|(_, function)| function.name == line)?;
            Some((*found.0, line))
        })
    }
}

/// A walk through the code of one function.
struct Walk {
    instructions: BTreeMap<u64, Instruction>,
    /// Bytes on the stack before each instruction.
    depths: HashMap<u64, i64>,
    end: u64,
    start: u64,
    deepest: i64,
    calls: Vec<(u64, Target)>,
}

impl Walk {
    fn through(start: u64, code: &[u8]) -> Self {
        let decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
        let instructions = decoder.into_iter().map(|found| (found.ip(), found)).collect();
        let end = start + code.len() as u64;
        let (depths, calls) = (HashMap::new(), Vec::new());
        let mut walk = Self { instructions, depths, end, start, deepest: 8, calls };
        let mut open = vec![(start, 8, None)];
        let mut jumps_by_table = None;
        loop {
            while let Some((at, depth, frame)) = open.pop() {
                walk.follow((at, depth, frame), &mut open, &mut jumps_by_table);
            }
            // Code that only a jump table reaches has the stack depth of the jump.
            let Some((depth, frame)) = jumps_by_table else { break };
            let unseen = walk.instructions.iter().find(|(at, found)| {
                let is_filling = matches!(found.mnemonic(), Mnemonic::Int3 | Mnemonic::Nop);
                !walk.depths.contains_key(at) && !is_filling
            });
            let Some((at, _)) = unseen else { break };
            open.push((*at, depth, frame));
        }
        walk
    }

    /// Follows the code from `at` on, while `depth` bytes are on the stack. The frame pointer holds
    /// the stack pointer of the moment when `frame` bytes were on the stack.
    fn follow(
        &mut self,
        (mut at, mut depth, mut frame): (u64, i64, Option<i64>),
        open: &mut Vec<(u64, i64, Option<i64>)>,
        jumps_by_table: &mut Option<(i64, Option<i64>)>,
    ) {
        while let Some(instruction) = self.instructions.get(&at).copied() {
            if self.depths.insert(at, depth).is_some() {
                return;
            }
            change(&instruction, &mut depth, &mut frame);
            self.deepest = self.deepest.max(depth);
            let is_direct = instruction.op0_kind() == OpKind::NearBranch64;
            let target = instruction.near_branch_target();
            match instruction.flow_control() {
                FlowControl::Call | FlowControl::IndirectCall => {
                    self.calls.push((depth as u64, call(&instruction, is_direct)));
                }
                FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
                    if (self.start..self.end).contains(&target) {
                        open.push((target, depth, frame));
                    } else {
                        self.calls.push((depth as u64 - 8, Target::Function(target)));
                    }
                    if instruction.flow_control() == FlowControl::UnconditionalBranch {
                        return;
                    }
                }
                FlowControl::IndirectBranch if instruction.is_ip_rel_memory_operand() => {
                    return self.calls.push((depth as u64 - 8, Target::Library));
                }
                FlowControl::IndirectBranch => return *jumps_by_table = Some((depth, frame)),
                FlowControl::Next => {}
                _ => return,
            }
            at = instruction.next_ip();
        }
    }

    fn into_function(self, name: String) -> Function {
        Function { name, deepest: self.deepest as u64, calls: self.calls }
    }
}

fn call(instruction: &Instruction, is_direct: bool) -> Target {
    match instruction.op0_kind() {
        _ if is_direct => Target::Function(instruction.near_branch_target()),
        OpKind::Memory if instruction.is_ip_rel_memory_operand() => Target::Library,
        // The register holds the address of a C library function that is called often.
        OpKind::Register => Target::Library,
        _ => Target::Unknown,
    }
}

/// The effect of an instruction, except a call, on the depth of the stack.
fn change(instruction: &Instruction, depth: &mut i64, frame: &mut Option<i64>) {
    let is_of = |operand, register| {
        instruction.op_kind(operand) == OpKind::Register
            && instruction.op_register(operand) == register
    };
    let to_stack = instruction.op_count() > 0 && is_of(0, Register::RSP);
    match instruction.mnemonic() {
        Mnemonic::Call | Mnemonic::Ret => {}
        Mnemonic::Sub if to_stack => *depth += instruction.immediate(1) as i64,
        Mnemonic::Add if to_stack => *depth -= instruction.immediate(1) as i64,
        Mnemonic::And if to_stack => *depth += -(instruction.immediate(1) as i64) - 1,
        Mnemonic::Lea if to_stack => {
            let offset = instruction.memory_displacement64() as i64;
            match instruction.memory_base() {
                Register::RBP => *depth = frame.unwrap_or(*depth) - offset,
                _ => *depth -= offset,
            }
        }
        Mnemonic::Mov if to_stack => *depth = frame.unwrap_or(*depth),
        Mnemonic::Mov if is_of(0, Register::RBP) && is_of(1, Register::RSP) => {
            *frame = Some(*depth);
        }
        Mnemonic::Leave => *depth = frame.unwrap_or(*depth) - 8,
        _ => *depth -= i64::from(instruction.stack_pointer_increment()),
    }
}

/// The stack that functions need, computed once for each.
struct Needs<'a> {
    program: &'a Program,
    known: HashMap<u64, (u64, Option<u64>)>,
    open: BTreeSet<u64>,
}

impl<'a> Needs<'a> {
    fn of(program: &'a Program) -> Self {
        Self { program, known: HashMap::new(), open: BTreeSet::new() }
    }

    /// Bytes that the function at `address` needs below its caller's stack pointer. Functions that
    /// call each other recursively are counted once.
    fn need(&mut self, address: u64) -> u64 {
        if let Some((need, _)) = self.known.get(&address) {
            return *need;
        }
        let Some(function) = self.program.0.get(&address) else { return OF_LIBRARY };
        if NOT_FOLLOWED.iter().any(|part| function.name.contains(part))
            || !self.open.insert(address)
        {
            return 0;
        }
        let (mut most, mut by) = (function.deepest, None);
        for (depth, target) in &function.calls {
            for (need, callee) in self.targets(&function.name, *target) {
                if depth + need > most {
                    (most, by) = (depth + need, callee);
                }
            }
        }
        self.open.remove(&address);
        self.known.insert(address, (most, by));
        most
    }

    fn targets(&mut self, caller: &str, target: Target) -> Vec<(u64, Option<u64>)> {
        match target {
            Target::Function(callee) => vec![(self.need(callee), Some(callee))],
            Target::Library => vec![(OF_LIBRARY, None)],
            Target::Unknown => {
                let line = INDIRECT.iter().find(|(of, _)| caller.contains(of));
                let (_, part) = line.expect("the last line fits");
                let program = self.program;
                let meant = program.0.iter().filter(|(_, target)| target.name.contains(part));
                meant.map(|(callee, _)| (self.need(*callee), Some(*callee))).collect()
            }
        }
    }

    /// The chain of calls by which a function needs most stack.
    fn chain(&self, address: u64) -> String {
        let (mut text, mut at) = (String::new(), Some(address));
        while let Some(address) = at {
            let Some(function) = self.program.0.get(&address) else { break };
            text += &format!("\n  {:6} {}", function.deepest, function.name);
            at = self.known.get(&address).and_then(|(_, by)| *by);
        }
        text
    }
}

#[test]
fn no_entry_takes_more_than_its_limit() {
    let library = library().expect("the library is under test");
    if slab_policy(library) != DEFAULT_SLAB {
        return;
    }
    entries_stay_within_their_limits(library, 30);
    entries_stay_within_their_limits(full_library().expect("it lies beside the other"), 60);
}

fn entries_stay_within_their_limits(library: &Path, least: u32) {
    let program = Program::read(library);
    let mut needs = Needs::of(&program);
    let (mut beyond, mut checked) = (String::new(), 0);
    for (address, entry) in program.entries() {
        let mut limits = LIMITS.iter().rev();
        let line = limits.find(|(start, _)| entry.starts_with(start));
        let (_, limit) = line.expect("the first line fits");
        let need = needs.need(address);
        println!("{entry}: {need} bytes, the limit is {limit}");
        if need > *limit {
            beyond += &format!("{entry}: {need} bytes, the limit is {limit}:");
            beyond += &needs.chain(address);
            beyond.push('\n');
        }
        checked += 1;
    }
    assert!(checked > least, "{checked} entries");
    assert!(beyond.is_empty(), "frames, from the entry down:\n{beyond}");
}

#[test]
fn frames_are_added_up_as_documented() {
    // push rbp; mov rbp, rsp; sub rsp, 0x20; call +0; test eax, eax; je +2; leave; ret;
    // leave; jmp far away
    let code = [
        0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20, 0xe8, 0, 0, 0, 0, 0x85, 0xc0, 0x74, 0x02,
        0xc9, 0xc3, 0xc9, 0xe9, 0, 0x10, 0, 0,
    ];
    let function = Walk::through(0x1000, &code).into_function(String::new());
    assert_eq!(function.deepest, 8 + 8 + 0x20);
    let calls: Vec<_> = function.calls.iter().map(|(depth, _)| *depth).collect();
    assert_eq!(calls, [0x30, 0], "a jump to another function leaves nothing behind");
}
