//! The restartable sequences in the shared object, instruction by instruction: those written in
//! assembler and those that the compiler inlined.
//!
//! `malloc/sys/tests/slots` interrupts the sequences of `quarry_sys` at each instruction. Sequences
//! that are part of entry points are only in this library.

use crate::support::library;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register,
};
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;

/// Bytes of a `struct rseq_cs`: version, flags, start, length, address of the abort handler.
const DESCRIPTOR: u64 = 32;

/// The range of a sequence, from its descriptor, and the place where a restart begins.
#[derive(Debug)]
struct Sequence {
    /// From the instruction at which a restart begins, which arms the descriptor, to the end.
    armed: Range<u64>,
    /// The address of the first instruction for which the kernel restarts the sequence.
    start: u64,
}

/// The shared object, read as a file.
struct Library {
    bytes: Vec<u8>,
}

impl Library {
    fn read() -> Self {
        let path = library().expect("the library is under test");
        Self { bytes: fs::read(path).expect("the library can be read") }
    }

    fn file(&self) -> object::File<'_> {
        object::File::parse(&*self.bytes).expect("the library is an object file")
    }

    fn instruction_at(&self, address: u64) -> Instruction {
        let file = self.file();
        let holds = |section: &object::Section<'_, '_>| {
            (section.address()..section.address() + section.size()).contains(&address)
        };
        let section = file.sections().find(holds);
        let section = section.unwrap_or_else(|| panic!("no section holds {address:#x}"));
        let code = section.data().expect("it is in the file");
        let code = &code[(address - section.address()) as usize..];
        let instruction = Decoder::with_ip(64, code, address, DecoderOptions::NONE).decode();
        assert!(!instruction.is_invalid(), "no instruction at {address:#x}");
        instruction
    }

    /// The first conditional branch of the code at an address.
    fn first_branch_after(&self, address: u64) -> Instruction {
        let next = |it: &Instruction| Some(self.instruction_at(it.next_ip()));
        let mut all = std::iter::successors(Some(self.instruction_at(address)), next);
        let is_branch = |it: &Instruction| it.flow_control() == FlowControl::ConditionalBranch;
        all.by_ref().take(6).find(is_branch).expect("an abort handler starts its sequence again")
    }

    fn instructions(&self, range: Range<u64>) -> Vec<Instruction> {
        let (mut instructions, mut at) = (Vec::new(), range.start);
        while at < range.end {
            let instruction = self.instruction_at(at);
            at = instruction.next_ip();
            instructions.push(instruction);
        }
        assert_eq!(at, range.end, "a sequence ends between two instructions");
        instructions
    }

    /// All sequences, from their descriptors.
    fn sequences(&self) -> Vec<Sequence> {
        let file = self.file();
        let section = file.section_by_name("__rseq_cs").expect("the library has sequences");
        let descriptors = section.address()..section.address() + section.size();
        let data = section.data().expect("descriptors are in the file");
        let relocations = file.dynamic_relocations().expect("the library is position-independent");
        let addresses: BTreeMap<u64, u64> = relocations
            .filter(|(at, relocation)| {
                descriptors.contains(at) && relocation.target() == RelocationTarget::Absolute
            })
            .map(|(at, relocation)| (at, relocation.addend() as u64))
            .collect();
        let sequence = |at: u64| {
            let offset = (at - descriptors.start) as usize;
            let length = u64::from_le_bytes(data[offset + 16..offset + 24].try_into().unwrap());
            let (start, abort) = (addresses[&(at + 8)], addresses[&(at + 24)]);
            let again = self.instruction_at(abort).near_branch_target();
            let restart = self.first_branch_after(again).near_branch_target();
            Sequence { armed: restart..start + length, start }
        };
        descriptors.clone().step_by(DESCRIPTOR as usize).map(sequence).collect()
    }

    /// The sequences inside an exported function.
    fn sequences_of(&self, name: &str) -> Vec<Sequence> {
        let file = self.file();
        let symbol = file.dynamic_symbols().find(|symbol| symbol.name() == Ok(name));
        let symbol = symbol.unwrap_or_else(|| panic!("{name} is exported"));
        let code = symbol.address()..symbol.address() + symbol.size();
        let sequences = self.sequences().into_iter();
        sequences.filter(|sequence| code.contains(&sequence.start)).collect()
    }
}

/// The registers that instructions read before they write them, and the registers that they write.
fn inputs_and_outputs(instructions: &[Instruction]) -> (BTreeSet<Register>, BTreeSet<Register>) {
    let (mut inputs, mut outputs) = (BTreeSet::new(), BTreeSet::new());
    let mut factory = InstructionInfoFactory::new();
    for instruction in instructions {
        let used = factory.info(instruction).used_registers().to_vec();
        let used = used.iter().filter(|used| used.register().is_gpr());
        let full = used.map(|used| (used.register().full_register(), used.access()));
        let (reads, writes): (Vec<_>, Vec<_>) = (
            full.clone().filter(|(_, access)| reads(*access)).collect(),
            full.filter(|(_, access)| writes(*access)).collect(),
        );
        inputs.extend(reads.iter().map(|read| read.0).filter(|read| !outputs.contains(read)));
        outputs.extend(writes.iter().map(|written| written.0));
    }
    (inputs, outputs)
}

fn reads(access: OpAccess) -> bool {
    use OpAccess as A;
    matches!(access, A::Read | A::CondRead | A::ReadWrite | A::ReadCondWrite)
}

