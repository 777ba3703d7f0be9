//! Where a model runs: its weights there, and its keys and values.

use kernels::cpu::Workers;

use crate::cancel::Cancel;
use crate::error::Result;
use crate::kv::KvStore;
use crate::model::{
    AttentionBackend, AttentionBackends, Batch, CudaDecoder, CudaSizes, CudaState, DecodeKernel, Decoder, GraphUse,
    ModelConfig,
};
use crate::runner::RunnerLimits;

/// A model with its keys and values, on the CPU or on a CUDA device.
pub(crate) enum Backend {
    Cpu(Box<OnCpu>),
    Cuda(Box<OnCuda>),
}

pub(crate) struct OnCpu {
    model: Decoder,
    workers: Workers,
    kv: KvStore,
}

pub(crate) struct OnCuda {
    model: CudaDecoder,
    state: CudaState,
}

/// The sizes of the store of keys and values, and of a step.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) limits: RunnerLimits,
    /// Pages of the store, as `limits` has them.
    pub(crate) pages: u32,
    /// The longest sequence.
    pub(crate) context_length: usize,
}

impl Backend {
    pub(crate) fn cpu(model: Decoder, workers: Workers, sizes: Sizes) -> Result<Self> {
        let config = model.config();
        let kv = KvStore::new(config.layers, sizes.pages, sizes.limits.page_size, config.kv_size())?;
        Ok(Self::Cpu(Box::new(OnCpu { model, workers, kv })))
    }

    pub(crate) fn cuda(model: CudaDecoder, sizes: Sizes) -> Result<Self> {
        let Sizes { limits, pages, context_length } = sizes;
        let state = model.state(CudaSizes {
            page_size: limits.page_size,
            pages: pages as usize,
            step_tokens: limits.chunked_prefill_size.min(context_length),
            // The runner takes one sequence forward at a time.
            sequences: 1,
            context_length,
        })?;
        Ok(Self::Cuda(Box::new(OnCuda { model, state })))
    }

    /// The same model with a store of other sizes; the one it had is gone before the other is made.
    pub(crate) fn rebuild(self, sizes: Sizes) -> Result<Self> {
        match self {
            Self::Cpu(own) => {
                let OnCpu { model, workers, kv } = *own;
                drop(kv);
                Self::cpu(model, workers, sizes)
            }
            Self::Cuda(own) => {
                let OnCuda { model, state } = *own;
                drop(state);
                Self::cuda(model, sizes)
            }
        }
    }

    pub(crate) fn config(&self) -> &ModelConfig {
        match self {
            Self::Cpu(own) => own.model.config(),
            Self::Cuda(own) => own.model.config(),
        }
    }

    pub(crate) fn parameters(&self) -> usize {
        match self {
            Self::Cpu(own) => own.model.parameters(),
            Self::Cuda(own) => own.model.parameters(),
        }
    }

    pub(crate) fn weight_bytes(&self) -> usize {
        match self {
            Self::Cpu(own) => own.model.weight_bytes(),
            Self::Cuda(own) => own.model.weight_bytes(),
        }
    }

    /// Bytes of all keys and values.
    pub(crate) fn kv_bytes(&self) -> usize {
        match self {
            Self::Cpu(own) => own.kv.bytes(),
            Self::Cuda(own) => own.state.bytes(),
        }
    }

    /// How an element of a key or a value is kept.
    pub(crate) fn kv_element(&self) -> &'static str {
        match self {
            Self::Cpu(_) => KvStore::ELEMENT,
            Self::Cuda(_) => CudaState::ELEMENT,
        }
    }

    /// Threads of the computation; on a device the one that launches it.
    pub(crate) fn threads(&self) -> usize {
        match self {
            Self::Cpu(own) => own.workers.threads(),
            Self::Cuda(_) => 1,
        }
    }

    /// What computes attention.
    pub(crate) fn attention(&self) -> AttentionBackends {
        use AttentionBackend::{CpuPaged, CudaPaged, CudaSplitKv};
        match self {
            Self::Cpu(_) => AttentionBackends { prefill: CpuPaged, decode: CpuPaged },
            Self::Cuda(own) => AttentionBackends {
                prefill: CudaPaged,
                decode: match own.model.decode_kernel() {
                    DecodeKernel::Paged => CudaPaged,
                    DecodeKernel::SplitKv { .. } => CudaSplitKv,
                },
            },
        }
    }

    /// What became of capturing the steps of single tokens; nothing where none are.
    pub(crate) fn graph_use(&self) -> Option<&GraphUse> {
        match self {
            Self::Cpu(_) => None,
            Self::Cuda(own) => Some(own.state.graph_use()),
        }
    }

    /// Whether there are kernels for pages of this size.
    pub(crate) fn takes_pages_of(&self, tokens: usize) -> bool {
        match self {
            Self::Cpu(_) => true,
            Self::Cuda(_) => tokens.is_power_of_two(),
        }
    }

    /// One step; see [`Decoder::forward`] and [`CudaDecoder::forward`].
    pub(crate) fn forward(&mut self, batch: Batch<'_>, cancel: &dyn Cancel) -> Result<Option<Vec<f32>>> {
        match self {
            Self::Cpu(own) => Ok(own.model.forward(&own.workers, &mut own.kv, batch, cancel)),
            Self::Cuda(own) => own.model.forward(&mut own.state, batch, cancel),
        }
    }
}
