//! A launch whose buffers do not fit its shape is refused before the device sees it.

use kernel_tests::device;
use kernels::cuda::{
    AttentionRules, CudaDevice, CudaError, CudaSlice, DecodeAttention, DecodeAttentionArgs, DecodeAttentionShape,
    DecodeWorkspace, GroupedGemm, GroupedGemmArgs, GroupedGemmShape, KvLayout, PrefillAttention, PrefillAttentionArgs,
    PrefillAttentionShape,
};

const ATTENTION: DecodeAttentionShape =
    DecodeAttentionShape { head_dim: 32, query_heads: 4, kv_heads: 2, page_size: 16, split_tokens: 32 };
const REQUESTS: usize = 2;
const PAGES: usize = 3;
const WIDTH: usize = 5;

/// A batch's buffers, each with a length that a test may change.
struct Attention {
    query: usize,
    keys: usize,
    layout: KvLayout,
    block_table: usize,
    slots: usize,
    max_context: usize,
    output: usize,
    lse: usize,
    workspace_context: usize,
    sinks: Option<usize>,
    /// Elements to skip at the start of the keys.
    shift: usize,
}

impl Attention {
    fn right() -> Self {
        let rows = REQUESTS * ATTENTION.query_heads;
        Self {
            query: rows * ATTENTION.head_dim,
            keys: PAGES * 16 * 2 * 32,
            layout: KvLayout::token_major(ATTENTION.kv(), PAGES),
            block_table: 4 * WIDTH,
            slots: REQUESTS,
            max_context: 80,
            output: rows * ATTENTION.head_dim,
            lse: rows,
            workspace_context: 80,
            sinks: None,
            shift: 0,
        }
    }

    fn launch(&self, device: &CudaDevice, kernel: &DecodeAttention) -> Result<(), CudaError> {
        let query: CudaSlice<u16> = device.zeros(self.query)?;
        let keys: CudaSlice<u16> = device.zeros(self.keys + self.shift)?;
        let values: CudaSlice<u16> = device.zeros(PAGES * 16 * 2 * 32)?;
        let block_table: CudaSlice<i32> = device.zeros(self.block_table)?;
        let slots: CudaSlice<i32> = device.zeros(self.slots)?;
        let sinks: Option<CudaSlice<f32>> = self.sinks.map(|length| device.zeros(length)).transpose()?;
        let context: CudaSlice<i32> = device.zeros(REQUESTS)?;
        let mut output: CudaSlice<u16> = device.zeros(self.output)?;
        let mut lse: CudaSlice<f32> = device.zeros(self.lse)?;
        let mut workspace = DecodeWorkspace::new(device, &ATTENTION, REQUESTS, self.workspace_context)?;
        device.paged_decode_attention(
            kernel,
            DecodeAttentionArgs {
                query: query.as_view(),
                keys: keys.slice(self.shift..),
                values: values.as_view(),
                layout: self.layout,
                block_table: block_table.as_view(),
                table_width: WIDTH,
                slots: slots.as_view(),
                context: context.as_view(),
                max_context: self.max_context,
                scale: 1.0,
                sinks: sinks.as_ref().map(CudaSlice::as_view),
                output: output.as_view_mut(),
                lse: lse.as_view_mut(),
                workspace: &mut workspace,
            },
        )?;
        device.synchronize()
    }
}

