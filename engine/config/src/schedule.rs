//! `schedule`: how requests share the memory for keys and values.

use kitbag::ConfigNamespaces;

/// How requests share the memory for keys and values.
#[derive(ConfigNamespaces)]
#[config(
    ns = "schedule",
    derived(
        /// Pages of the pool for keys and values.
        pool_pages: usize = pool_pages(max_total_tokens, page_size),
    )
)]
pub struct Schedule {
    /// Tokens per page of keys and values.
    #[config(default = 16, range = 1..=256)]
    pub page_size: usize,
    /// The most prompt tokens that go through the model at once.
    #[config(default = 512, range = 1..=65_536)]
    pub chunked_prefill_size: usize,
    /// Tokens whose keys and values fit into memory at the same time, over all requests.
    ///
    /// The engine reads what follows from it, the pages of the pool.
    #[config(default = 8192, range = 1.., resolution_only)]
    pub max_total_tokens: usize,
}

/// The pages that hold `max_total_tokens`, the last one perhaps in part.
#[must_use]
pub fn pool_pages(max_total_tokens: usize, page_size: usize) -> usize {
    max_total_tokens.div_ceil(page_size)
}
