//! Paged decode attention: one query token per request against its pages of the KV pool.
//!
//! There are two kernels, and the shape decides which is used: tensor cores where four or more query heads share a key
//! head, or where the other kernel is not made for the heads.

use cudarc::driver::{CudaSlice, CudaView, CudaViewMut, PushKernelArg};

use super::attention_batch::{AttentionHeads, PagedBatch};
use super::attention_rules::AttentionRules;
use super::decode_batch::DecodeBatch;
use super::device::{CudaDevice, LoadedFunction};
use super::error::CudaError;
use super::kernel::{Grid, push_optional, start};
use super::kv_pool::{KvLayout, KvShape};
use super::merge_splits::{MergeSplits, MergeSplitsShape, Splits};
use super::nvrtc::{KernelSource, Program};

/// The sizes that the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeAttentionShape {
    /// Elements of a head: a multiple of 16 up to 256.
    pub head_dim: usize,
    /// Query heads of the model.
    pub query_heads: usize,
    /// Key/value heads; divides the query heads.
    pub kv_heads: usize,
    /// Tokens in a page, a power of two.
    pub page_size: usize,
    /// Tokens of a context that one block works through; longer contexts are split and merged.
    pub split_tokens: usize,
}

/// Query heads per key head from which on the kernel of tensor cores is used: they pad them to sixteen.
const TENSOR_GROUP: usize = 4;
/// Query heads that a block of tensor cores takes.
const ROWS: usize = 16;

/// How a kernel is launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Blocks {
    /// The second dimension of the grid.
    of_heads: usize,
    threads: usize,
    shared_bytes: usize,
}

impl DecodeAttentionShape {
    /// Says what is wrong with a shape that the kernel does not support.
    pub fn check(&self) -> Result<(), CudaError> {
        self.heads().check()?;
        Splits::check_tokens(self.split_tokens)
    }

    /// What the pages hold.
    #[must_use]
    pub fn kv(&self) -> KvShape {
        KvShape { head_dim: self.head_dim, kv_heads: self.kv_heads, page_size: self.page_size }
    }

    fn heads(&self) -> AttentionHeads {
        AttentionHeads { kv: self.kv(), query_heads: self.query_heads }
    }

    /// Splits of a launch whose longest context is `max_context`.
    fn splits(&self, max_context: usize) -> Splits {
        Splits::new(self.split_tokens, max_context)
    }

    /// Rows of a workspace for batches of up to `requests` whose longest context is `max_context`.
    fn workspace_rows(&self, requests: usize, max_context: usize) -> usize {
        self.splits(max_context).parts(requests * self.query_heads)
    }

    /// Single-precision numbers of a [`DecodeWorkspace`] of these sizes.
    #[must_use]
    pub fn workspace_elements(&self, requests: usize, max_context: usize) -> usize {
        self.workspace_rows(requests, max_context) * (self.head_dim + 1)
    }

    /// Whether the kernel of tensor cores is the one for this shape.
    fn uses_tensor_cores(&self) -> bool {
        self.query_heads / self.kv_heads >= TENSOR_GROUP || !matches!(self.head_dim, 32 | 64 | 128 | 256)
    }

    fn blocks(&self) -> Blocks {
        if !self.uses_tensor_cores() {
            return Blocks { of_heads: self.kv_heads, threads: 128, shared_bytes: 0 };
        }
        let warps = if self.head_dim > 128 { 2 } else { 4 };
        let (keys, stages) = (warps * ROWS, if self.head_dim > 64 { 2 } else { 4 });
        let of_heads = self.kv_heads * (self.query_heads / self.kv_heads).div_ceil(ROWS);
        // The kernel's `Shared`: stages of keys and values, queries, where keys are, and a maximum and a sum per row.
        let elements = 2 * stages * keys * self.head_dim + ROWS * self.head_dim;
        let shared_bytes =
            elements * size_of::<u16>() + stages * keys * size_of::<i64>() + 2 * warps * ROWS * size_of::<f32>();
        Blocks { of_heads, threads: 32 * warps, shared_bytes }
    }
}

/// What splits leave for the merge.
#[derive(Debug)]
pub struct DecodeWorkspace {
    pub(super) output: CudaSlice<f32>,
    pub(super) lse: CudaSlice<f32>,
}

impl DecodeWorkspace {
    /// Room for batches of up to `requests` whose longest context is `max_context`.
    pub fn new(
        device: &CudaDevice,
        shape: &DecodeAttentionShape,
        requests: usize,
        max_context: usize,
    ) -> Result<Self, CudaError> {
        let rows = shape.workspace_rows(requests, max_context);
        Self::of_rows(device, rows, shape.head_dim)
    }

    /// Room for as many rows of parts.
    pub(super) fn of_rows(device: &CudaDevice, rows: usize, head_dim: usize) -> Result<Self, CudaError> {
        Ok(Self { output: device.zeros(rows * head_dim)?, lse: device.zeros(rows)? })
    }
}

