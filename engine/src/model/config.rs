//! The numbers that describe a model.

use std::path::Path;

use super::rope::Rope;
use crate::error::{Error, Result};

/// Which variant of the family a model is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Llama, and models of the same form such as `SmolLM2`.
    Llama,
    /// Llama with normalised queries and keys.
    Qwen3,
}

/// A model of the family, as read from either kind of checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// The variant.
    pub architecture: Architecture,
    /// Rows of the embedding: token ids are below it.
    pub vocab_size: usize,
    /// Elements of the residual stream.
    pub hidden_size: usize,
    /// Elements between the two halves of the feed-forward block.
    pub intermediate_size: usize,
    /// Transformer layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Elements per head.
    pub head_dim: usize,
    /// What is added to the mean square before its root is taken.
    pub rms_norm_eps: f32,
    /// Rotary positions.
    pub rope: Rope,
    /// Whether the output head is the embedding.
    pub tied_embeddings: bool,
    /// Positions the model was made for.
    pub context_length: usize,
}

/// What a size is called, the largest a model may have, and where it is.
type Limit = (&'static str, usize, fn(&ModelConfig) -> usize);

/// Sizes beyond these are no model but a damaged file.
const LIMITS: [Limit; 8] = [
    ("vocabulary size", 1 << 24, |c| c.vocab_size),
    ("hidden size", 1 << 20, |c| c.hidden_size),
    ("intermediate size", 1 << 22, |c| c.intermediate_size),
    ("number of layers", 1 << 12, |c| c.layers),
    ("number of attention heads", 1 << 14, |c| c.heads),
    ("number of key-value heads", 1 << 14, |c| c.kv_heads),
    ("head dimension", 1 << 14, |c| c.head_dim),
    ("context length", 1 << 28, |c| c.context_length),
];

impl ModelConfig {
    /// Refuses sizes no model has and heads that do not fit one another; `path` is the file they came from.
    pub(super) fn checked(self, path: &Path) -> Result<Self> {
        for (what, limit, size) in LIMITS {
            let size = size(&self);
            if !(1..=limit).contains(&size) {
                return Err(Error::damaged(path, format!("{what} {size} is not within 1..={limit}")));
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let problem = format!("{} attention heads cannot share {} key-value heads", self.heads, self.kv_heads);
            return Err(Error::damaged(path, problem));
        }
        if !self.head_dim.is_multiple_of(2) {
            let problem = format!("head dimension {} is odd, rotary positions need pairs", self.head_dim);
            return Err(Error::damaged(path, problem));
        }
        let eps = self.rms_norm_eps;
        if !(eps.is_finite() && eps >= 0.0) {
            return Err(Error::damaged(path, format!("normalisation epsilon {eps} is not a small number")));
        }
        self.rope.check(path)?;
        Ok(self)
    }

    /// Elements of all query heads.
    #[must_use]
    pub fn query_size(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Elements of all key heads, and of all value heads.
    #[must_use]
    pub fn kv_size(&self) -> usize {
        self.kv_heads * self.head_dim
    }
}
