//! The numbers that describe a model.

use std::path::Path;

use super::architecture::{Architecture, AttentionBias, QueryKeyNorm};
use super::rope::Rope;
use crate::error::{Error, Result};

/// A model of the family, as read from either kind of checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// What it is called; all that follows from it is in the other fields.
    pub architecture: Architecture,
    /// Rows of the embedding: token ids are below it.
    pub vocab_size: usize,
    /// Elements of the residual stream.
    pub hidden_size: usize,
    /// Elements between the two halves of the feed-forward block of layers without experts.
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
    /// Biases of attention.
    pub attention_bias: AttentionBias,
    /// Whether the matrices of the feed-forward block have biases.
    pub mlp_bias: bool,
    /// Where queries and keys are normalised.
    pub query_key_norm: QueryKeyNorm,
    /// The largest magnitude that elements of queries, keys and values keep before they are rotated.
    pub clip_qkv: Option<f32>,
    /// For each layer, the tokens that a token sees, itself and those before it. Nothing: all.
    pub windows: Vec<Option<usize>>,
    /// The experts, where there are any.
    pub experts: Option<Experts>,
}

/// Feed-forward blocks of which each token uses a few.
#[derive(Clone, Debug, PartialEq)]
pub struct Experts {
    /// Experts of a layer.
    pub count: usize,
    /// Experts that a token goes to.
    pub per_token: usize,
    /// Elements between the two halves of an expert.
    pub intermediate_size: usize,
    /// Whether the weights of a token's experts sum to one, rather than being their probabilities among all.
    pub renormalised: bool,
    /// Which layers have experts; the others have one block for all tokens.
    pub sparse_layers: Vec<bool>,
}

/// What a size is called, the largest a model may have, and where it is.
type Limit = (&'static str, usize, fn(&ModelConfig) -> usize);

const LAYER_LIMIT: usize = 1 << 12;
const HEAD_LIMIT: usize = 1 << 14;
const EXPERT_LIMIT: usize = 1 << 14;
const INTERMEDIATE_LIMIT: usize = 1 << 22;
/// Experts of all layers: there is a list of their tensors.
const ALL_EXPERTS_LIMIT: usize = 1 << 20;
/// Elements of all weights, hundreds of times those of the largest models: sums of their bytes are numbers of 64 bits.
const ELEMENT_LIMIT: u128 = 1 << 48;

/// Sizes beyond these are no model but a damaged file.
const LIMITS: [Limit; 8] = [
    ("vocabulary size", 1 << 24, |c| c.vocab_size),
    ("hidden size", 1 << 20, |c| c.hidden_size),
    ("intermediate size", INTERMEDIATE_LIMIT, |c| c.intermediate_size),
    ("number of layers", LAYER_LIMIT, |c| c.layers),
    ("number of attention heads", HEAD_LIMIT, |c| c.heads),
    ("number of key-value heads", HEAD_LIMIT, |c| c.kv_heads),
    ("head dimension", 1 << 14, |c| c.head_dim),
    ("context length", 1 << 28, |c| c.context_length),
];

fn within(path: &Path, what: &str, limit: usize, size: usize) -> Result<()> {
    if (1..=limit).contains(&size) {
        return Ok(());
    }
    Err(Error::damaged(path, format!("{what} {size} is not within 1..={limit}")))
}

/// Refuses a number of layers that no model has, before anything is kept for each.
pub(super) fn check_layer_count(path: &Path, layers: usize) -> Result<()> {
    within(path, "number of layers", LAYER_LIMIT, layers)
}

/// Refuses a number of heads that no model has, before anything is divided by it.
pub(super) fn check_head_count(path: &Path, heads: usize) -> Result<()> {
    within(path, "number of attention heads", HEAD_LIMIT, heads)
}

impl ModelConfig {
    /// Refuses sizes no model has and heads that do not fit one another; `path` is the file they came from.
    pub(super) fn checked(self, path: &Path) -> Result<Self> {
        for (what, limit, size) in LIMITS {
            within(path, what, limit, size(&self))?;
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let problem = format!("{} attention heads cannot share {} key-value heads", self.heads, self.kv_heads);
            return Err(Error::damaged(path, problem));
        }
        if !self.head_dim.is_multiple_of(2) {
            let problem = format!("head dimension {} is odd, rotary positions need pairs", self.head_dim);
            return Err(Error::damaged(path, problem));
        }
        self.check_layers(path)?;
        self.check_together(path)?;
        let eps = self.rms_norm_eps;
        if !(eps.is_finite() && eps >= 0.0) {
            return Err(Error::damaged(path, format!("normalisation epsilon {eps} is not a small number")));
        }
        self.rope.check(path)?;
        Ok(self)
    }

    fn check_layers(&self, path: &Path) -> Result<()> {
        if self.windows.contains(&Some(0)) {
            return Err(Error::damaged(path, "a sliding window of 0 tokens"));
        }
        if let Some(clip) = self.clip_qkv.filter(|clip| !(clip.is_finite() && *clip > 0.0)) {
            return Err(Error::damaged(path, format!("clip_qkv is {clip}, not a positive number")));
        }
        if let Some(experts) = &self.experts {
            let sizes = [
                ("number of experts", EXPERT_LIMIT, experts.count),
                ("number of experts per token", experts.count, experts.per_token),
                ("intermediate size of an expert", INTERMEDIATE_LIMIT, experts.intermediate_size),
            ];
            for (what, limit, size) in sizes {
                within(path, what, limit, size)?;
            }
        }
        Ok(())
    }

    /// Refuses sizes that a model may have one by one and not all together.
    fn check_together(&self, path: &Path) -> Result<()> {
        let beyond = |what: &str, found: u128, limit: u128| {
            if found <= limit {
                return Ok(());
            }
            Err(Error::damaged(path, format!("{found} {what} are more than {limit}, which no model has")))
        };
        let sparse = |experts: &Experts| experts.sparse_layers.iter().filter(|is_sparse| **is_sparse).count();
        let (experts, inner) = self
            .experts
            .as_ref()
            .map_or((0, 0), |experts| (experts.count * sparse(experts), experts.intermediate_size));
        beyond("experts in all layers", experts as u128, ALL_EXPERTS_LIMIT as u128)?;
        let wide = |size: usize| size as u128;
        // Queries and what attention gives; keys and values; gates, ups and downs. All layers count as dense ones, too.
        let of_layer = 2 * wide(self.query_size()) + 2 * wide(self.kv_size()) + 3 * wide(self.intermediate_size);
        let columns = wide(self.layers) * of_layer + 3 * wide(experts) * wide(inner) + 2 * wide(self.vocab_size);
        beyond("elements of all weights", columns * wide(self.hidden_size), ELEMENT_LIMIT)
    }

    /// The experts of a layer that has them.
    #[must_use]
    pub fn experts_of(&self, layer: usize) -> Option<&Experts> {
        self.experts.as_ref().filter(|experts| experts.sparse_layers[layer])
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
