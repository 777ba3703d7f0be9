//! Decode attention over compressed keys and values: multi-head latent attention with absorbed weights.
//!
//! The pool has one row per token, which all query heads share: a latent part and a rotated part. The query has been
//! multiplied with the weights that expand keys, and what comes out is to be multiplied with those that expand values.

use cudarc::driver::{CudaView, CudaViewMut, PushKernelArg};

use super::attention_batch::{AttentionHeads, PagedBatch};
use super::attention_rules::AttentionRules;
use super::decode_attention::DecodeWorkspace;
use super::decode_batch::DecodeBatch;
use super::device::CudaDevice;
use super::error::{CudaError, require_supported};
use super::kernel::{Grid, Kernel, KernelCode, KernelShape, start};
use super::kv_pool::{KvLayout, KvShape, check_query_heads};
use super::merge_splits::{MergeSplits, MergeSplitsShape, Splits};
use super::nvrtc::{KernelSource, Program};

/// The sizes that the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MlaDecodeShape {
    /// Elements of the latent part, which is the value as well: a multiple of 128 up to 512.
    pub latent_dim: usize,
    /// Elements of the rotated part: a multiple of 16 up to 64.
    pub rope_dim: usize,
    /// Query heads of the model.
    pub query_heads: usize,
    /// Tokens in a page, a power of two.
    pub page_size: usize,
    /// Tokens of a context that one block works through; longer contexts are split and merged.
    pub split_tokens: usize,
}

const THREADS: usize = 256;
/// Query heads that a block takes.
const ROWS: usize = 16;

impl MlaDecodeShape {
    /// Says what is wrong with a shape that the kernel does not support.
    pub fn check(&self) -> Result<(), CudaError> {
        let (latent, rope) = (self.latent_dim, self.rope_dim);
        let is_latent = latent.is_multiple_of(128) && (128..=512).contains(&latent);
        require_supported("latent_dim", latent, is_latent, "multiples of 128 from 128 to 512")?;
        let is_rope = rope.is_multiple_of(16) && (16..=64).contains(&rope);
        require_supported("rope_dim", rope, is_rope, "multiples of 16 from 16 to 64")?;
        self.kv().check()?;
        check_query_heads(self.query_heads, 1)?;
        Splits::check_tokens(self.split_tokens)
    }

    /// What the pages hold: one head, whose elements are the latent part and then the rotated one.
    #[must_use]
    pub fn kv(&self) -> KvShape {
        KvShape { head_dim: self.latent_dim + self.rope_dim, kv_heads: 1, page_size: self.page_size }
    }

    fn heads(&self) -> AttentionHeads {
        AttentionHeads { kv: self.kv(), query_heads: self.query_heads }
    }

    /// Splits of a launch whose longest context is `max_context`.
    fn splits(&self, max_context: usize) -> Splits {
        Splits::new(self.split_tokens, max_context)
    }

    /// Room for batches of up to `requests` whose longest context is `max_context`.
    pub fn workspace(
        &self,
        device: &CudaDevice,
        requests: usize,
        max_context: usize,
    ) -> Result<DecodeWorkspace, CudaError> {
        let rows = self.splits(max_context).parts(requests * self.query_heads);
        DecodeWorkspace::of_rows(device, rows, self.latent_dim)
    }
}

impl KernelCode for MlaDecodeShape {
    const SOURCE: KernelSource =
        KernelSource::embedded("mla_decode_attention.cu", include_str!("../../cu/mla_decode_attention.cu"));
    const FUNCTIONS: &'static [&'static str] = &["mla_decode_attention"];
}

impl KernelShape for MlaDecodeShape {
    fn macros(&self) -> Result<Vec<(&'static str, usize)>, CudaError> {
        self.check()?;
        let mut macros = self.heads().macros(&AttentionRules::default());
        macros.extend([
            ("VALUE_DIM", self.latent_dim),
            ("SPLIT_TOKENS", self.split_tokens),
            ("SHARED_BYTES", self.shared_bytes()),
        ]);
        Ok(macros)
    }

    /// The size of the kernel's `Shared`: two stages of rows, queries or scores, weights, where rows are, and three numbers
    /// per query head.
    fn shared_bytes(&self) -> usize {
        let (keys, stages, element) = (32, 2, size_of::<u16>());
        let row = self.kv().head_dim * element;
        let scores = 4 * ROWS * (keys + 8) * size_of::<f32>();
        stages * keys * row
            + (ROWS * row).max(scores)
            + ROWS * keys * element
            + stages * keys * size_of::<i64>()
            + 3 * ROWS * size_of::<f32>()
    }
}

/// The arguments of one launch, on the device.
///
/// The contents of `block_table`, `slots` and `context` cannot be checked before the launch. Wrong ones make the
/// kernel read the wrong rows, or fail where there is no memory; what it writes depends on checked sizes alone.
#[derive(Debug)]
pub struct MlaDecodeArgs<'a> {
    /// `[requests, query_heads, latent_dim + rope_dim]`, as a row of the pool.
    pub query: CudaView<'a, u16>,
    /// The pool.
    pub keys: CudaView<'a, u16>,
    /// How the pool is laid out.
    pub layout: KvLayout,
    /// `[slots, table_width]`: the pages of each slot's tokens, in order. Entries past a context are not read.
    pub block_table: CudaView<'a, i32>,
    /// Pages that a slot's row of the block table has room for.
    pub table_width: usize,
    /// `[requests]`: each request's slot; -1 marks a padding row, whose output is zeros.
    pub slots: CudaView<'a, i32>,
    /// `[requests]`: tokens that the query sees, itself the last of them.
    pub context: CudaView<'a, i32>,
    /// No context in use is longer. Decides the number of splits, not the result.
    pub max_context: usize,
    /// What scores are multiplied by: that of the attention whose weights have been absorbed.
    pub scale: f32,
    /// `[requests, query_heads, latent_dim]`. Zeros where nothing is visible.
    pub output: CudaViewMut<'a, u16>,
    /// `[requests, query_heads]`: natural logarithm of the softmax denominator, minus infinity where nothing is visible.
    pub lse: CudaViewMut<'a, f32>,
    /// Room for the splits, of [`MlaDecodeShape::workspace`].
    pub workspace: &'a mut DecodeWorkspace,
}

