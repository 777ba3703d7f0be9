//! A kernel ready to run: names are resolved to register numbers, opcodes to functions.

use std::collections::HashMap;

use crate::check::blocks::Order;
use crate::opcode::Run;
use crate::syntax::{Limits, Place, Position};
use crate::ty::Space;

/// Index into one of the register files.
pub(crate) type Reg = u16;

/// Operands of one instruction, in the order in which they are written; vectors are flattened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Args {
    pub(crate) r: [Reg; 14],
    /// Address offsets and integer constants, in order.
    pub(crate) imm: [i64; 2],
    /// Where a branch goes.
    pub(crate) target: u32,
    /// Bit `i`: `r[i]` is in the 64-bit file.
    pub(crate) wide: u16,
    /// Entries of `r` that are in use.
    pub(crate) operands: usize,
    /// A predicate operand is negated.
    pub(crate) negated: bool,
    /// Which memory is accessed.
    pub(crate) space: Space,
    /// What the access orders.
    pub(crate) order: Order,
}

impl Args {
    #[inline(always)]
    pub(crate) fn is_wide(&self, index: usize) -> bool {
        self.wide >> index & 1 != 0
    }
}

/// `@%p` or `@!%p`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard {
    pub(crate) pred: Reg,
    pub(crate) negated: bool,
}

/// One instruction.
#[derive(Clone, Debug)]
pub(crate) struct Inst {
    pub(crate) run: Run,
    pub(crate) args: Args,
    pub(crate) guard: Option<Guard>,
}

/// Where an instruction comes from.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) line: u32,
    pub(crate) position: Option<Position>,
    pub(crate) text: String,
}

/// A register whose value is known when a block starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    Tid(usize),
    Ntid(usize),
    Ctaid(usize),
    Nctaid(usize),
    Laneid,
    Warpid,
    Nwarpid,
    LanemaskEq,
    LanemaskLe,
    LanemaskLt,
    LanemaskGe,
    LanemaskGt,
}

impl Special {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        if let Some((register, axis)) = name.split_once('.') {
            let axis = ["x", "y", "z"].iter().position(|&a| a == axis)?;
            return match register {
                "%tid" => Some(Self::Tid(axis)),
                "%ntid" => Some(Self::Ntid(axis)),
                "%ctaid" => Some(Self::Ctaid(axis)),
                "%nctaid" => Some(Self::Nctaid(axis)),
                _ => None,
            };
        }
        Some(match name {
            "%laneid" => Self::Laneid,
            "%warpid" => Self::Warpid,
            "%nwarpid" => Self::Nwarpid,
            "%lanemask_eq" => Self::LanemaskEq,
            "%lanemask_le" => Self::LanemaskLe,
            "%lanemask_lt" => Self::LanemaskLt,
            "%lanemask_ge" => Self::LanemaskGe,
            "%lanemask_gt" => Self::LanemaskGt,
            _ => return None,
        })
    }
}

/// Registers that are filled before a block runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Presets {
    pub(crate) narrow: Vec<(Reg, u32)>,
    pub(crate) wide: Vec<(Reg, u64)>,
    pub(crate) preds: Vec<(Reg, bool)>,
    pub(crate) specials: Vec<(Reg, Special)>,
}

/// How many registers of each file a kernel uses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FileSizes {
    pub(crate) narrow: usize,
    pub(crate) wide: usize,
    pub(crate) preds: usize,
}

/// Where a parameter lies in the parameter buffer of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// First byte.
    pub offset: usize,
    /// Length in bytes.
    pub bytes: usize,
}

/// One kernel of a [`Module`](crate::Module).
#[derive(Debug)]
pub struct Kernel {
    pub(crate) name: String,
    pub(crate) params: Vec<Param>,
    pub(crate) limits: Limits,
    pub(crate) code: Vec<Inst>,
    pub(crate) sites: Vec<Site>,
    pub(crate) registers: FileSizes,
    pub(crate) presets: Presets,
    /// Bytes of statically declared shared memory.
    pub(crate) static_shared: u32,
    /// Where dynamic shared memory starts, if the kernel uses it.
    pub(crate) dynamic_start: u32,
    pub(crate) local_bytes: u32,
    /// log2 of the smallest shared access, the unit in which races are tracked.
    pub(crate) granule_shift: u32,
    /// Address ranges of the module's `.const` variables.
    pub(crate) constants: Vec<(u64, u64)>,
    pub(crate) files: HashMap<u32, String>,
    /// Where the code around an inlined call was itself inlined.
    pub(crate) inlined: HashMap<Place, Place>,
}

impl Kernel {
    /// The kernel's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Layout of the parameter buffer, in declaration order.
    #[must_use]
    pub fn params(&self) -> &[Param] {
        &self.params
    }

    /// Length of the parameter buffer.
    #[must_use]
    pub fn param_bytes(&self) -> usize {
        self.params.last().map_or(0, |param| param.offset + param.bytes)
    }

    /// Bytes of shared memory that the kernel declares.
    #[must_use]
    pub fn static_shared_bytes(&self) -> u32 {
        self.static_shared
    }

    /// Bytes of local memory per thread.
    #[must_use]
    pub fn local_bytes(&self) -> u32 {
        self.local_bytes
    }

    /// The largest block that `.maxntid` or `.reqntid` allow, or the device's limit.
    #[must_use]
    pub fn max_threads(&self) -> u32 {
        let required = self.limits.required.map(|extents| extents.iter().product());
        required.or(self.limits.max_threads).unwrap_or(1024)
    }

    /// Whether the module has `.const` variables.
    #[inline]
    pub(crate) fn has_constants(&self) -> bool {
        !self.constants.is_empty()
    }

    /// Whether `address` lies in a `.const` variable.
    #[inline]
    pub(crate) fn is_constant(&self, address: u64) -> bool {
        self.constants.iter().any(|&(base, bytes)| address.wrapping_sub(base) < bytes)
    }

    /// `file.cu:line` of an instruction, followed outwards through inlined calls.
    pub(crate) fn source(&self, pc: usize) -> Option<String> {
        let position = self.sites.get(pc)?.position?;
        let mut text = self.place(position.at);
        let mut next = position.inlined_at;
        // Bounded, because a macro may place a call and its body on one position.
        for _ in 0..8 {
            let Some(place) = next else { break };
            text.push_str(" < ");
            text.push_str(&self.place(place));
            next = self.inlined.get(&place).copied().filter(|&outer| outer != place);
        }
        Some(text)
    }

    fn place(&self, place: Place) -> String {
        let path = self.files.get(&place.file).map_or("?", String::as_str);
        let name = path.rsplit('/').next().unwrap_or(path);
        format!("{name}:{}", place.line)
    }
}