#[test]
fn attention_checks_every_size() {
    let device = device();
    let kernel = DecodeAttention::compile(&device, ATTENTION, AttentionRules::default()).unwrap();
    let right = Attention::right;
    right().launch(&device, &kernel).unwrap();
    let mut odd_stride = right();
    odd_stride.layout.token_stride -= 4;
    let mut long_stride = right();
    long_stride.layout.page_stride += 8;
    let wrong = [
        ("number of buffers of sinks", Attention { sinks: Some(4), ..right() }),
        ("length of query", Attention { query: 255, ..right() }),
        ("length of output", Attention { output: 257, ..right() }),
        ("length of lse", Attention { lse: 7, ..right() }),
        ("length of slots", Attention { slots: 3, ..right() }),
        ("length of block_table", Attention { block_table: 19, ..right() }),
        ("max_context", Attention { max_context: 81, ..right() }),
        ("rows of the workspace", Attention { workspace_context: 64, ..right() }),
        ("length of the key pool", Attention { keys: 3071, ..right() }),
        ("length of the key pool", long_stride),
        ("token_stride", odd_stride),
        ("the key pool's address modulo 16", Attention { shift: 4, ..right() }),
    ];
    for (what, batch) in wrong {
        let error = batch.launch(&device, &kernel).unwrap_err();
        assert!(matches!(error, CudaError::Size { what: found, .. } if found == what), "{what}: {error}");
    }
}

const PREFILL: PrefillAttentionShape =
    PrefillAttentionShape { head_dim: 32, query_heads: 4, kv_heads: 2, page_size: 16 };
const TOKENS: usize = 6;

/// As [`Attention`], for runs of query tokens.
struct Prefill {
    query: usize,
    query_stride: usize,
    tokens: usize,
    values: usize,
    layout: KvLayout,
    block_table: usize,
    table_width: usize,
    query_starts: usize,
    context: usize,
    output: usize,
    lse: Option<usize>,
    sinks: Option<usize>,
    /// Elements to skip at the start of the output.
    shift: usize,
}

impl Prefill {
    fn right() -> Self {
        Self {
            query: 5 * 136 + 128,
            query_stride: 136,
            tokens: TOKENS,
            values: PAGES * 16 * 2 * 32,
            layout: KvLayout::head_major(PREFILL.kv(), PAGES),
            block_table: 4 * WIDTH,
            table_width: WIDTH,
            query_starts: REQUESTS + 1,
            context: REQUESTS,
            output: TOKENS * 128,
            lse: Some(TOKENS * 4),
            sinks: None,
            shift: 0,
        }
    }

    fn launch(&self, device: &CudaDevice, kernel: &PrefillAttention) -> Result<(), CudaError> {
        let query: CudaSlice<u16> = device.zeros(self.query)?;
        let keys: CudaSlice<u16> = device.zeros(PAGES * 16 * 2 * 32)?;
        let values: CudaSlice<u16> = device.zeros(self.values)?;
        let block_table: CudaSlice<i32> = device.zeros(self.block_table)?;
        let slots: CudaSlice<i32> = device.zeros(REQUESTS)?;
        let query_starts: CudaSlice<i32> = device.zeros(self.query_starts)?;
        let sinks: Option<CudaSlice<f32>> = self.sinks.map(|length| device.zeros(length)).transpose()?;
        let context: CudaSlice<i32> = device.zeros(self.context)?;
        let mut output: CudaSlice<u16> = device.zeros(self.output + self.shift)?;
        let mut lse: Option<CudaSlice<f32>> = self.lse.map(|length| device.zeros(length)).transpose()?;
        device.paged_prefill_attention(
            kernel,
            PrefillAttentionArgs {
                query: query.as_view(),
                query_stride: self.query_stride,
                tokens: self.tokens,
                keys: keys.as_view(),
                values: values.as_view(),
                layout: self.layout,
                block_table: block_table.as_view(),
                table_width: self.table_width,
                slots: slots.as_view(),
                query_starts: query_starts.as_view(),
                context: context.as_view(),
                scale: 1.0,
                sinks: sinks.as_ref().map(CudaSlice::as_view),
                output: output.slice_mut(self.shift..),
                lse: lse.as_mut().map(CudaSlice::as_view_mut),
            },
        )?;
        device.synchronize()
    }
}

