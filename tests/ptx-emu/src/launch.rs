//! Launching a kernel: limits, blocks, barriers.

use crate::block::Block;
use crate::error::{Fault, FaultKind, LaunchError, RawFault};
use crate::memory::Memory;
use crate::module::Module;
use crate::options::{Options, Schedule};
use crate::program::Kernel;
use crate::random::Random;
use crate::regs::LANES;
use crate::stats::Stats;
use crate::warp::{Pause, Warp, WarpFault};

const MAX_THREADS: u32 = 1024;
const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65535, 65535];
/// Shared memory that a block gets without asking.
const DEFAULT_SHARED: u32 = 48 << 10;
/// Shared memory of a block on `sm_80` after opting in.
const MAX_SHARED: u32 = 163 << 10;
/// Instructions of a warp's turn when turns are in order: long, but finite, so that a warp may wait for another.
const TURN: u64 = 100_000;

/// Shape of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Blocks along x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory per block.
    pub dynamic_shared: u32,
    /// The kernel's `MAX_DYNAMIC_SHARED_SIZE_BYTES` attribute, if it was set. Without it static and dynamic shared memory
    /// together may not exceed 48 KiB; with it they may reach 163 KiB.
    pub max_dynamic_shared: Option<u32>,
}

impl LaunchConfig {
    /// A launch without dynamic shared memory.
    #[must_use]
    pub fn new(grid: [u32; 3], block: [u32; 3]) -> Self {
        Self { grid, block, dynamic_shared: 0, max_dynamic_shared: None }
    }

    /// With `bytes` of dynamic shared memory.
    #[must_use]
    pub fn dynamic_shared(self, bytes: u32) -> Self {
        Self { dynamic_shared: bytes, ..self }
    }

    /// With the kernel opted in to `bytes` of dynamic shared memory.
    #[must_use]
    pub fn max_dynamic_shared(self, bytes: u32) -> Self {
        Self { max_dynamic_shared: Some(bytes), ..self }
    }

    fn threads(&self) -> u64 {
        self.block.iter().map(|&extent| u64::from(extent)).product()
    }

    /// Which limit the launch exceeds.
    fn problem(&self, kernel: &Kernel, params: &[u8]) -> Option<String> {
        let Self { grid, block, dynamic_shared, .. } = *self;
        let outside = |extents: [u32; 3], max: [u32; 3]| extents.iter().zip(max).any(|(&n, max)| n == 0 || n > max);
        if outside(grid, MAX_GRID) {
            return Some(format!("grid {grid:?} is outside 1..={MAX_GRID:?}"));
        }
        if outside(block, MAX_BLOCK) || self.threads() > u64::from(MAX_THREADS) {
            return Some(format!("block {block:?} is outside 1..={MAX_BLOCK:?} or above {MAX_THREADS} threads"));
        }
        if let Some(required) = kernel.limits.required.filter(|&required| required != block) {
            return Some(format!("block {block:?}, but the kernel was compiled for exactly {required:?}"));
        }
        let compiled_for = kernel.max_threads();
        if self.threads() > u64::from(compiled_for) {
            return Some(format!("{} threads, but the kernel was compiled for at most {compiled_for}", self.threads()));
        }
        let fixed = kernel.static_shared_bytes();
        let free = match self.max_dynamic_shared {
            None => DEFAULT_SHARED.saturating_sub(fixed),
            Some(opted) => opted.min(MAX_SHARED.saturating_sub(fixed)),
        };
        if dynamic_shared > free {
            let hint = if self.max_dynamic_shared.is_none() { " without MAX_DYNAMIC_SHARED_SIZE_BYTES" } else { "" };
            return Some(format!(
                "{dynamic_shared} bytes of dynamic shared memory with {fixed} static ones; {free} are allowed{hint}"
            ));
        }
        let wanted = kernel.param_bytes();
        (params.len() != wanted).then(|| format!("{} bytes of parameters, but the kernel takes {wanted}", params.len()))
    }
}

/// Says whether [`launch`] would refuse these arguments, and runs nothing.
pub fn check_launch(module: &Module, kernel: &str, config: &LaunchConfig, params: &[u8]) -> Result<(), LaunchError> {
    accepted(module, kernel, config, params).map(drop)
}

/// The kernel, if it takes these arguments.
fn accepted<'a>(
    module: &'a Module,
    kernel: &str,
    config: &LaunchConfig,
    params: &[u8],
) -> Result<&'a Kernel, LaunchError> {
    let kernel = module.kernel(kernel).ok_or_else(|| LaunchError::NoSuchKernel(kernel.to_owned()))?;
    match config.problem(kernel, params) {
        Some(reason) => Err(LaunchError::Configuration { kernel: kernel.name.clone(), reason }),
        None => Ok(kernel),
    }
}

/// Runs `kernel` to its end.
///
/// `params` is the parameter buffer as [`Kernel::params`] describes it; [`Params`](crate::Params) builds one. On an error
/// memory keeps what the kernel had written.
pub fn launch(
    module: &Module,
    kernel: &str,
    config: &LaunchConfig,
    params: &[u8],
    memory: &mut Memory,
    options: &Options,
) -> Result<Stats, LaunchError> {
    let kernel = accepted(module, kernel, config, params)?;
    let shared = kernel.dynamic_start.max(kernel.static_shared) + config.dynamic_shared;
    let warps = config.threads().div_ceil(LANES as u64) as usize;
    let mut block = Block::new(kernel, params, options, memory, shared as usize, warps);
    let mut warps: Vec<_> = (0..warps).map(|id| Warp::new(id, &block)).collect();
    let mut turns = Turns::new(options.schedule);
    block.memory.begin_launch();
    for number in turns.blocks(config.grid) {
        let [x, y, _] = config.grid.map(u64::from);
        let index = [(number % x) as u32, (number / x % y) as u32, (number / x / y) as u32];
        block.reset(index);
        for warp in &mut warps {
            warp.reset(&block, index, config.grid, config.block);
        }
        run_block(&mut block, &mut warps, &mut turns)
            .map_err(|(warp, fault)| LaunchError::Fault(Box::new(describe(kernel, options, index, warp, fault))))?;
    }
    Ok(block.stats)
}

