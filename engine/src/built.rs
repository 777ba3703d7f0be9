//! What a runner was built with: sizes and choices, and nothing of what it holds.

use crate::model::{Architecture, AttentionBackends};

/// The sizes and choices of a [`Runner`](crate::runner::Runner).
///
/// Two runners with equal values answer alike on equal weights, and take the same memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The variant of the model.
    pub architecture: Architecture,
    /// Elements of all weights.
    pub parameters: usize,
    /// Bytes of all weights.
    pub weight_bytes: usize,
    /// The store of keys and values.
    pub kv: KvPool,
    /// What computes attention.
    pub attention: AttentionBackends,
    /// The longest sequence by the model and the settings.
    pub context_length: usize,
    /// The longest sequence there is room for as well.
    pub longest_sequence: usize,
    /// Numbers of tokens that the prefill of the longest sequence runs at once, each named once, in order.
    pub prefill_sizes: Vec<usize>,
    /// Threads of the computation.
    pub threads: usize,
    /// Query heads that read the same keys and values.
    pub query_heads_per_kv_head: usize,
}

/// Sizes of a store of keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvPool {
    /// Layers.
    pub layers: usize,
    /// Pages.
    pub pages: usize,
    /// Tokens of a page.
    pub page_size: usize,
    /// Tokens of all pages.
    pub tokens: usize,
    /// Elements of a token's keys in one layer; its values are as many.
    pub key_elements: usize,
    /// Bytes of all layers.
    pub bytes: usize,
    /// How an element is kept.
    pub element: &'static str,
}