#[test]
fn prefill_checks_every_size() {
    let device = device();
    let kernel = PrefillAttention::compile(&device, PREFILL, AttentionRules::default()).unwrap();
    let right = Prefill::right;
    right().launch(&device, &kernel).unwrap();
    Prefill { lse: None, ..right() }.launch(&device, &kernel).unwrap();
    let mut odd_stride = right();
    odd_stride.layout.head_stride -= 4;
    let with_sinks = AttentionRules { sinks: true, ..AttentionRules::default() };
    let with_sinks = PrefillAttention::compile(&device, PREFILL, with_sinks).unwrap();
    Prefill { sinks: Some(4), ..right() }.launch(&device, &with_sinks).unwrap();
    for (sinks, what) in [(None, "number of buffers of sinks"), (Some(3), "length of sinks")] {
        let error = Prefill { sinks, ..right() }.launch(&device, &with_sinks).unwrap_err();
        assert!(matches!(error, CudaError::Size { what: found, .. } if found == what), "{what}: {error}");
    }
    let wrong = [
        ("length of query", Prefill { query: 5 * 136 + 127, ..right() }),
        ("length of query", Prefill { query_stride: usize::MAX / 8 * 8, ..right() }),
        ("query_stride", Prefill { query_stride: 132, ..right() }),
        ("tokens * query_heads + requests", Prefill { tokens: 1 << 29, ..right() }),
        ("length of output", Prefill { output: TOKENS * 128 + 1, ..right() }),
        ("length of lse", Prefill { lse: Some(TOKENS * 4 - 1), ..right() }),
        ("length of query_starts", Prefill { query_starts: REQUESTS, ..right() }),
        ("length of context", Prefill { context: REQUESTS + 1, ..right() }),
        ("length of block_table", Prefill { block_table: 19, ..right() }),
        ("length of block_table", Prefill { table_width: 0, ..right() }),
        ("length of the value pool", Prefill { values: 3071, ..right() }),
        ("head_stride", odd_stride),
        ("the output's address modulo 16", Prefill { shift: 4, ..right() }),
    ];
    for (what, batch) in wrong {
        let error = batch.launch(&device, &kernel).unwrap_err();
        assert!(matches!(error, CudaError::Size { what: found, .. } if found == what), "{what}: {error}");
    }
}

const PRODUCT: GroupedGemmShape =
    GroupedGemmShape { block_rows: 16, experts: 2, columns: 64, depth: 32, rows_per_input: 2 };

#[test]
fn products_check_every_size() {
    /// Lengths of input, weights, sorted rows, block experts and output, and the number of rows.
    const RIGHT: [usize; 6] = [4 * 32, 2 * 64 * 32, 32, 2, 8 * 64, 8];
    let device = device();
    let kernel = GroupedGemm::compile(&device, PRODUCT).unwrap();
    let launch = |sizes: [usize; 6]| {
        let [input, weights, sorted_rows, block_expert, output, rows] = sizes;
        let input: CudaSlice<u16> = device.zeros(input)?;
        let weights: CudaSlice<u16> = device.zeros(weights)?;
        let sorted_rows: CudaSlice<i32> = device.zeros(sorted_rows)?;
        let block_expert: CudaSlice<i32> = device.zeros(block_expert)?;
        let used_rows: CudaSlice<i32> = device.zeros(1)?;
        let mut output: CudaSlice<u16> = device.zeros(output)?;
        device.grouped_gemm(
            &kernel,
            GroupedGemmArgs {
                input: input.as_view(),
                weights: weights.as_view(),
                sorted_rows: sorted_rows.as_view(),
                block_expert: block_expert.as_view(),
                used_rows: used_rows.as_view(),
                rows,
                output: output.as_view_mut(),
            },
        )?;
        device.synchronize()
    };
    launch(RIGHT).unwrap();
    let wrong = [
        ("length of input", 0, 127),
        ("length of weights", 1, 4095),
        ("length of sorted_rows", 2, 33),
        ("length of sorted_rows", 3, 3),
        ("length of output", 4, 513),
        ("rows", 5, 7),
    ];
    for (what, index, size) in wrong {
        let mut sizes = RIGHT;
        sizes[index] = size;
        let error = launch(sizes).unwrap_err();
        assert!(matches!(error, CudaError::Size { what: found, .. } if found == what), "{what}: {error}");
    }
}
