//! What a device has no room for, and with which settings it would.

use kernels::cuda::{CudaDevice, CudaError};

use super::state::{CudaSizes, step_bytes, turns_bytes};
use super::{DecodeKernel, ELEMENT};
use crate::byte_text;
use crate::error::{Error, Result};
use crate::model::config::ModelConfig;

/// A device has too little memory, or gave too little of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// For weights.
    #[error("the weights take {}, and the device has {} free: use --device cpu or a smaller model", byte_text::up(*needed), byte_text::down(*free))]
    Weights {
        /// Bytes of all of them.
        needed: u64,
        /// Bytes that nobody has taken.
        free: u64,
    },
    /// For a step and one page.
    #[error(
        "a step of {tokens} tokens takes {} with one page of keys and values, and the device has {} free beside the weights: {}",
        byte_text::up(*needed), byte_text::down(*free), way(*fitting)
    )]
    Step {
        /// Tokens of the longest step.
        tokens: usize,
        /// Bytes of what it needs.
        needed: u64,
        /// Bytes that nobody has taken.
        free: u64,
        /// A shorter step that fits, if there is one.
        fitting: Option<Steps>,
    },
    /// For keys and values.
    #[error(
        "{pages} pages of {page_size} tokens of keys and values take {} beside {} for a step, and the device has {} free: \
         --max-total-tokens {fitting} is the most that fits",
        byte_text::up(*needed), byte_text::up(*step), byte_text::down(*free)
    )]
    Pages {
        /// Pages that were wanted.
        pages: usize,
        /// Tokens of each.
        page_size: usize,
        /// Bytes of them.
        needed: u64,
        /// Bytes of a step.
        step: u64,
        /// Bytes that nobody has taken.
        free: u64,
        /// Tokens that fit, in whole pages.
        fitting: usize,
    },
    /// For the code of a kernel that a step is the first to need.
    #[error(
        "the device gives no memory for the code of a kernel that a step is the first to need, and has {} free: a lower \
         --max-total-tokens leaves more, and with --gemm-warmup fast the kernels of products are loaded at start",
        byte_text::down(*free)
    )]
    Code {
        /// Bytes that nobody has taken, now.
        free: u64,
    },
    /// For something else that a step does.
    #[error(
        "the device gives no memory for {what}, and has {} free: a lower --max-total-tokens leaves more, and with \
         --disable-cuda-graph none goes to captured steps",
        byte_text::down(*free)
    )]
    Doing {
        /// What was being done, as the driver's errors have it.
        what: &'static str,
        /// Bytes that nobody has taken, now.
        free: u64,
    },
    /// For something that there seemed to be room for.
    #[error(
        "the device gives no memory for {what}, though it has {} free: it is in pieces, or another program takes it; \
         {way}",
        byte_text::down(*free)
    )]
    Refused {
        /// What it was to be for.
        what: &'static str,
        /// Bytes that nobody has taken, now.
        free: u64,
        /// What needs less.
        way: &'static str,
    },
}

/// Steps that fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// The most tokens of one.
    pub tokens: usize,
    /// The longest sequence, where that has to be shorter as well.
    pub context_length: Option<usize>,
}

fn way(fitting: Option<Steps>) -> String {
    match fitting {
        None => "use --device cpu or a smaller model".to_owned(),
        Some(Steps { tokens, context_length: None }) => {
            format!("--chunked-prefill-size {tokens} is the most that fits")
        }
        Some(Steps { tokens, context_length: Some(length) }) => {
            format!("--chunked-prefill-size {tokens} --context-length {length} is the most that fits")
        }
    }
}

/// The largest of `1..=most` that holds, where all below it do.
fn largest(most: usize, holds: impl Fn(usize) -> bool) -> Option<usize> {
    let (mut good, mut bad) = (0, most.saturating_add(1));
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if holds(middle) { good = middle } else { bad = middle }
    }
    (good > 0).then_some(good)
}

/// What a runner of some sizes takes of a device, besides the weights.
#[derive(Clone, Copy)]
pub(super) struct Room<'a> {
    pub(super) config: &'a ModelConfig,
    pub(super) sizes: CudaSizes,
    pub(super) decode: DecodeKernel,
}