fn writes(access: OpAccess) -> bool {
    use OpAccess as A;
    matches!(access, A::Write | A::CondWrite | A::ReadWrite | A::ReadCondWrite)
}

/// The kernel restarts a sequence without restoring registers, so a sequence must keep its inputs.
#[test]
fn sequences_never_write_what_they_are_given() {
    let library = Library::read();
    let sequences = library.sequences();
    assert!(sequences.len() >= 10, "{} descriptors", sequences.len());
    for sequence in sequences {
        let instructions = library.instructions(sequence.armed.clone());
        let (inputs, outputs) = inputs_and_outputs(&instructions);
        let both: Vec<_> = inputs.intersection(&outputs).collect();
        assert!(both.is_empty(), "{both:?} in the sequence at {:x?}", sequence.armed);
    }
}

/// Returns whether a sequence only loads: a walk, which commits nothing.
fn is_walk(sequence: &[Instruction]) -> bool {
    let mut factory = InstructionInfoFactory::new();
    sequence.iter().all(|instruction| {
        let memory = factory.info(instruction).used_memory();
        memory.iter().all(|used| !writes(used.access()))
    })
}

/// Returns whether a sequence loads and commits its word through one plain register.
fn commits_through_one_plain_register(sequence: &[Instruction]) -> bool {
    let Some((commit, before)) = sequence.split_last() else { return false };
    let is_plain_store = commit.mnemonic() == Mnemonic::Mov
        && commit.op0_kind() == OpKind::Memory
        && commit.memory_index() == Register::None;
    // Either the word is changed by a value computed from it, or a given value is stored after the
    // old one was compared.
    let (_, written) = inputs_and_outputs(before);
    let is_given = !written.contains(&commit.op1_register().full_register());
    let is_load_of_the_same = |load: &Instruction| {
        let is_compared = load.mnemonic() == Mnemonic::Cmp && load.op0_kind() == OpKind::Register;
        let is_wanted = load.op0_register() == commit.op1_register() || (is_given && is_compared);
        load.op1_kind() == OpKind::Memory
            && load.memory_base() == commit.memory_base()
            && load.memory_index() == Register::None
            && load.memory_displacement64() == commit.memory_displacement64()
            && is_wanted
    };
    is_plain_store && before.iter().any(is_load_of_the_same)
}

/// The next call on the same cell loads the word that this one stores. Some processors forward the
/// store early only if neither address has an index register: on an Intel Xeon of family 6, model
/// 207, a pair of one size takes 17 cycles instead of 29.
#[test]
fn committed_words_are_loaded_and_stored_through_one_plain_register() {
    let library = Library::read();
    for sequence in library.sequences() {
        let instructions = library.instructions(sequence.start..sequence.armed.end);
        if is_walk(&instructions) {
            continue;
        }
        assert!(
            commits_through_one_plain_register(&instructions),
            "the sequence at {:x?} commits otherwise",
            sequence.armed
        );
    }
}

#[test]
fn fast_paths_have_sequences_of_their_own() {
    let library = Library::read();
    for name in ["malloc", "free", "calloc", "_Znwm"] {
        assert!(!library.sequences_of(name).is_empty(), "{name} calls somebody for it");
    }
}

#[test]
fn a_commit_through_an_index_is_found() {
    let is_good = |bytes: &[u8]| {
        let decoder = Decoder::new(64, bytes, DecoderOptions::NONE);
        commits_through_one_plain_register(&decoder.into_iter().collect::<Vec<_>>())
    };
    // mov r9, [r11]; mov [r11], r9
    assert!(is_good(&[0x4d, 0x8b, 0x0b, 0x4d, 0x89, 0x0b]));
    // cmp rax, [r11]; mov [r11], r9
    assert!(is_good(&[0x49, 0x3b, 0x03, 0x4d, 0x89, 0x0b]));
    // mov r9, [r8 + rcx]; mov [r8 + rcx], r9
    assert!(!is_good(&[0x4d, 0x8b, 0x0c, 0x08, 0x4d, 0x89, 0x0c, 0x08]));
    // mov r9, [r11]; mov [r11 + 8], r9
    assert!(!is_good(&[0x4d, 0x8b, 0x0b, 0x4d, 0x89, 0x4b, 0x08]));
}

#[test]
fn a_store_is_found_and_a_walk_has_none() {
    let is_walk_of = |bytes: &[u8]| {
        is_walk(&Decoder::new(64, bytes, DecoderOptions::NONE).into_iter().collect::<Vec<_>>())
    };
    // mov r9, [r11]; mov r9, [r9 + rcx*8]
    assert!(is_walk_of(&[0x4d, 0x8b, 0x0b, 0x4d, 0x8b, 0x0c, 0xc9]));
    // mov r9, [r11]; inc qword ptr [r11]
    assert!(!is_walk_of(&[0x4d, 0x8b, 0x0b, 0x49, 0xff, 0x03]));
}

#[test]
fn a_sequence_that_writes_its_operand_is_found() {
    // lea r8, [rip]; add rcx, r8; mov r9, [rcx]
    let bytes = [0x4c, 0x8d, 0x05, 0, 0, 0, 0, 0x4c, 0x01, 0xc1, 0x4c, 0x8b, 0x09];
    let instructions: Vec<_> = Decoder::new(64, &bytes, DecoderOptions::NONE).iter().collect();
    let (inputs, outputs) = inputs_and_outputs(&instructions);
    assert_eq!(inputs, BTreeSet::from([Register::RCX]));
    assert_eq!(outputs, BTreeSet::from([Register::RCX, Register::R8, Register::R9]));
}
