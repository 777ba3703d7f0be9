//! Register allocation: compilers name thousands of registers, of which few hold a value at a time.
//!
//! A row of a register file is 128 or 256 bytes, one value per lane. Registers whose lives do not overlap get one row, so
//! that those of a large kernel stay in the cache. A lane has its own column, and its life follows its own path through
//! the code; so what is decided for one thread holds for a warp whose lanes are apart.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::opcode::Run;
use crate::program::{Inst, Kernel, Reg};

/// Which register file an operand is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum File {
    Narrow,
    Wide,
    Pred,
}

/// How an instruction uses one of its operands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    /// Index into [`Args::r`](crate::program::Args::r).
    pub(crate) operand: usize,
    pub(crate) file: File,
    pub(crate) written: bool,
}

/// Gives the registers of `kernel` new numbers, as few as their lives allow; `uses` has one entry per instruction.
/// Predicates, which are a word each, keep theirs, and so does every register that is filled before a block runs.
pub(crate) fn allocate(kernel: &mut Kernel, uses: &[Vec<Use>]) {
    let presets = &kernel.presets;
    let narrow = presets.narrow.iter().map(|&(reg, _)| reg).chain(presets.specials.iter().map(|&(reg, _)| reg));
    let narrow = File::Narrow.assign(kernel, uses, kernel.registers.narrow, narrow);
    let wide = presets.wide.iter().map(|&(reg, _)| reg);
    let wide = File::Wide.assign(kernel, uses, kernel.registers.wide, wide);
    for (inst, uses) in kernel.code.iter_mut().zip(uses) {
        for operand in uses {
            let reg = &mut inst.args.r[operand.operand];
            match operand.file {
                File::Narrow => *reg = narrow.rows[usize::from(*reg)],
                File::Wide => *reg = wide.rows[usize::from(*reg)],
                File::Pred => {}
            }
        }
    }
    let presets = &mut kernel.presets;
    for (reg, _) in &mut presets.narrow {
        *reg = narrow.rows[usize::from(*reg)];
    }
    for (reg, _) in &mut presets.specials {
        *reg = narrow.rows[usize::from(*reg)];
    }
    for (reg, _) in &mut presets.wide {
        *reg = wide.rows[usize::from(*reg)];
    }
    kernel.registers.narrow = narrow.count;
    kernel.registers.wide = wide.count;
}

/// The row of each register, and how many rows there are.
struct Assignment {
    rows: Vec<Reg>,
    count: usize,
}

/// The first and the last instruction at which a register holds a value that matters, or is written.
type Life = Option<(usize, usize)>;

impl File {
    fn assign(
        self,
        kernel: &Kernel,
        uses: &[Vec<Use>],
        registers: usize,
        filled: impl Iterator<Item = Reg>,
    ) -> Assignment {
        let mut lives = self.lives(&kernel.code, uses, registers);
        let mut rows = vec![0; registers];
        let mut count = 0;
        for reg in filled.map(usize::from) {
            lives[reg] = None;
            rows[reg] = count as Reg;
            count += 1;
        }
        let mut order: Vec<_> =
            lives.iter().enumerate().filter_map(|(reg, life)| life.map(|(first, last)| (first, last, reg))).collect();
        order.sort_unstable();
        let (mut held, mut free) = (BinaryHeap::new(), Vec::new());
        for (first, last, reg) in order {
            while let Some(&Reverse((end, row))) = held.peek()
                && end < first
            {
                held.pop();
                free.push(row);
            }
            let row = free.pop().unwrap_or_else(|| {
                count += 1;
                count - 1
            });
            rows[reg] = row as Reg;
            held.push(Reverse((last, row)));
        }
        Assignment { rows, count }
    }

    fn lives(self, code: &[Inst], uses: &[Vec<Use>], registers: usize) -> Vec<Life> {
        let blocks = blocks(code);
        let words = registers.div_ceil(64);
        // What a block reads of what was there before, and what it replaces whatever happens.
        let mut needs = vec![vec![0_u64; words]; blocks.len()];
        let mut kills = vec![vec![0_u64; words]; blocks.len()];
        let mut lives: Vec<Life> = vec![None; registers];
        let of_file = |operand: &&Use| operand.file == self;
        for ((block, needs), kills) in blocks.iter().zip(&mut needs).zip(&mut kills) {
            for at in (block.first..=block.last).rev() {
                let reg = |operand: &Use| usize::from(code[at].args.r[operand.operand]);
                for operand in uses[at].iter().filter(of_file) {
                    extend(&mut lives[reg(operand)], at);
                    // With a guard, lanes that are off keep what they have.
                    if operand.written && code[at].guard.is_none() {
                        set(kills, reg(operand), true);
                        set(needs, reg(operand), false);
                    }
                }
                for operand in uses[at].iter().filter(of_file).filter(|operand| !operand.written) {
                    set(needs, reg(operand), true);
                }
            }
        }
        let mut live_in = needs;
        let mut live_out = vec![vec![0_u64; words]; blocks.len()];
        let mut changed = true;
        while changed {
            changed = false;
            for index in (0..blocks.len()).rev() {
                for &next in &blocks[index].next {
                    for word in 0..words {
                        live_out[index][word] |= live_in[next][word];
                    }
                }
                for word in 0..words {
                    let through = live_out[index][word] & !kills[index][word];
                    changed |= through & !live_in[index][word] != 0;
                    live_in[index][word] |= through;
                }
            }
        }
        for ((block, live_in), live_out) in blocks.iter().zip(&live_in).zip(&live_out) {
            members(live_in).for_each(|reg| extend(&mut lives[reg], block.first));
            members(live_out).for_each(|reg| extend(&mut lives[reg], block.last));
        }
        lives
    }
}

