//! Runs the instructions of one warp, in lock step as far as its lanes agree.
//!
//! Lanes that branch apart become *fragments*, each with its own position. The fragment furthest behind runs first and
//! fragments that reach the same instruction merge, so lanes meet again where their paths do.

use crate::access::Cx;
use crate::block::{Block, Core};
use crate::error::{FaultKind, RawFault};
use crate::opcode::{Copies, Members, Run};
use crate::program::{Inst, Special};
use crate::regs::{FULL, LANES, Regs, Row};

/// Lanes that are at the same instruction.
#[derive(Debug, Clone, Copy)]
struct Fragment {
    pc: usize,
    mask: u32,
    /// At a `.sync` instruction, until others come.
    waits: bool,
}

/// Why a warp stopped running for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    /// All lanes have exited.
    Finished,
    /// Its turn is over.
    Preempted,
    /// It waits at this barrier, for so many threads in all if the instruction says.
    Barrier { id: u32, threads: Option<u32> },
}

/// A fault and the instruction that made it.
pub(crate) struct WarpFault {
    pub(crate) raw: Box<RawFault>,
    pub(crate) pc: usize,
}

pub(crate) struct Warp {
    pub(crate) core: Core,
    fragments: Vec<Fragment>,
}

/// What happens after an instruction.
enum Next {
    Go(usize),
    /// The fragments have changed.
    Reschedule,
    Pause(Pause),
}

impl Warp {
    pub(crate) fn new(id: usize, block: &Block<'_>) -> Self {
        let kernel = block.kernel;
        let sizes = kernel.registers;
        let core = Core {
            id,
            regs: Regs::new(sizes.narrow, sizes.wide, sizes.preds),
            alive: 0,
            exited: 0,
            local: vec![0; kernel.local_bytes as usize * LANES],
            copies: Copies::default(),
        };
        Self { core, fragments: Vec::new() }
    }

    /// Makes ready for a block: `index` of `grid`, with blocks of `shape` threads.
    pub(crate) fn reset(&mut self, block: &Block<'_>, index: [u32; 3], grid: [u32; 3], shape: [u32; 3]) {
        let core = &mut self.core;
        let threads = shape.iter().product::<u32>() as usize;
        let first = core.id * LANES;
        core.alive = FULL >> (LANES - (threads - first).min(LANES));
        core.exited = 0;
        core.copies.clear();
        self.fragments.clear();
        self.fragments.push(Fragment { pc: 0, mask: core.alive, waits: false });
        let presets = &block.kernel.presets;
        for &(reg, value) in &presets.narrow {
            core.regs.set::<u32>(reg, FULL, &[value; LANES]);
        }
        for &(reg, value) in &presets.wide {
            core.regs.set::<u64>(reg, FULL, &[value; LANES]);
        }
        for &(reg, value) in &presets.preds {
            core.regs.set_pred(reg, FULL, if value { FULL } else { 0 });
        }
        for &(reg, special) in &presets.specials {
            let values: Row<u32> = std::array::from_fn(|lane| {
                let thread = (first + lane) as u32;
                let tid = [thread % shape[0], thread / shape[0] % shape[1], thread / shape[0] / shape[1]];
                let lane = lane as u32;
                match special {
                    Special::Tid(axis) => tid[axis],
                    Special::Ntid(axis) => shape[axis],
                    Special::Ctaid(axis) => index[axis],
                    Special::Nctaid(axis) => grid[axis],
                    Special::Laneid => lane,
                    Special::Warpid => core.id as u32,
                    Special::Nwarpid => threads.div_ceil(LANES) as u32,
                    Special::LanemaskEq => 1 << lane,
                    Special::LanemaskLt => (1 << lane) - 1,
                    Special::LanemaskLe => FULL >> (31 - lane),
                    Special::LanemaskGe => FULL << lane,
                    Special::LanemaskGt => FULL << lane << 1,
                }
            });
            core.regs.set::<u32>(reg, FULL, &values);
        }
    }

    /// The lowest position of the warp, for messages.
    pub(crate) fn position(&self) -> usize {
        self.fragments.iter().map(|fragment| fragment.pc).min().unwrap_or(0)
    }

    /// Runs until the warp pauses or has executed about `turn` instructions.
    pub(crate) fn run(&mut self, block: &mut Block<'_>, turn: u64) -> Result<Pause, WarpFault> {
        let mut left = turn;
        loop {
            self.merge();
            if self.fragments.is_empty() {
                return Ok(Pause::Finished);
            }
            let Some(current) = self.furthest_behind() else {
                return Err(self.deadlock());
            };
            if let Some(pause) = self.run_fragment(block, current, &mut left)? {
                return Ok(pause);
            }
        }
    }

    fn merge(&mut self) {
        let mut index = 0;
        while index < self.fragments.len() {
            let pc = self.fragments[index].pc;
            let mut other = index + 1;
            while other < self.fragments.len() {
                if self.fragments[other].pc == pc {
                    let merged = self.fragments.swap_remove(other);
                    self.fragments[index].mask |= merged.mask;
                    self.fragments[index].waits = false;
                } else {
                    other += 1;
                }
            }
            index += 1;
        }
    }

    fn furthest_behind(&self) -> Option<usize> {
        let runnable = self.fragments.iter().enumerate().filter(|(_, fragment)| !fragment.waits);
        runnable.min_by_key(|(_, fragment)| fragment.pc).map(|(index, _)| index)
    }

    #[cold]
    fn deadlock(&self) -> WarpFault {
        let lines =
            self.fragments.iter().map(|fragment| format!("{:#010x} at instruction {}", fragment.mask, fragment.pc));
        let message = format!(
            "a .sync instruction waits for lanes that never come; lanes {}",
            lines.collect::<Vec<_>>().join(", ")
        );
        WarpFault { raw: RawFault::of_warp(FaultKind::DivergentSync, message), pc: self.position() }
    }

