//! Paged prefill attention: any number of query tokens per request against its pages of the KV pool.

use cudarc::driver::{CudaView, CudaViewMut, PushKernelArg};

use super::attention_batch::{AttentionHeads, PagedBatch};
use super::attention_rules::AttentionRules;
use super::device::{CudaDevice, LoadedFunction};
use super::error::{CudaError, require, require_size};
use super::kernel::{Grid, push_optional, start};
use super::kv_pool::{KvLayout, KvShape, require_aligned};
use super::nvrtc::{KernelSource, Program};

/// The sizes that the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefillAttentionShape {
    /// Elements of a head: a multiple of 16 up to 256.
    pub head_dim: usize,
    /// Query heads of the model.
    pub query_heads: usize,
    /// Key/value heads; divides the query heads.
    pub kv_heads: usize,
    /// Tokens in a page, a power of two.
    pub page_size: usize,
}

const THREADS: usize = 128;
/// Pairs of a token and a head that a block takes.
const ROWS: usize = 64;

impl PrefillAttentionShape {
    /// Says what is wrong with a shape that the kernel does not support.
    pub fn check(&self) -> Result<(), CudaError> {
        self.heads().check()
    }

    fn heads(&self) -> AttentionHeads {
        AttentionHeads { kv: self.kv(), query_heads: self.query_heads }
    }

    /// What the pages hold.
    #[must_use]
    pub fn kv(&self) -> KvShape {
        KvShape { head_dim: self.head_dim, kv_heads: self.kv_heads, page_size: self.page_size }
    }

    /// The size of the kernel's `Shared`: queries, and two stages of keys and values and of where they are.
    fn shared_bytes(&self) -> usize {
        let keys = if self.head_dim > 128 { 32 } else { 64 };
        let (element, offset) = (size_of::<u16>(), size_of::<i64>());
        (ROWS + 2 * 2 * keys) * self.head_dim * element + 2 * keys * offset
    }
}

/// The arguments of one launch, on the device.
///
/// The contents of `block_table`, `slots`, `query_starts` and `context` cannot be checked before the launch. Wrong ones
/// make the kernel read the wrong keys, or fail where there is no memory; it writes nothing outside its results.
#[derive(Debug)]
pub struct PrefillAttentionArgs<'a> {
    /// `[tokens, query_heads, head_dim]`, tokens `query_stride` apart: a part of a wider buffer may be given as it is.
    pub query: CudaView<'a, u16>,
    /// From a query token to the next, in elements.
    pub query_stride: usize,
    /// Query tokens of all requests, and of padding.
    pub tokens: usize,
    /// The key pool. It holds the query tokens' own keys already.
    pub keys: CudaView<'a, u16>,
    /// The value pool.
    pub values: CudaView<'a, u16>,
    /// How both pools are laid out.
    pub layout: KvLayout,
    /// `[slots, table_width]`: the pages of each slot's tokens, in order. Entries past a context are not read.
    pub block_table: CudaView<'a, i32>,
    /// Pages that a slot's row of the block table has room for.
    pub table_width: usize,
    /// `[requests]`: each request's slot; -1 marks padding, whose tokens get zeros.
    pub slots: CudaView<'a, i32>,
    /// `[requests + 1]`: the first query token of each request, ascending, and the end of the last one's. Tokens from
    /// there on are padding and get zeros.
    pub query_starts: CudaView<'a, i32>,
    /// `[requests]`: tokens of each request, its query tokens the last of them.
    pub context: CudaView<'a, i32>,
    /// What scores are multiplied by, usually one over the square root of `head_dim`.
    pub scale: f32,
    /// `[query_heads]`, if the rules have them: each query head's sink.
    pub sinks: Option<CudaView<'a, f32>>,
    /// `[tokens, query_heads, head_dim]`. Zeros where nothing is visible.
    pub output: CudaViewMut<'a, u16>,
    /// `[tokens, query_heads]`, if it is wanted: natural logarithm of the softmax denominator, minus infinity where
    /// nothing is visible.
    pub lse: Option<CudaViewMut<'a, f32>>,
}

/// The kernel, compiled for a shape and loaded on a device.
#[derive(Debug)]
pub struct PrefillAttention {
    shape: PrefillAttentionShape,
    rules: AttentionRules,
    tree: bool,
    attention: LoadedFunction,
    /// The compiler's messages.
    pub log: String,
}

impl PrefillAttention {
    /// The kernel's source.
    pub const SOURCE: KernelSource =
        KernelSource::embedded("paged_prefill_attention.cu", include_str!("../../cu/paged_prefill_attention.cu"));

