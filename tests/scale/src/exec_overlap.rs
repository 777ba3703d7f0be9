//! Written by `python3 tests/scale/generate.py`; edit that or `fields.tsv`, and run it again.

use kitbag::ConfigNamespaces;

/// Batches that run side by side.
#[derive(ConfigNamespaces)]
#[config(ns = "exec.overlap")]
pub struct ExecOverlap {
    /// Split a batch in two and overlap compute with comm.
    #[config(default = false)]
    enable_two_batch_overlap: bool,
    /// Overlap inside one batch.
    #[config(default = false)]
    enable_single_batch_overlap: bool,
    /// Imbalance limit deciding two-batch versus two-chunk overlap.
    #[config(default = 0.48, range = 0.0..=1.0)]
    tbo_token_distribution_threshold: f64,
}