/// The arguments of one launch, on the device.
///
/// The contents of `block_table`, `slots` and `context` cannot be checked before the launch. Wrong ones make the
/// kernel read the wrong keys, or fail where there is no memory; what it writes depends on checked sizes alone.
#[derive(Debug)]
pub struct DecodeAttentionArgs<'a> {
    /// `[requests, query_heads, head_dim]`.
    pub query: CudaView<'a, u16>,
    /// The key pool.
    pub keys: CudaView<'a, u16>,
    /// The value pool.
    pub values: CudaView<'a, u16>,
    /// How both pools are laid out.
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
    /// What scores are multiplied by, usually one over the square root of `head_dim`.
    pub scale: f32,
    /// `[query_heads]`, if the rules have them: each query head's sink.
    pub sinks: Option<CudaView<'a, f32>>,
    /// `[requests, query_heads, head_dim]`. Zeros where nothing is visible.
    pub output: CudaViewMut<'a, u16>,
    /// `[requests, query_heads]`: natural logarithm of the softmax denominator, minus infinity where nothing is visible.
    pub lse: CudaViewMut<'a, f32>,
    /// Room for the splits.
    pub workspace: &'a mut DecodeWorkspace,
}

/// The kernel, compiled for a shape and loaded on a device.
#[derive(Debug)]
pub struct DecodeAttention {
    shape: DecodeAttentionShape,
    rules: AttentionRules,
    attention: LoadedFunction,
    merge: MergeSplits,
    /// The compiler's messages.
    pub log: String,
}

/// The sizes of what joins the splits.
fn merged_shape(shape: &DecodeAttentionShape, rules: &AttentionRules) -> MergeSplitsShape {
    MergeSplitsShape { head_dim: shape.head_dim, query_heads: shape.query_heads, sinks: rules.sinks }
}

impl DecodeAttention {
    /// The source of the kernel that uses no tensor cores.
    pub const PLAIN_SOURCE: KernelSource =
        KernelSource::embedded("paged_decode_attention.cu", include_str!("../../cu/paged_decode_attention.cu"));

    /// The source of the kernel that uses tensor cores.
    pub const TENSOR_SOURCE: KernelSource = KernelSource::embedded(
        "paged_decode_attention_tensor.cu",
        include_str!("../../cu/paged_decode_attention_tensor.cu"),
    );

    /// The source of the kernel that joins the splits of a context.
    pub const MERGE_SOURCE: KernelSource = MergeSplits::SOURCE;

    /// The source that a shape is served by.
    #[must_use]
    pub fn source(shape: &DecodeAttentionShape) -> KernelSource {
        if shape.kv_heads > 0 && shape.uses_tensor_cores() { Self::TENSOR_SOURCE } else { Self::PLAIN_SOURCE }
    }

    /// Compiles the kernel for a shape and rules.
    pub fn compile(device: &CudaDevice, shape: DecodeAttentionShape, rules: AttentionRules) -> Result<Self, CudaError> {
        Self::compile_sources(device, shape, rules, Self::source(&shape), Self::MERGE_SOURCE)
    }

    /// Compiles other texts of the kernel and of the merge, such as deliberately broken ones in a test of the checks.
    pub fn compile_sources(
        device: &CudaDevice,
        shape: DecodeAttentionShape,
        rules: AttentionRules,
        source: KernelSource,
        merge: KernelSource,
    ) -> Result<Self, CudaError> {
        let module = device.load(&Self::program(shape, rules, source)?)?;
        let merge = MergeSplits::compile_source(device, merged_shape(&shape, &rules), merge)?;
        Ok(Self {
            shape,
            rules,
            attention: module.function_with_shared("paged_decode_attention", shape.blocks().shared_bytes as u32)?,
            log: module.log + &merge.log,
            merge,
        })
    }

    /// What [`compile`](Self::compile) compiles.
    pub fn programs(shape: DecodeAttentionShape, rules: AttentionRules) -> Result<[Program; 2], CudaError> {
        let attention = Self::program(shape, rules, Self::source(&shape))?;
        Ok([attention, MergeSplits::program(merged_shape(&shape, &rules), Self::MERGE_SOURCE)?])
    }

    /// A source of this kernel with the sizes of a shape and the switches of rules.
    pub fn program(
        shape: DecodeAttentionShape,
        rules: AttentionRules,
        source: KernelSource,
    ) -> Result<Program, CudaError> {
        shape.check()?;
        rules.check()?;
        let mut defines = shape.heads().macros(&rules);
        defines.extend([("SPLIT_TOKENS", shape.split_tokens), ("SHARED_BYTES", shape.blocks().shared_bytes)]);
        Ok(Program { source, defines })
    }

    /// The rules it was compiled for.
    #[must_use]
    pub fn rules(&self) -> &AttentionRules {
        &self.rules
    }