    /// Compiles the kernel for a shape and rules.
    pub fn compile(
        device: &CudaDevice,
        shape: PrefillAttentionShape,
        rules: AttentionRules,
    ) -> Result<Self, CudaError> {
        Self::compile_source(device, shape, rules, Self::SOURCE)
    }

    /// Compiles the kernel for query tokens that are trees, for [`CudaDevice::paged_tree_attention`]. There is no window
    /// then.
    pub fn compile_tree(
        device: &CudaDevice,
        shape: PrefillAttentionShape,
        rules: AttentionRules,
    ) -> Result<Self, CudaError> {
        Self::compile_tree_source(device, shape, rules, Self::SOURCE)
    }

    /// As [`compile_source`](Self::compile_source), for trees.
    pub fn compile_tree_source(
        device: &CudaDevice,
        shape: PrefillAttentionShape,
        rules: AttentionRules,
        source: KernelSource,
    ) -> Result<Self, CudaError> {
        if let Some(window) = rules.window {
            return Err(CudaError::Unsupported {
                what: "window",
                value: window,
                supported: "none together with trees",
            });
        }
        Self::load(device, shape, rules, source, true)
    }

    /// Compiles another text of the kernel, such as a deliberately broken one in a test of the checks.
    pub fn compile_source(
        device: &CudaDevice,
        shape: PrefillAttentionShape,
        rules: AttentionRules,
        source: KernelSource,
    ) -> Result<Self, CudaError> {
        Self::load(device, shape, rules, source, false)
    }

    fn load(
        device: &CudaDevice,
        shape: PrefillAttentionShape,
        rules: AttentionRules,
        source: KernelSource,
        tree: bool,
    ) -> Result<Self, CudaError> {
        let mut program = Self::program(shape, rules, source)?;
        program.defines.retain(|(name, _)| *name != "TREE");
        program.defines.push(("TREE", usize::from(tree)));
        let module = device.load(&program)?;
        let attention = module.function_with_shared("paged_prefill_attention", shape.shared_bytes() as u32)?;
        Ok(Self { shape, rules, tree, attention, log: module.log })
    }

    /// A source of this kernel with the sizes of a shape and the switches of rules.
    pub fn program(
        shape: PrefillAttentionShape,
        rules: AttentionRules,
        source: KernelSource,
    ) -> Result<Program, CudaError> {
        shape.check()?;
        rules.check()?;
        let mut defines = shape.heads().macros(&rules);
        defines.extend([("SHARED_BYTES", shape.shared_bytes()), ("TREE", 0)]);
        Ok(Program { source, defines })
    }

    /// The rules it was compiled for.
    #[must_use]
    pub fn rules(&self) -> &AttentionRules {
        &self.rules
    }

    /// The shape it was compiled for.
    #[must_use]
    pub fn shape(&self) -> &PrefillAttentionShape {
        &self.shape
    }
}

impl CudaDevice {
    /// Launches prefill attention for a batch. Nothing is allocated, and the grid depends on the numbers of tokens and
    /// of requests alone.
    pub fn paged_prefill_attention(
        &self,
        kernel: &PrefillAttention,
        args: PrefillAttentionArgs<'_>,
    ) -> Result<(), CudaError> {
        self.launch_prefill(kernel, args, None)
    }

    /// As [`paged_prefill_attention`](Self::paged_prefill_attention), for query tokens that are drafts in a tree: a token
    /// sees all of its context that is before its request's query tokens, and of those the ones that its mask in `tree`,
    /// `[tokens]`, has a bit for, itself only if it has one. Bit i is the request's i-th query token; from the 64th on
    /// none is seen.
    pub fn paged_tree_attention(
        &self,
        kernel: &PrefillAttention,
        args: PrefillAttentionArgs<'_>,
        tree: &CudaView<'_, u64>,
    ) -> Result<(), CudaError> {
        require_size("length of tree", tree.len(), args.tokens)?;
        self.launch_prefill(kernel, args, Some(tree))
    }