impl Room<'_> {
    fn step(&self, sizes: CudaSizes) -> u64 {
        (step_bytes(self.config, sizes, self.decode) + turns_bytes(self.config, sizes.context_length)) as u64
    }

    fn page(&self) -> u64 {
        (2 * self.config.layers * self.config.kv_size() * ELEMENT * self.sizes.page_size) as u64
    }

    /// Bytes of all keys and values.
    pub(super) fn pools(&self) -> u64 {
        self.page().saturating_mul(self.sizes.pages as u64)
    }

    /// Says what of it does not fit into `free` bytes.
    fn check(&self, free: u64) -> std::result::Result<(), NoRoom> {
        let (sizes, page, step) = (self.sizes, self.page(), self.step(self.sizes));
        let fits = |sizes: CudaSizes| self.step(sizes).saturating_add(page) <= free;
        if !fits(sizes) {
            let shorter = |step_tokens: usize| CudaSizes { step_tokens, ..sizes };
            let fitting = largest(sizes.step_tokens, |tokens| fits(shorter(tokens)));
            let fitting = fitting.map(|tokens| Steps { tokens, context_length: None }).or_else(|| {
                let with = |context_length: usize| CudaSizes { context_length, ..shorter(1) };
                let length = largest(sizes.context_length, |length| fits(with(length)))?;
                Some(Steps { tokens: 1, context_length: Some(length) })
            });
            return Err(NoRoom::Step { tokens: sizes.step_tokens, needed: step + page, free, fitting });
        }
        let fitting = (free - step) / page;
        if sizes.pages as u64 > fitting {
            return Err(NoRoom::Pages {
                pages: sizes.pages,
                page_size: sizes.page_size,
                needed: self.pools(),
                step,
                free,
                fitting: usize::try_from(fitting).unwrap_or(usize::MAX).saturating_mul(sizes.page_size),
            });
        }
        Ok(())
    }

    /// Refuses what does not fit into what is free now.
    pub(super) fn require(&self, device: &CudaDevice) -> Result<()> {
        Ok(self.check(device.free_memory()?)?)
    }

    /// What a failure while all this was made is to the person who started the engine, once what was made is gone.
    pub(super) fn explain(&self, device: &CudaDevice, error: Error) -> Error {
        const WAY: &str = "--max-total-tokens and --chunked-prefill-size make them smaller";
        let refused = |free| NoRoom::Refused { what: "a step, keys and values", free, way: WAY };
        explain(device, error, |cause, free| match cause {
            CudaError::Load { .. } => {
                code_refused(free, "a lower --max-total-tokens or --chunked-prefill-size leaves more")
            }
            _ => self.check(free).err().unwrap_or(refused(free)),
        })
    }
}

/// Refuses weights of so many bytes that do not fit into what is free now.
pub(super) fn require_weights(device: &CudaDevice, needed: u64) -> Result<()> {
    Ok(check_weights(needed, device.free_memory()?)?)
}

fn check_weights(needed: u64, free: u64) -> std::result::Result<(), NoRoom> {
    if needed > free { Err(NoRoom::Weights { needed, free }) } else { Ok(()) }
}

/// What a failure while weights were loaded is, once those that were there are gone.
pub(super) fn explain_weights(device: &CudaDevice, error: CudaError, needed: u64) -> Error {
    const WAY: &str = "start the engine again, or use --device cpu";
    let refused = |free| NoRoom::Refused { what: "the weights", free, way: WAY };
    explain(device, error.into(), |_, free| check_weights(needed, free).err().unwrap_or(refused(free)))
}

/// The same for compiled kernels.
pub(super) fn explain_kernels(device: &CudaDevice, error: CudaError) -> Error {
    explain(device, error.into(), |_, free| code_refused(free, "use --device cpu or another GPU"))
}

fn code_refused(free: u64, way: &'static str) -> NoRoom {
    NoRoom::Refused { what: "the code of kernels", free, way }
}

/// What a failure of a step is. Memory for its buffers was taken before; the driver takes some for the code of kernels, and
/// may take some for other things.
pub(super) fn explain_step(device: &CudaDevice, error: Error) -> Error {
    explain(device, error, |cause, free| match cause {
        CudaError::Driver { action: what, .. } => NoRoom::Doing { what, free },
        _ => NoRoom::Code { free },
    })
}

/// What an error is if the device had too little memory, by what it was and the bytes that are free.
fn explain(device: &CudaDevice, error: Error, why: impl FnOnce(&CudaError, u64) -> NoRoom) -> Error {
    let Error::Cuda(cause) = &error else { return error };
    if !cause.is_out_of_memory() {
        return error;
    }
    match device.free_memory() {
        Ok(free) => why(cause, free).into(),
        // The device is lost, which is more than a lack of memory.
        Err(lost) if lost.is_lasting() => lost.into(),
        Err(_) => error,
    }
}
