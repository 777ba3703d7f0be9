//! What every kernel of decode attention is launched with, and what must hold of it.

use cudarc::driver::{CudaView, CudaViewMut};

use super::attention_batch::{AttentionHeads, PagedBatch};
use super::attention_rules::AttentionRules;
use super::decode_attention::DecodeWorkspace;
use super::device::CudaDevice;
use super::error::{CudaError, require, require_size};
use super::merge_splits::Splits;

/// One query token per request, the pages that they see, and where results go.
#[derive(Debug)]
pub(super) struct DecodeBatch<'a> {
    pub(super) pages: PagedBatch<'a>,
    pub(super) query: &'a CudaView<'a, u16>,
    pub(super) output: &'a CudaViewMut<'a, u16>,
    pub(super) lse: &'a CudaViewMut<'a, f32>,
    pub(super) workspace: &'a DecodeWorkspace,
    pub(super) max_context: usize,
    pub(super) splits: Splits,
}

impl DecodeBatch<'_> {
    /// Whether all buffers are as long and as aligned as the kernels rely on; `value_dim` is the width of a head's result.
    pub(super) fn check(
        &self,
        device: &CudaDevice,
        heads: AttentionHeads,
        rules: &AttentionRules,
        value_dim: usize,
    ) -> Result<(), CudaError> {
        let rows = self.pages.slots.len().saturating_mul(heads.query_heads);
        require("requests * query_heads", rows, i32::try_from(rows).is_ok(), || "less than 2^31".to_owned())?;
        require_size("length of query", self.query.len(), rows * heads.kv.head_dim)?;
        require_size("length of output", self.output.len(), rows * value_dim)?;
        require_size("length of lse", self.lse.len(), rows)?;
        self.pages.check(device, heads, rules)?;
        let contexts = (self.max_context, heads.kv.page_size, self.pages.table_width);
        self.splits.check(contexts, self.workspace, (rows, value_dim))?;
        require_size("the query's address modulo 16", device.misalignment(self.query), 0)
    }
}