    fn launch_prefill(
        &self,
        kernel: &PrefillAttention,
        args: PrefillAttentionArgs<'_>,
        tree: Option<&CudaView<'_, u64>>,
    ) -> Result<(), CudaError> {
        require("number of trees", usize::from(tree.is_some()), tree.is_some() == kernel.tree, || {
            if kernel.tree { "one: it is compiled for trees" } else { "none: it is compiled without" }.to_owned()
        })?;
        let shape = &kernel.shape;
        self.check_prefill_args(kernel, &args)?;
        if args.tokens == 0 {
            return Ok(());
        }
        let PrefillAttentionArgs { mut output, mut lse, .. } = args;
        let query_stride = args.query_stride as i64;
        let strides = args.layout.strides();
        let requests = args.slots.len();
        let (table_width, request_count, tokens) = (args.table_width as i32, requests as i32, args.tokens as i32);
        let group = shape.query_heads / shape.kv_heads;
        let blocks = [args.tokens * group / ROWS + requests + 1, shape.kv_heads, 1];
        let grid = Grid { blocks, threads: THREADS, shared_bytes: shape.shared_bytes() };
        let (nowhere, softcap) = (0_u64, kernel.rules.softcap_argument());
        let mut launch = self.launch_builder(&kernel.attention)?;
        launch
            .arg(&args.query)
            .arg(&args.keys)
            .arg(&args.values)
            .arg(&args.block_table)
            .arg(&args.slots)
            .arg(&args.query_starts)
            .arg(&args.context)
            .arg(&mut output);
        match &mut lse {
            Some(lse) => launch.arg(lse),
            None => launch.arg(&nowhere),
        };
        push_optional(&mut launch, args.sinks.as_ref());
        push_optional(&mut launch, tree);
        launch
            .arg(&query_stride)
            .arg(&strides[0])
            .arg(&strides[1])
            .arg(&strides[2])
            .arg(&table_width)
            .arg(&request_count)
            .arg(&tokens)
            .arg(&args.scale)
            .arg(&softcap);
        // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
        unsafe { start(&mut launch, grid, "launching prefill attention") }
    }

    fn check_prefill_args(&self, kernel: &PrefillAttention, args: &PrefillAttentionArgs<'_>) -> Result<(), CudaError> {
        let shape = &kernel.shape;
        let (tokens, requests) = (args.tokens, args.slots.len());
        let fits_i32 = |number: usize| i32::try_from(number).is_ok();
        let rows = tokens.saturating_mul(shape.query_heads);
        require("tokens * query_heads + requests", rows, fits_i32(rows.saturating_add(requests + 1)), || {
            "less than 2^31".to_owned()
        })?;
        let token_elements = shape.query_heads * shape.head_dim;
        let stride = args.query_stride;
        require_aligned("query_stride", stride)?;
        let query = tokens.checked_sub(1).map_or(Some(0), |last| last.checked_mul(stride)?.checked_add(token_elements));
        require("length of query", args.query.len(), query.is_some_and(|query| args.query.len() >= query), || {
            query.map_or_else(|| "a stride whose offsets fit 63 bits".to_owned(), |query| format!("at least {query}"))
        })?;
        require_size("length of output", args.output.len(), tokens * token_elements)?;
        if let Some(lse) = &args.lse {
            require_size("length of lse", lse.len(), rows)?;
        }
        require_size("length of query_starts", args.query_starts.len(), requests + 1)?;
        let PrefillAttentionArgs { keys, values, block_table, table_width, slots, context, layout, .. } = args;
        let (layout, table_width, sinks) = (*layout, *table_width, args.sinks.as_ref());
        let batch = PagedBatch { keys, values, layout, block_table, table_width, slots, context, sinks };
        batch.check(self, shape.heads(), &kernel.rules)?;
        require_size("the query's address modulo 16", self.misalignment(&args.query), 0)?;
        require_size("the output's address modulo 16", self.misalignment(&args.output), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: PrefillAttentionShape =
        PrefillAttentionShape { head_dim: 128, query_heads: 32, kv_heads: 8, page_size: 16 };

    #[test]
    fn unsupported_shapes_say_what_is_supported() {
        GOOD.check().unwrap();
        let bad = [
            (
                PrefillAttentionShape { head_dim: 72, ..GOOD },
                "head_dim is 72; supported: multiples of 16 from 16 to 256",
            ),
            (
                PrefillAttentionShape { head_dim: 272, ..GOOD },
                "head_dim is 272; supported: multiples of 16 from 16 to 256",
            ),
            (PrefillAttentionShape { kv_heads: 0, ..GOOD }, "kv_heads is 0; supported: one head or more"),
            (
                PrefillAttentionShape { query_heads: 12, ..GOOD },
                "query_heads is 12; supported: a positive multiple of kv_heads",
            ),
            (
                PrefillAttentionShape { page_size: 24, ..GOOD },
                "page_size is 24; supported: powers of two up to 1048576",
            ),
        ];
        for (shape, message) in bad {
            assert_eq!(shape.check().unwrap_err().to_string(), message);
        }
    }

    /// Two blocks of the widest heads that are usual must fit a multiprocessor of the smallest supported device.
    #[test]
    fn shared_memory_fits_the_devices() {
        for (head_dim, most) in [(64, 48 << 10), (128, 82 << 10), (256, 99 << 10)] {
            let bytes = PrefillAttentionShape { head_dim, ..GOOD }.shared_bytes();
            assert!(bytes <= most, "{head_dim}: {bytes}");
        }
    }
}
