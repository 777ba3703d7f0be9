//! What can go wrong: loading a module, touching device memory, launching a kernel.
//!
//! Displayed by hand, so that the crate has no dependencies: it takes long to compile, and would be compiled anew for every
//! set of features that others ask of one.

use std::error::Error;
use std::fmt;

/// PTX that this crate does not accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError {
    /// Line in the PTX text, from 1.
    pub line: u32,
    /// What is wrong with it.
    pub message: String,
    /// The line itself.
    pub text: String,
}

/// A host-side operation on device memory that touches no live allocation, or not the whole of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryError {
    /// The device is full.
    OutOfMemory {
        /// Bytes asked for.
        requested: u64,
        /// Bytes left.
        free: u64,
        /// Size of the device memory.
        capacity: u64,
    },
    /// Not the start of a live allocation.
    NotAnAllocation {
        /// The address given.
        address: u64,
    },
    /// The range leaves the allocation it starts in, or starts in none.
    OutOfBounds {
        /// First byte of the range.
        address: u64,
        /// Length of the range.
        bytes: u64,
        /// The closest allocation, in words.
        nearest: String,
    },
}

/// A launch that was refused or that a checker stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaunchError {
    /// The module has no such kernel.
    NoSuchKernel(String),
    /// Grid, block, shared memory or parameters are outside what the device allows.
    Configuration {
        /// The kernel.
        kernel: String,
        /// Which limit is exceeded.
        reason: String,
    },
    /// The kernel did something wrong.
    Fault(Box<Fault>),
}

/// Which rule a kernel broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// A shared read of what another thread wrote, with no barrier between.
    ReadAfterWrite,
    /// A shared write to what another thread read, with no barrier between.
    WriteAfterRead,
    /// Two threads wrote different values to one shared location, with no barrier between.
    WriteAfterWrite,
    /// Two blocks accessed the same global memory, one of them writing, and nothing orders them.
    BlockRace,
    /// Lanes of one store wrote different values to one place in global memory, of which any may stay.
    StoreConflict,
    /// A shared access to the target of a `cp.async` that has not been waited for.
    PendingCopy,
    /// A read of shared or global memory that nobody has written.
    Uninitialised,
    /// An access outside its allocation.
    OutOfBounds,
    /// An address that is no multiple of the access size.
    Misaligned,
    /// A write to constant memory.
    ReadOnly,
    /// Lanes of a `.sync` instruction can never meet.
    DivergentSync,
    /// A member mask that names exited lanes or leaves out executing ones.
    MemberMask,
    /// A shuffle that reads a lane which does not take part.
    InactiveLane,
    /// A barrier at which the expected threads can never meet.
    Barrier,
    /// More instructions than the budget: an endless loop, or a wait for another block.
    Budget,
    /// The kernel executed `trap`.
    Trap,
}

/// A rule broken by a kernel, with all that is known about where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Which rule.
    pub kind: FaultKind,
    /// What happened, in words.
    pub message: String,
    /// The kernel.
    pub kernel: String,
    /// Source position `file:line`, with the places it was inlined at, if the PTX has line information.
    pub source: Option<String>,
    /// Line in the PTX text, from 1.
    pub ptx_line: u32,
    /// The instruction as written.
    pub instruction: String,
    /// Block index.
    pub block: [u32; 3],
    /// Warp in the block.
    pub warp: u32,
    /// Lane in the warp, where one lane is to blame.
    pub lane: Option<u32>,
    /// Seed of the random schedule, if there was one.
    pub seed: Option<u64>,
}

impl Error for LoadError {}
impl Error for MemoryError {}
impl Error for LaunchError {}
impl Error for Fault {}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PTX line {}: {}\n  {}", self.line, self.message, self.text)
    }
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory { requested, free, capacity } => {
                write!(f, "out of device memory: {requested} bytes requested, {free} of {capacity} free")
            }
            Self::NotAnAllocation { address } => write!(f, "{address:#x} is not the start of a live allocation"),
            Self::OutOfBounds { address, bytes, nearest } => {
                write!(f, "{bytes} bytes at {address:#x} are outside device memory: {nearest}")
            }
        }
    }
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchKernel(name) => write!(f, "no kernel named `{name}` in the module"),
            Self::Configuration { kernel, reason } => write!(f, "{kernel}: {reason}"),
            Self::Fault(fault) => fault.fmt(f),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.block;
        let source = self.source.as_deref().unwrap_or("no line information");
        write!(f, "{}: {}\n  at {source}\n  in block ({x},{y},{z}) warp {}", self.kernel, self.message, self.warp)?;
        if let Some(lane) = self.lane {
            write!(f, " lane {lane}")?;
        }
        if let Some(seed) = self.seed {
            write!(f, ", random schedule with seed {seed}")?;
        }
        write!(f, "\n  PTX line {}: {}", self.ptx_line, self.instruction)
    }
}

/// A fault as the instruction sees it, before the warp adds where it is.
#[derive(Debug)]
pub(crate) struct RawFault {
    pub(crate) kind: FaultKind,
    pub(crate) lane: Option<u32>,
    pub(crate) message: String,
}

/// Result of one instruction; boxed so that the good case stays one word.
pub(crate) type Checked<T = ()> = Result<T, Box<RawFault>>;

impl RawFault {
    #[cold]
    pub(crate) fn at_lane(kind: FaultKind, lane: usize, message: String) -> Box<Self> {
        Box::new(Self { kind, lane: Some(lane as u32), message })
    }

    #[cold]
    pub(crate) fn of_warp(kind: FaultKind, message: String) -> Box<Self> {
        Box::new(Self { kind, lane: None, message })
    }
}
