//! The kernels of attention: which there are, what each can do, and which ones a model gets.

use kernels::cuda::{CudaError, DecodeAttentionShape};

use super::config::ModelConfig;
use super::cuda::attention_shape;
use crate::error::{Error, Result};

/// A kernel of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionBackend {
    /// The CPU's, for any model.
    CpuPaged,
    /// One kernel for any number of new tokens, which sums a token's context in one order.
    CudaPaged,
    /// Contexts are divided among blocks and merged, for steps in which every sequence has one new token.
    CudaSplitKv,
}

/// What a kernel computes the attention of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Prompts, whole or in chunks.
    Prefill,
    /// Steps in which every sequence has one new token.
    Decode,
}

/// The kernels of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionBackends {
    /// For prompts.
    pub prefill: AttentionBackend,
    /// For single tokens.
    pub decode: AttentionBackend,
}

/// What decides which kernels there are for a model.
#[derive(Clone, Copy, Debug)]
pub struct AttentionNeeds<'a> {
    /// The model runs on a CUDA device.
    pub on_cuda: bool,
    /// The model's numbers.
    pub config: &'a ModelConfig,
    /// Tokens per page.
    pub page_size: usize,
    /// Tokens of context that one block of [`AttentionBackend::CudaSplitKv`] reads.
    pub split_tokens: usize,
    /// A token's logits must have the same bits however its prompt was cut.
    pub is_deterministic: bool,
}

// Where several can do something, the first is chosen.
kernels::named! {
    /// What it is called in settings.
    AttentionBackend {
        CpuPaged => "cpu-paged",
        CudaSplitKv => "cuda-split-kv",
        CudaPaged => "cuda-paged",
    }
}

impl AttentionBackend {
    /// Says why it cannot do what is needed.
    fn check(self, phase: Phase, needs: &AttentionNeeds<'_>) -> std::result::Result<(), Obstacle> {
        let on_cuda = self != Self::CpuPaged;
        if on_cuda != needs.on_cuda {
            return Err(Obstacle::Elsewhere { on_cuda });
        }
        let shape = || attention_shape(needs.config, needs.page_size);
        match self {
            Self::CpuPaged => Ok(()),
            Self::CudaPaged => Ok(shape().check()?),
            Self::CudaSplitKv if phase == Phase::Prefill => Err(Obstacle::SingleTokens),
            Self::CudaSplitKv if needs.is_deterministic => Err(Obstacle::OtherOrder),
            Self::CudaSplitKv => Ok(split_shape(needs.config, needs.page_size, needs.split_tokens).check()?),
        }
    }
}

/// The shape of the kernel that divides contexts.
pub(super) fn split_shape(config: &ModelConfig, page_size: usize, split_tokens: usize) -> DecodeAttentionShape {
    DecodeAttentionShape {
        head_dim: config.head_dim,
        query_heads: config.heads,
        kv_heads: config.kv_heads,
        page_size,
        split_tokens,
    }
}

/// Why a kernel cannot do what is needed.
#[derive(Debug, thiserror::Error)]
enum Obstacle {
    #[error("it is a kernel of {}, where the model does not run", if *on_cuda { "CUDA" } else { "the CPU" })]
    Elsewhere { on_cuda: bool },
    #[error("it takes one new token of each sequence (--decode-attention-backend is for those)")]
    SingleTokens,
    #[error("it adds in another order than the kernel of prompts, which --enable-deterministic-inference forbids")]
    OtherOrder,
    #[error(transparent)]
    Shape(#[from] CudaError),
}

impl Phase {
    fn tokens(self) -> &'static str {
        match self {
            Self::Prefill => "prompts",
            Self::Decode => "single tokens",
        }
    }
}

/// The kernels that can do what is needed, the best first.
fn able<'a>(phase: Phase, needs: &'a AttentionNeeds<'_>) -> impl Iterator<Item = AttentionBackend> + 'a {
    AttentionBackend::ALL.into_iter().filter(move |backend| backend.check(phase, needs).is_ok())
}

/// The best kernel for a phase, and why it is; nothing where no kernel can do what is needed.
#[must_use]
pub fn choose(phase: Phase, needs: &AttentionNeeds<'_>) -> Option<(AttentionBackend, String)> {
    let best = able(phase, needs).next()?;
    let place = if needs.on_cuda { "CUDA" } else { "the CPU" };
    let better = AttentionBackend::ALL.into_iter().take_while(|&backend| backend != best);
    // That a kernel is for another phase or device is no news.
    let obstacle = better.filter_map(|backend| match backend.check(phase, needs) {
        Err(obstacle @ (Obstacle::OtherOrder | Obstacle::Shape(_))) => Some((backend, obstacle)),
        _ => None,
    });
    let why =
        obstacle.last().map_or_else(String::new, |(backend, obstacle)| format!("; not {}: {obstacle}", backend.name()));
    Some((best, format!("the best for {} on {place}{why}", phase.tokens())))
}

/// Refuses a kernel that cannot do what is needed, with those that can. `flag` is the setting that names it.
pub fn check(flag: &str, backend: AttentionBackend, phase: Phase, needs: &AttentionNeeds<'_>) -> Result<()> {
    let Err(obstacle) = backend.check(phase, needs) else { return Ok(()) };
    let able: Vec<_> = able(phase, needs).map(AttentionBackend::name).collect();
    let able = if able.is_empty() { "none".to_owned() } else { able.join(", ") };
    Err(Error::Setting(format!("{flag} {}: {obstacle}; supported here for {}: {able}", backend.name(), phase.tokens())))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::checkpoint::{Checkpoint, LoadFormat};

    /// The kernels for prompts and for single tokens, and what is said of the latter.
    fn of(needs: &AttentionNeeds<'_>) -> [Option<(AttentionBackend, String)>; 2] {
        [Phase::Prefill, Phase::Decode].map(|phase| choose(phase, needs))
    }

    #[test]
    fn a_shape_that_one_kernel_has_not_falls_to_the_next_and_says_so() {
        use AttentionBackend::{CpuPaged, CudaPaged, CudaSplitKv};
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models/llama");
        let checkpoint = Checkpoint::open(&model, LoadFormat::Auto).expect("a model");
        let config = checkpoint.config();
        let needs = AttentionNeeds { on_cuda: true, config, page_size: 16, split_tokens: 256, is_deterministic: false };
        let chosen = |needs: &AttentionNeeds<'_>| of(needs).map(|chosen| chosen.map(|(backend, _)| backend));
        assert_eq!(chosen(&needs), [Some(CudaPaged), Some(CudaSplitKv)]);
        let without = AttentionNeeds { split_tokens: 0, ..needs };
        assert_eq!(chosen(&without), [Some(CudaPaged), Some(CudaPaged)]);
        let [_, why] = of(&without).map(|chosen| chosen.map_or_else(String::new, |(_, why)| why));
        assert_eq!(
            why,
            "the best for single tokens on CUDA; not cuda-split-kv: split_tokens is 0; supported: 1 to 1073741824"
        );
        let uneven = AttentionNeeds { page_size: 24, ..needs };
        assert_eq!(chosen(&uneven), [None, None]);
        assert_eq!(chosen(&AttentionNeeds { on_cuda: false, ..uneven }), [Some(CpuPaged); 2]);
        let refused = check("--flag", CudaPaged, Phase::Prefill, &uneven).map_err(|error| error.to_string());
        assert_eq!(
            refused.expect_err("no kernel"),
            "--flag cuda-paged: page_size is 24; supported: powers of two up to 1048576; \
             supported here for prompts: none"
        );
    }
}