/// The kernel, compiled for a shape and loaded on a device.
#[derive(Debug)]
pub struct MlaDecode {
    attention: Kernel<MlaDecodeShape>,
    merge: MergeSplits,
}

impl MlaDecode {
    /// The kernel's source.
    pub const SOURCE: KernelSource = MlaDecodeShape::SOURCE;

    /// Compiles the kernel for a shape.
    pub fn compile(device: &CudaDevice, shape: MlaDecodeShape) -> Result<Self, CudaError> {
        Self::compile_source(device, shape, Self::SOURCE)
    }

    /// Compiles another text of the kernel, such as a deliberately broken one in a test of the checks.
    pub fn compile_source(device: &CudaDevice, shape: MlaDecodeShape, source: KernelSource) -> Result<Self, CudaError> {
        let merged = MergeSplitsShape { head_dim: shape.latent_dim, query_heads: shape.query_heads, sinks: false };
        Ok(Self { attention: Kernel::compile_source(device, shape, source)?, merge: Kernel::compile(device, merged)? })
    }

    /// A source of this kernel with the sizes of a shape.
    pub fn program(shape: MlaDecodeShape, source: KernelSource) -> Result<Program, CudaError> {
        Kernel::program(shape, source)
    }

    /// The shape it was compiled for.
    #[must_use]
    pub fn shape(&self) -> &MlaDecodeShape {
        self.attention.shape()
    }
}

impl CudaDevice {
    /// Launches decode attention over compressed keys and values for a batch.
    pub fn mla_decode_attention(&self, kernel: &MlaDecode, args: MlaDecodeArgs<'_>) -> Result<(), CudaError> {
        let shape = kernel.shape();
        args.check(self, shape)?;
        let requests = args.slots.len();
        if requests == 0 {
            return Ok(());
        }
        let MlaDecodeArgs { mut output, mut lse, workspace, layout, .. } = args;
        let splits = shape.splits(args.max_context);
        let [page_stride, token_stride, _] = layout.strides();
        let (table_width, split_count) = (args.table_width as i32, splits.count as i32);
        let blocks = [requests, shape.query_heads.div_ceil(ROWS), splits.count];
        let grid = Grid { blocks, threads: THREADS, shared_bytes: shape.shared_bytes() };
        let mut launch = self.launch_builder(kernel.attention.function(0))?;
        launch
            .arg(&args.query)
            .arg(&args.keys)
            .arg(&args.block_table)
            .arg(&args.slots)
            .arg(&args.context)
            .arg(&mut output)
            .arg(&mut lse)
            .arg(&mut workspace.output)
            .arg(&mut workspace.lse)
            .arg(&page_stride)
            .arg(&token_stride)
            .arg(&table_width)
            .arg(&split_count)
            .arg(&args.scale);
        // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
        unsafe { start(&mut launch, grid, "launching attention over compressed keys") }?;
        if splits.count == 1 {
            return Ok(());
        }
        let rows = requests * shape.query_heads;
        self.merge_decode_splits(&kernel.merge, workspace, (rows, splits.count), (&mut output, &mut lse), None)
    }
}

impl MlaDecodeArgs<'_> {
    fn check(&self, device: &CudaDevice, shape: &MlaDecodeShape) -> Result<(), CudaError> {
        let batch = DecodeBatch {
            pages: PagedBatch {
                keys: &self.keys,
                values: &self.keys,
                layout: self.layout,
                block_table: &self.block_table,
                table_width: self.table_width,
                slots: &self.slots,
                context: &self.context,
                sinks: None,
            },
            query: &self.query,
            output: &self.output,
            lse: &self.lse,
            workspace: self.workspace,
            max_context: self.max_context,
            splits: shape.splits(self.max_context),
        };
        batch.check(device, shape.heads(), &AttentionRules::default(), shape.latent_dim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: MlaDecodeShape =
        MlaDecodeShape { latent_dim: 512, rope_dim: 64, query_heads: 128, page_size: 64, split_tokens: 1024 };

    #[test]
    fn unsupported_shapes_say_what_is_supported() {
        GOOD.check().unwrap();
        let bad = [
            (
                MlaDecodeShape { latent_dim: 640, ..GOOD },
                "latent_dim is 640; supported: multiples of 128 from 128 to 512",
            ),
            (MlaDecodeShape { rope_dim: 24, ..GOOD }, "rope_dim is 24; supported: multiples of 16 from 16 to 64"),
            (MlaDecodeShape { query_heads: 0, ..GOOD }, "query_heads is 0; supported: a positive multiple of kv_heads"),
            (MlaDecodeShape { page_size: 24, ..GOOD }, "page_size is 24; supported: powers of two up to 1048576"),
            (MlaDecodeShape { split_tokens: 0, ..GOOD }, "split_tokens is 0; supported: 1 to 1073741824"),
        ];
        for (shape, message) in bad {
            assert_eq!(shape.check().unwrap_err().to_string(), message);
        }
    }

    /// What a block of the smallest supported devices may have.
    #[test]
    fn shared_memory_fits_the_devices() {
        assert!(GOOD.shared_bytes() <= 99 << 10, "{}", GOOD.shared_bytes());
    }
}