fn describe(kernel: &Kernel, options: &Options, block: [u32; 3], warp: usize, fault: WarpFault) -> Fault {
    let site = &kernel.sites[fault.pc.min(kernel.sites.len() - 1)];
    Fault {
        kind: fault.raw.kind,
        message: fault.raw.message,
        kernel: kernel.name.clone(),
        source: kernel.source(fault.pc),
        ptx_line: site.line,
        instruction: site.text.clone(),
        block,
        warp: warp as u32,
        lane: fault.raw.lane,
        seed: match options.schedule {
            Schedule::InOrder => None,
            Schedule::Random(seed) => Some(seed),
        },
    }
}

/// Who runs next, and for how long.
struct Turns {
    random: Option<Random>,
}

impl Turns {
    fn new(schedule: Schedule) -> Self {
        let random = match schedule {
            Schedule::InOrder => None,
            Schedule::Random(seed) => Some(Random::new(seed)),
        };
        Self { random }
    }

    /// The numbers of all blocks of `grid`.
    fn blocks(&mut self, grid: [u32; 3]) -> Box<dyn Iterator<Item = u64>> {
        let count = grid.iter().map(|&extent| u64::from(extent)).product();
        match &mut self.random {
            None => Box::new(0..count),
            Some(random) => {
                let mut numbers: Vec<_> = (0..count).collect();
                random.shuffle(&mut numbers);
                Box::new(numbers.into_iter())
            }
        }
    }

    fn warps(&mut self, order: &mut [usize]) {
        if let Some(random) = &mut self.random {
            random.shuffle(order);
        }
    }

    fn length(&mut self) -> u64 {
        self.random.as_mut().map_or(TURN, |random| 1 + random.below(64))
    }
}

/// Runs a block's warps in turns until all have finished. An error names the warp.
fn run_block(block: &mut Block<'_>, warps: &mut [Warp], turns: &mut Turns) -> Result<(), (usize, WarpFault)> {
    // What each warp waits for; `Preempted` is ready to run.
    let mut states = vec![Pause::Preempted; warps.len()];
    let mut order: Vec<_> = (0..warps.len()).collect();
    while states.iter().any(|&state| state != Pause::Finished) {
        turns.warps(&mut order);
        for &id in &order {
            if states[id] != Pause::Preempted {
                continue;
            }
            states[id] = warps[id].run(block, turns.length()).map_err(|fault| (id, fault))?;
            if block.stats.warp_instructions > block.options.budget {
                let message = format!(
                    "more than {} instructions: an endless loop, or a wait for a block that runs later",
                    block.options.budget
                );
                return Err((id, fault_at(FaultKind::Budget, message, warps[id].position())));
            }
        }
        release(block, &mut states).map_err(|(id, message)| {
            // The warp has stepped past the barrier already.
            (id, fault_at(FaultKind::Barrier, message, warps[id].position().saturating_sub(1)))
        })?;
    }
    Ok(())
}

fn fault_at(kind: FaultKind, message: String, pc: usize) -> WarpFault {
    WarpFault { raw: RawFault::of_warp(kind, message), pc }
}

/// Lets the warps go whose barrier is complete. An error names a warp that waits in vain.
fn release(block: &mut Block<'_>, states: &mut [Pause]) -> Result<(), (usize, String)> {
    let unfinished = states.iter().filter(|&&state| state != Pause::Finished).count();
    let waiting: Vec<_> = states
        .iter()
        .enumerate()
        .filter_map(|(warp, &state)| match state {
            Pause::Barrier { id, threads } => Some((warp, id, threads)),
            _ => None,
        })
        .collect();
    let mut released = false;
    for id in 0..16 {
        let here: Vec<_> = waiting.iter().filter(|&&(_, barrier, _)| barrier == id).collect();
        let Some(&&(first, _, threads)) = here.first() else { continue };
        if let Some(&&(warp, _, other)) = here.iter().find(|&&&(_, _, other)| other != threads) {
            let count = |threads: Option<u32>| threads.map_or("all".to_owned(), |threads| threads.to_string());
            return Err((
                warp,
                format!(
                    "barrier {id} for {} threads, but warp {first} waits at it for {}",
                    count(other),
                    count(threads)
                ),
            ));
        }
        let expected = threads.map_or(unfinished, |threads| threads as usize / LANES);
        if here.len() > expected {
            return Err((first, format!("{} warps at barrier {id}, which is for {expected}", here.len())));
        }
        if here.len() == expected {
            block.meet(here.iter().fold(0, |members, &&(warp, ..)| members | 1 << warp));
            for &&(warp, ..) in &here {
                states[warp] = Pause::Preempted;
            }
            released = true;
        }
    }
    if !released
        && waiting.len() == unfinished
        && let Some(&(warp, id, _)) = waiting.first()
    {
        let here = waiting.iter().filter(|&&(_, barrier, _)| barrier == id).count();
        return Err((
            warp,
            format!(
                "barrier {id} is never complete: {here} warps wait at it, the others at other barriers or not at all"
            ),
        ));
    }
    Ok(())
}
