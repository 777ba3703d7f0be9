//! `schedule`: how requests share the memory for keys and values.

use kitbag::ConfigNamespaces;

/// How requests share the memory for keys and values.
#[derive(ConfigNamespaces)]
#[config(
    ns = "schedule",
    derived(
        /// Pages that the pool for keys and values has at most; as many as fit where there is no number.
        pool_pages: Option<usize> = pool_pages(max_total_tokens, page_size),
    )
)]
pub struct Schedule {
    /// Tokens per page of keys and values.
    #[config(default = 16, range = 1..=256)]
    pub page_size: usize,
    /// The most prompt tokens that go through the model at once.
    #[config(default = 512, range = 1..=65_536)]
    pub chunked_prefill_size: usize,
    /// Tokens whose keys and values are kept at the same time, over all requests; unless set, the longest sequence or what fits
    /// into memory.
    ///
    /// The engine reads what follows from it, the pages of the pool.
    #[config(range = 1.., resolution_only)]
    pub max_total_tokens: Option<usize>,
}

/// The pages that hold `max_total_tokens`, the last one perhaps in part; no number without one.
#[must_use]
pub fn pool_pages(max_total_tokens: Option<usize>, page_size: usize) -> Option<usize> {
    max_total_tokens.map(|tokens| tokens.div_ceil(page_size))
}