    /// Runs one fragment until it meets another or the fragments change.
    fn run_fragment(
        &mut self,
        block: &mut Block<'_>,
        index: usize,
        left: &mut u64,
    ) -> Result<Option<Pause>, WarpFault> {
        let code = &block.kernel.code;
        let Fragment { mut pc, mask, .. } = self.fragments[index];
        let others = self.fragments.iter().enumerate().filter(|&(other, _)| other != index);
        let meeting = others.map(|(_, fragment)| fragment.pc).min().unwrap_or(usize::MAX);
        let mut executed = 0;
        let result = loop {
            if pc >= meeting && executed > 0 {
                self.fragments[index].pc = pc;
                break Ok(None);
            }
            let inst = &code[pc];
            executed += 1;
            let active = match inst.guard {
                None => mask,
                Some(guard) => mask & (self.core.regs.pred(guard.pred) ^ if guard.negated { FULL } else { 0 }),
            };
            if let Run::Lanes(run) = inst.run {
                if active != 0 {
                    run.run(&mut self.core.regs, &inst.args, active);
                }
                pc += 1;
                continue;
            }
            match self.step(block, inst, index, pc, active) {
                Ok(Next::Go(to)) => {
                    if to <= pc && executed >= *left {
                        self.fragments[index].pc = to;
                        break Ok(Some(Pause::Preempted));
                    }
                    pc = to;
                }
                Ok(Next::Reschedule) => break Ok(None),
                Ok(Next::Pause(pause)) => break Ok(Some(pause)),
                Err(raw) => break Err(WarpFault { raw, pc }),
            }
        };
        *left = left.saturating_sub(executed);
        block.stats.warp_instructions += executed;
        block.stats.lane_instructions += executed * u64::from(mask.count_ones());
        result
    }

    /// Executes one instruction that is not confined to registers.
    fn step(
        &mut self,
        block: &mut Block<'_>,
        inst: &Inst,
        index: usize,
        pc: usize,
        active: u32,
    ) -> Result<Next, Box<RawFault>> {
        let mask = self.fragments[index].mask;
        let next = pc + 1;
        match inst.run {
            _ if active == 0 => Ok(Next::Go(next)),
            Run::Lanes(run) => {
                run.run(&mut self.core.regs, &inst.args, active);
                Ok(Next::Go(next))
            }
            Run::Access(run) => {
                run.run(&mut Cx { core: &mut self.core, block, pc: pc as u32 }, &inst.args, active)?;
                Ok(Next::Go(next))
            }
            Run::Branch => {
                let target = inst.args.target as usize;
                if active == mask {
                    return Ok(Next::Go(target));
                }
                block.stats.divergent_branches += 1;
                self.fragments[index] = Fragment { pc: next, mask: mask & !active, waits: false };
                self.fragments.push(Fragment { pc: target, mask: active, waits: false });
                Ok(Next::Reschedule)
            }
            Run::Exit => {
                self.core.exited |= active;
                // Whoever waits for lanes that are gone must look again.
                for fragment in &mut self.fragments {
                    fragment.waits = false;
                }
                if active == mask {
                    self.fragments.swap_remove(index);
                } else {
                    self.fragments[index] = Fragment { pc: next, mask: mask & !active, waits: false };
                }
                Ok(Next::Reschedule)
            }
            Run::Collective(members, run) => {
                let expected = self.expected(inst, members, active)?;
                if active != expected {
                    return Ok(self.wait(index, pc, active));
                }
                run.run(&mut Cx { core: &mut self.core, block, pc: pc as u32 }, &inst.args, active)?;
                Ok(Next::Go(next))
            }
            Run::Barrier => {
                if active != self.core.alive & !self.core.exited {
                    return Ok(self.wait(index, pc, active));
                }
                self.fragments[index].pc = next;
                let [id, threads] = inst.args.imm;
                let threads = (threads != 0).then_some(threads as u32);
                Ok(Next::Pause(Pause::Barrier { id: id as u32, threads }))
            }
        }
    }

    /// The lanes in `active` wait for others; those whose predicate is off go on.
    fn wait(&mut self, index: usize, pc: usize, active: u32) -> Next {
        let rest = self.fragments[index].mask & !active;
        self.fragments[index] = Fragment { pc, mask: active, waits: true };
        if rest != 0 {
            self.fragments.push(Fragment { pc: pc + 1, mask: rest, waits: false });
        }
        Next::Reschedule
    }

    /// The lanes that must execute a collective instruction together.
    fn expected(&self, inst: &Inst, members: Members, active: u32) -> Result<u32, Box<RawFault>> {
        let fault = |message: String| Err(RawFault::of_warp(FaultKind::MemberMask, message));
        match members {
            Members::Warp { full } => {
                let running = self.core.alive & !self.core.exited;
                if full && running != FULL {
                    return fault(format!("the instruction needs a whole warp, but only lanes {running:#010x} run"));
                }
                Ok(running)
            }
            Members::Operand(at) => {
                let named = self.core.regs.lane::<u32>(inst.args.r[at], active.trailing_zeros() as usize);
                let gone = named & !(self.core.alive & !self.core.exited);
                if gone != 0 {
                    return fault(format!("member mask {named:#010x} names lanes {gone:#010x}, which have exited"));
                }
                if active & !named != 0 {
                    return fault(format!(
                        "member mask {named:#010x} leaves out executing lanes {:#010x}",
                        active & !named
                    ));
                }
                Ok(named)
            }
        }
    }
}
