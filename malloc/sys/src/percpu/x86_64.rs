//! The restartable sequences of x86-64, for `rseq`: the object fast path.
//!
//! `assembly` has the shape and the rules of sequences, and the text of those that are also part of
//! `malloc` and `free`. A committing sequence falls through. A refusing sequence jumps to a label
//! operand, or if it has a result (then Rust allows no label operand) to its label 6, out of line.

/// The exit of a sequence that has a result and refuses: it returns the null object.
macro_rules! nothing {
    () => {
        "6: xor {r:e}, {r:e}\n jmp 7f\n"
    };
}

/// Copies `{n}` objects in pairs, an odd one first. Copying them one by one takes twice the time.
macro_rules! copy_objects {
    ($from:literal, $to:literal) => {
        concat!(
            "xor {o:e}, {o:e}\n",
            "test {n:e}, 1\n",
            "jz 8f\n",
            "mov {x}, qword ptr [",
            $from,
            "]\n",
            "mov qword ptr [",
            $to,
            "], {x}\n",
            "inc {o:e}\n",
            "8: cmp {o:e}, {n:e}\n",
            "jae 4f\n",
            "9: movups {pair}, xmmword ptr [",
            $from,
            " + {o}*8]\n",
            "movups xmmword ptr [",
            $to,
            " + {o}*8], {pair}\n",
            "add {o:e}, 2\n",
            "cmp {o:e}, {n:e}\n",
            "jb 9b\n",
            "4:",
        )
    };
}

/// Begins a sequence, with the operands that all sequences here share.
macro_rules! enter {
    ($leave:literal) => {
        $crate::enter_sequence!(
            rseq: [rseq], index: [index], slots: "{slots}", slot: [t], leave: $leave
        )
    };
}

/// Ends a sequence that began by `enter!`.
macro_rules! end {
    ($leave:literal, $out_of_line:expr) => {
        $crate::end_sequence!(slot: [t], leave: $leave, out_of_line: $out_of_line)
    };
}

/// Turns `c` into the address of the array's cell. Loads the bound at the byte `bound` of the cell
/// into `o`, the header into `h` and the top into `r`.
macro_rules! load_array {
    ($bound:literal) => {
        concat!(
            "lea {c}, [{t} + {cell}]\n",
            "movzx {o:e}, word ptr [{c} + ",
            $bound,
            "]\n",
            "mov {h}, qword ptr [{c}]\n",
            "movzx {r:e}, {h:x}",
        )
    };
}

/// Loads the count of the list at cell `t` into `h` and its head into `r`. Jumps to `duplicate` if
/// the head is `object`.
macro_rules! load_list {
    () => {
        "mov {h}, qword ptr [{t}]\n\
         mov {r}, {h}\n\
         shr {r}, 20\n\
         shl {r}, 4\n\
         cmp {r}, {object}\n\
         je {duplicate}\n\
         and {h:e}, 0xfffff"
    };
}

/// Puts `object` at the head of the list at cell `t`; `h` has the list's count, `r` its old head.
macro_rules! link {
    () => {
        "mov qword ptr [{object}], {r}\n\
         inc {h:e}\n\
         mov {r}, {object}\n\
         shl {r}, 16\n\
         or {h}, {r}\n\
         inc qword ptr [{t} + 24]\n\
         mov qword ptr [{t}], {h}"
    };
}

