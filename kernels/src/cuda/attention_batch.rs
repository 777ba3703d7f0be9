//! What the kernels of paged attention have in common: the heads of a model, and the pages that a batch reads.

use cudarc::driver::CudaView;

use super::attention_rules::AttentionRules;
use super::device::CudaDevice;
use super::error::{CudaError, require_size, require_supported};
use super::kv_pool::{KvLayout, KvShape, check_block_table, check_query_heads};

/// The heads of a model, and the pages of its pools.
#[derive(Debug, Clone, Copy)]
pub(super) struct AttentionHeads {
    pub(super) kv: KvShape,
    pub(super) query_heads: usize,
}

impl AttentionHeads {
    /// Says what is wrong with heads and pages that no kernel supports.
    pub(super) fn check(self) -> Result<(), CudaError> {
        let head_dim = self.kv.head_dim;
        require_supported(
            "head_dim",
            head_dim,
            head_dim.is_multiple_of(16) && (16..=256).contains(&head_dim),
            "multiples of 16 from 16 to 256",
        )?;
        self.kv.check()?;
        check_query_heads(self.query_heads, self.kv.kv_heads)
    }

    /// The macros of `attention.cuh`, for heads that have been checked.
    pub(super) fn macros(self, rules: &AttentionRules) -> Vec<(&'static str, usize)> {
        let mut macros = rules.macros().to_vec();
        macros.extend([
            ("HEAD_DIM", self.kv.head_dim),
            ("QUERY_HEADS", self.query_heads),
            ("KV_HEADS", self.kv.kv_heads),
            ("PAGE_SHIFT", self.kv.page_size.trailing_zeros() as usize),
        ]);
        macros
    }
}

/// The pages that a batch reads, one slot and one context per request.
#[derive(Debug)]
pub(super) struct PagedBatch<'a> {
    pub(super) keys: &'a CudaView<'a, u16>,
    pub(super) values: &'a CudaView<'a, u16>,
    pub(super) layout: KvLayout,
    pub(super) block_table: &'a CudaView<'a, i32>,
    pub(super) table_width: usize,
    pub(super) slots: &'a CudaView<'a, i32>,
    pub(super) context: &'a CudaView<'a, i32>,
    pub(super) sinks: Option<&'a CudaView<'a, f32>>,
}

impl PagedBatch<'_> {
    /// Whether all buffers are as long and as aligned as the kernels rely on.
    pub(super) fn check(
        &self,
        device: &CudaDevice,
        heads: AttentionHeads,
        rules: &AttentionRules,
    ) -> Result<(), CudaError> {
        require_size("length of context", self.context.len(), self.slots.len())?;
        check_block_table(self.block_table.len(), self.table_width)?;
        rules.check_sinks(self.sinks, heads.query_heads)?;
        self.layout.check(device, heads.kv, self.keys, self.values)
    }
}
