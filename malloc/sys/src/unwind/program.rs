//! Runs the programs in `.eh_frame`, which compute the rule for a code address (DWARF 5, 6.4).
//!
//! A [`Run`] computes only the caller's stack and frame pointers, and whether a caller exists. If a
//! program needs more than a [`Rule`] can express, the rule is [`Unknown`](Base::Unknown).

use super::reader::Reader;
use super::rule::{Base, Rule, Saved};

/// Numbers of registers (System V ABI, AMD64 supplement 1.0, figure 3.36).
const FRAME_POINTER: u64 = 6;
const STACK_POINTER: u64 = 7;
const RETURN_ADDRESS: u64 = 16;

/// Maximum number of states that a program may have saved (`remember_state`) at a time.
const REMEMBERED: usize = 4;

#[derive(Clone, Copy)]
struct State {
    base: Base,
    offset: i64,
    saved: Saved,
    /// False if the return address or frame pointer is saved in a way that no rule expresses.
    is_usual: bool,
}

#[derive(Clone, Copy)]
pub(super) struct Scales {
    pub(super) code: u64,
    pub(super) data: i64,
    /// The encoding of code addresses.
    pub(super) pointers: u8,
}

/// A run of a function's program, up to one address of its code.
pub(super) struct Run {
    state: State,
    initial: State,
    remembered: [State; REMEMBERED],
    depth: usize,
    scales: Scales,
}

impl Run {
    pub(super) fn new(scales: Scales) -> Self {
        let state = State { base: Base::Unknown, offset: 0, saved: Saved::Same, is_usual: true };
        Self { state, initial: state, remembered: [state; REMEMBERED], depth: 0, scales }
    }

    /// Makes the present state the initial state of a function.
    pub(super) fn begin_function(&mut self) {
        self.initial = self.state;
    }

    pub(super) fn rule(&self) -> Rule {
        let State { base, offset, saved, is_usual } = self.state;
        match i32::try_from(offset) {
            _ if base == Base::Outermost => Rule::of(base),
            Ok(offset) if is_usual => Rule { base, offset, saved },
            _ => Rule::of(Base::Unknown),
        }
    }

    /// Runs `program`, which describes code from `at` on, up to the state at `code`. `None` where
    /// the program is malformed.
    pub(super) fn go(&mut self, mut program: Reader, mut at: usize, code: usize) -> Option<()> {
        while let Some(step) = program.byte() {
            let low = u64::from(step & 0x3f);
            let advanced = match step {
                0x40..=0x7f => low,
                0x02 => program.byte()?.into(),
                0x03 => program.half()?.into(),
                0x04 => program.word()?.into(),
                0x01 => (program.pointer(self.scales.pointers)?.wrapping_sub(at)) as u64,
                _ => {
                    self.step(step, low, &mut program)?;
                    continue;
                }
            };
            let scale = if step == 0x01 { 1 } else { self.scales.code };
            at = at.checked_add(advanced.checked_mul(scale)? as usize)?;
            if at > code {
                return Some(());
            }
        }
        Some(())
    }

    fn step(&mut self, step: u8, low: u64, program: &mut Reader) -> Option<()> {
        let data = self.scales.data;
        match step {
            // nop
            0x00 => {}
            // offset
            0x80..=0xbf => self.save(low, program.number()? as i64 * data),
            // restore
            0xc0..=0xff => self.restore(low),
            // offset_extended, its signed form, and GNU's negative form
            0x05 => self.save(program.number()?, program.number()? as i64 * data),
            0x11 => self.save(program.number()?, program.signed()? * data),
            0x2f => self.save(program.number()?, -(program.number()? as i64) * data),
            // restore_extended
            0x06 => self.restore(program.number()?),
            // undefined: for the return address, it means that the function has no caller
            0x07 => {
                if program.number()? == RETURN_ADDRESS {
                    self.state.base = Base::Outermost
                }
            }
            // same_value
            0x08 => {
                if program.number()? == FRAME_POINTER {
                    self.state.saved = Saved::Same
                }
            }
            // remember_state, restore_state
            0x0a => {
                *self.remembered.get_mut(self.depth)? = self.state;
                self.depth += 1;
            }
            0x0b => {
                self.depth = self.depth.checked_sub(1)?;
                self.state = self.remembered[self.depth];
            }
            // GNU_args_size
            0x2e => _ = program.number()?,
            0x0c..=0x0f | 0x12 | 0x13 => self.define(step, program)?,
            0x09 | 0x10 | 0x14..=0x16 => self.save_unusually(step, program)?,
            _ => return None,
        }
        Some(())
    }

    /// Executes the instructions that define the caller's stack pointer.
    fn define(&mut self, step: u8, program: &mut Reader) -> Option<()> {
        if step == 0x0f {
            // An expression, which compilers write for a function that aligns its stack: load the
            // word at an offset from the frame pointer.
            let mut expression = program.block()?;
            (self.state.base, self.state.offset) = match offset_from_frame(&mut expression) {
                Some(offset) if expression.byte() == Some(0x06) && expression.byte().is_none() => {
                    (Base::AtFrame, offset)
                }
                _ => (Base::Unknown, 0),
            };
            return Some(());
        }
        if matches!(step, 0x0c | 0x0d | 0x12) {
            self.state.base = match program.number()? {
                STACK_POINTER => Base::Stack,
                FRAME_POINTER => Base::Frame,
                _ => Base::Unknown,
            };
        }
        match step {
            0x0c | 0x0e => self.state.offset = program.number()? as i64,
            0x12 | 0x13 => self.state.offset = program.signed()? * self.scales.data,
            _ => {}
        }
        Some(())
    }

    fn save(&mut self, register: u64, offset: i64) {
        match (register, i16::try_from(offset)) {
            (RETURN_ADDRESS, _) => self.state.is_usual = offset == -8,
            (FRAME_POINTER, Ok(offset)) => self.state.saved = Saved::At(offset),
            (FRAME_POINTER, Err(_)) => self.state.is_usual = false,
            _ => {}
        }
    }

    fn restore(&mut self, register: u64) {
        match register {
            RETURN_ADDRESS => self.state.is_usual = self.initial.is_usual,
            FRAME_POINTER => self.state.saved = self.initial.saved,
            _ => {}
        }
    }

    /// Executes the instructions that save a register in a way that rules seldom express: in
    /// another register, by an expression, or as a value.
    fn save_unusually(&mut self, step: u8, program: &mut Reader) -> Option<()> {
        let register = program.number()?;
        let mut saved = None;
        match step {
            0x10 | 0x16 => {
                let mut expression = program.block()?;
                if step == 0x10 && register == FRAME_POINTER {
                    let offset = offset_from_frame(&mut expression);
                    saved = offset.filter(|_| expression.byte().is_none());
                }
            }
            0x15 => _ = program.signed()?,
            _ => _ = program.number()?,
        }
        match (register, saved.and_then(|offset| i16::try_from(offset).ok())) {
            (FRAME_POINTER, Some(offset)) => self.state.saved = Saved::AtFrame(offset),
            (FRAME_POINTER | RETURN_ADDRESS, _) => self.state.is_usual = false,
            _ => {}
        }
        Some(())
    }
}

/// The offset of an expression that begins with an offset from the frame pointer (`DW_OP_breg6`).
fn offset_from_frame(expression: &mut Reader) -> Option<i64> {
    (expression.byte()? == 0x76).then(|| expression.signed()).flatten()
}