/// The sequence of a name: its text and the registers that it writes, then the `operands` of its
/// caller, `rseq`.
macro_rules! sequence {
    (pop, $($operands:tt)+) => {
        core::arch::asm!(
            $crate::pop_sequence!(
                rseq: [rseq], index: [index], slots: "{slots}", offset: "{cell}",
                slot: [t], cell: [c], header: [h], begin: [o], top: [r], object: [r],
                leave: "6f", out_of_line: nothing!()
            ),
            "7:",
            t = out(reg) _, c = out(reg) _, h = out(reg) _, o = out(reg) _,
            $($operands)+
        )
    };
    (push, $($operands:tt)+) => {
        core::arch::asm!(
            $crate::push_sequence!(
                rseq: [rseq], index: [index], slots: "{slots}", offset: "{cell}",
                object: [object],
                slot: [t], cell: [c], header: [h], end: [o], top: [r],
                leave: "{refused}", duplicate: "{duplicate}"
            ),
            t = out(reg) _, c = out(reg) _, h = out(reg) _, o = out(reg) _, r = out(reg) _,
            $($operands)+
        )
    };
    (pop_batch, $($operands:tt)+) => {
        core::arch::asm!(
            enter!("{refused}"),
            load_array!("8"),
            "lea {o:e}, [{o} + {r} - 0xffff]",
            "cmp {o:e}, {n:e}",
            "jl {refused}",
            "sub {r:e}, {n:e}",
            "lea {r}, [{t} + {r}*8]",
            copy_objects!("{r}", "{buffer}"),
            "sub {h}, {n}",
            "mov qword ptr [{c}], {h}",
            end!("{refused}", ""),
            t = out(reg) _, c = out(reg) _, h = out(reg) _, o = out(reg) _,
            r = out(reg) _, x = out(reg) _, pair = out(xmm_reg) _,
            $($operands)+
        )
    };
    (push_batch, $($operands:tt)+) => {
        core::arch::asm!(
            enter!("{refused}"),
            load_array!("10"),
            "sub {o}, {r}",
            "cmp {o}, {n}",
            "jl {refused}",
            "lea {r}, [{t} + {r}*8]",
            copy_objects!("{buffer}", "{r}"),
            "add {h}, {n}",
            "mov qword ptr [{c}], {h}",
            end!("{refused}", ""),
            t = out(reg) _, c = out(reg) _, h = out(reg) _, o = out(reg) _,
            r = out(reg) _, x = out(reg) _, pair = out(xmm_reg) _,
            $($operands)+
        )
    };
    (list_pop, $($operands:tt)+) => {
        core::arch::asm!(
            enter!("6f"),
            "add {t}, {cell}",
            "cmp qword ptr [{t} + 8], -1",
            "je 6f",
            "mov {h}, qword ptr [{t}]",
            "mov {r}, {h}",
            "shr {r}, 20",
            "jz 6f",
            "shl {r}, 4",
            "and {h:e}, 0xfffff",
            "dec {h:e}",
            "mov {o}, qword ptr [{r}]",
            "shl {o}, 16",
            "or {h}, {o}",
            "inc qword ptr [{t} + 16]",
            "mov qword ptr [{t}], {h}",
            end!("6f", nothing!()),
            "7:",
            t = out(reg) _, h = out(reg) _, o = out(reg) _,
            $($operands)+
        )
    };
    (list_push, $($operands:tt)+) => {
        core::arch::asm!(
            enter!("{refused}"),
            "add {t}, {cell}",
            "cmp {guard}, qword ptr [{t} + 8]",
            "jne {refused}",
            load_list!(),
            "cmp {h:e}, 0xfffff",
            "je {refused}",
            link!(),
            end!("{refused}", ""),
            t = out(reg) _, h = out(reg) _, r = out(reg) _,
            $($operands)+
        )
    };
    (list_push_below, $($operands:tt)+) => {
        core::arch::asm!(
            enter!("{refused}"),
            "add {t}, {cell}",
            "mov {o:e}, dword ptr [{t} + 8]",
            load_list!(),
            "cmp {h:e}, {o:e}",
            "jge {refused}",
            link!(),
            end!("{refused}", ""),
            t = out(reg) _, h = out(reg) _, r = out(reg) _, o = out(reg) _,
            $($operands)+
        )
    };
    (compare_store, $($operands:tt)+) => {
        core::arch::asm!(
            enter!("{refused}"),
            "cmp {t}, {wanted}",
            "jne {refused}",
            "add {t}, {cell}",
            "cmp qword ptr [{t} + 8], -1",
            "je {refused}",
            "add {t}, {word}",
            "cmp {expected}, qword ptr [{t}]",
            "jne {refused}",
            "mov qword ptr [{t}], {new}",
            end!("{refused}", ""),
            t = out(reg) _,
            $($operands)+
        )
    };
    (walk, $($operands:tt)+) => {
        core::arch::asm!(
            $crate::arm_sequence!(rseq: "{rseq}", slot: "{leaf}", leave: "6f"),
            "mov rcx, qword ptr [{tree}]",
            "mov {place}, {index}",
            "test cl, {is_leaf}",
            "jnz 4f",
            "mov {leaf}, rcx",
            "and {leaf}, {address}",
            "jz 5f",
            "shr {place}, cl",
            "cmp {place}, {last}",
            "ja 6f",
            "add {leaf}, {is_node}",
            "9:",
            "mov {leaf}, qword ptr [{leaf} + {place}*8 - {is_node}]",
            "sub ecx, {level}",
            "mov {place}, {index}",
            "shr {place}, cl",
            "and {place:e}, {last}",
            "test {leaf:l}, {is_node}",
            "jnz 9b",
            $crate::end_sequence!(
                slot: [leaf], leave: "6f",
                out_of_line: "4: mov {leaf}, rcx\n test {index}, {index}\n jz 7f\n \
                              6: xor {leaf:e}, {leaf:e}\n jmp 7f\n"
            ),
            "7:",
            place = out(reg) _, out("rcx") _,
            $($operands)+
        )
    };
}