/// Instructions without a branch between them.
struct Block {
    first: usize,
    last: usize,
    /// Blocks that may come next.
    next: Vec<usize>,
}

fn blocks(code: &[Inst]) -> Vec<Block> {
    let mut starts = vec![false; code.len() + 1];
    starts[0] = true;
    for (at, inst) in code.iter().enumerate() {
        match inst.run {
            Run::Branch => {
                starts[inst.args.target as usize] = true;
                starts[at + 1] = true;
            }
            Run::Exit => starts[at + 1] = true,
            _ => {}
        }
    }
    let firsts: Vec<_> = (0..code.len()).filter(|&at| starts[at]).collect();
    let block_at = |at: usize| firsts.partition_point(|&first| first <= at) - 1;
    let ends = firsts.iter().skip(1).copied().chain([code.len()]);
    firsts
        .iter()
        .zip(ends)
        .map(|(&first, end)| {
            let inst = &code[end - 1];
            let mut next = Vec::new();
            if matches!(inst.run, Run::Branch) {
                next.push(block_at(inst.args.target as usize));
            }
            let leaves = matches!(inst.run, Run::Branch | Run::Exit) && inst.guard.is_none();
            if !leaves && end < code.len() {
                next.push(block_at(end));
            }
            Block { first, last: end - 1, next }
        })
        .collect()
}

fn extend(life: &mut Life, at: usize) {
    *life = Some(life.map_or((at, at), |(first, last)| (first.min(at), last.max(at))));
}

fn set(bits: &mut [u64], index: usize, value: bool) {
    let bit = 1 << (index % 64);
    if value {
        bits[index / 64] |= bit;
    } else {
        bits[index / 64] &= !bit;
    }
}

fn members(bits: &[u64]) -> impl Iterator<Item = usize> {
    bits.iter()
        .enumerate()
        .flat_map(|(word, &bits)| (0..64).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| word * 64 + bit))
}

#[cfg(test)]
mod tests {
    use crate::{Memory, Module};

    /// Rows of the 32-bit and of the 64-bit file of a kernel with this body.
    fn rows(body: &str) -> (usize, usize) {
        let ptx = format!(
            ".version 9.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 p) {{\n.reg .pred %p;\n\
             .reg .b32 %r<40>;\n.reg .b64 %d<40>;\n{body}\nret;\n}}"
        );
        let module = Module::load(&ptx, &mut Memory::default()).unwrap();
        let sizes = module.kernel("k").unwrap().registers;
        (sizes.narrow, sizes.wide)
    }

    #[test]
    fn a_chain_needs_two_rows_and_a_constant_its_own() {
        let chain: Vec<_> = (1..30).map(|i| format!("add.s32 %r{i}, %r{}, 7;", i - 1)).collect();
        assert_eq!(rows(&chain.join("\n")), (3, 0));
        let wide: Vec<_> = (1..30).map(|i| format!("add.s64 %d{i}, %d{}, %d{};", i - 1, i - 1)).collect();
        assert_eq!(rows(&wide.join("\n")), (0, 2));
    }

    #[test]
    fn what_a_loop_needs_lives_through_it() {
        // %r1 is read in every turn, so %r4, whose life begins after that and ends before the next, has a row of its own.
        let body = "mov.b32 %r1, %r2;\nmov.b32 %r3, %r2;\nL:\nadd.s32 %r3, %r3, %r1;\nmov.b32 %r4, %r3;\n\
                    setp.lt.s32 %p, %r4, %r2;\n@%p bra L;\nmov.b32 %r5, %r2;";
        assert_eq!(rows(body).0, 4);
    }

    #[test]
    fn a_guarded_write_keeps_what_was_there() {
        // Where %p is off, %r2 has what the last turn left in it, and %r4 must leave that alone.
        let body = |guard: &str| {
            format!(
                "L:\nmov.b32 %r4, %r1;\nsetp.lt.s32 %p, %r4, %r1;\n{guard} mov.b32 %r2, %r1;\n\
                 setp.lt.s32 %p, %r2, %r1;\n@%p bra L;"
            )
        };
        assert_eq!((rows(&body("@%p")).0, rows(&body("")).0), (3, 2));
    }
}