    /// The shape it was compiled for.
    #[must_use]
    pub fn shape(&self) -> &DecodeAttentionShape {
        &self.shape
    }
}

impl CudaDevice {
    /// Launches decode attention for a batch.
    pub fn paged_decode_attention(
        &self,
        kernel: &DecodeAttention,
        args: DecodeAttentionArgs<'_>,
    ) -> Result<(), CudaError> {
        let shape = &kernel.shape;
        let requests = args.slots.len();
        args.check(self, kernel)?;
        if requests == 0 {
            return Ok(());
        }
        let DecodeAttentionArgs { mut output, mut lse, workspace, layout, .. } = args;
        let splits = shape.splits(args.max_context);
        let strides = layout.strides();
        let softcap = kernel.rules.softcap_argument();
        let (table_width, split_count) = (args.table_width as i32, splits.count as i32);
        let Blocks { of_heads, threads, shared_bytes } = shape.blocks();
        let grid = Grid { blocks: [requests, of_heads, splits.count], threads, shared_bytes };
        let mut launch = self.launch_builder(&kernel.attention)?;
        launch
            .arg(&args.query)
            .arg(&args.keys)
            .arg(&args.values)
            .arg(&args.block_table)
            .arg(&args.slots)
            .arg(&args.context)
            .arg(&mut output)
            .arg(&mut lse)
            .arg(&mut workspace.output)
            .arg(&mut workspace.lse);
        push_optional(&mut launch, args.sinks.as_ref());
        launch
            .arg(&strides[0])
            .arg(&strides[1])
            .arg(&strides[2])
            .arg(&table_width)
            .arg(&split_count)
            .arg(&args.scale)
            .arg(&softcap);
        // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
        unsafe { start(&mut launch, grid, "launching decode attention") }?;
        if splits.count == 1 {
            return Ok(());
        }
        let rows = requests * shape.query_heads;
        let results = (&mut output, &mut lse);
        self.merge_decode_splits(&kernel.merge, workspace, (rows, splits.count), results, args.sinks.as_ref())
    }
}

impl DecodeAttentionArgs<'_> {
    fn check(&self, device: &CudaDevice, kernel: &DecodeAttention) -> Result<(), CudaError> {
        let shape = &kernel.shape;
        let batch = DecodeBatch {
            pages: PagedBatch {
                keys: &self.keys,
                values: &self.values,
                layout: self.layout,
                block_table: &self.block_table,
                table_width: self.table_width,
                slots: &self.slots,
                context: &self.context,
                sinks: self.sinks.as_ref(),
            },
            query: &self.query,
            output: &self.output,
            lse: &self.lse,
            workspace: self.workspace,
            max_context: self.max_context,
            splits: shape.splits(self.max_context),
        };
        batch.check(device, shape.heads(), &kernel.rules, shape.head_dim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: DecodeAttentionShape =
        DecodeAttentionShape { head_dim: 128, query_heads: 32, kv_heads: 8, page_size: 16, split_tokens: 256 };

    #[test]
    fn unsupported_shapes_say_what_is_supported() {
        GOOD.check().unwrap();
        let bad = [
            (
                DecodeAttentionShape { head_dim: 72, ..GOOD },
                "head_dim is 72; supported: multiples of 16 from 16 to 256",
            ),
            (DecodeAttentionShape { kv_heads: 0, ..GOOD }, "kv_heads is 0; supported: one head or more"),
            (
                DecodeAttentionShape { query_heads: 12, ..GOOD },
                "query_heads is 12; supported: a positive multiple of kv_heads",
            ),
            (DecodeAttentionShape { page_size: 24, ..GOOD }, "page_size is 24; supported: powers of two up to 1048576"),
            (DecodeAttentionShape { split_tokens: 0, ..GOOD }, "split_tokens is 0; supported: 1 to 1073741824"),
        ];
        for (shape, message) in bad {
            assert_eq!(shape.check().unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn tensor_cores_serve_groups_of_four_and_odd_heads() {
        for (head_dim, query_heads, tensor, of_heads) in
            [(128, 8, false, 8), (128, 24, false, 8), (80, 8, true, 8), (128, 32, true, 8), (64, 136, true, 16)]
        {
            let shape = DecodeAttentionShape { head_dim, query_heads, ..GOOD };
            assert_eq!(shape.uses_tensor_cores(), tensor, "{shape:?}");
            assert_eq!(shape.blocks().of_heads, of_heads, "{shape:?}");
        }
    }

    /// What a block of the smallest supported devices may have, twice: two blocks fit a multiprocessor of most.
    #[test]
    fn shared_memory_fits_the_devices() {
        for head_dim in (16..=256).step_by(16) {
            let bytes = DecodeAttentionShape { head_dim, ..GOOD }.blocks().shared_bytes;
            assert!(bytes <= 80 << 10, "{head_dim}: {bytes}");
        }
    }
}
