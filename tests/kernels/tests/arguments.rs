//! A launch whose buffers do not fit its shape is refused before the device sees it.

use kernel_tests::device;
use kernel_tests::launches::SortedRows;
use kernels::cuda::{
    AttentionRules, CudaDevice, CudaError, CudaSlice, DecodeAttention, DecodeAttentionArgs, DecodeAttentionShape,
    DecodeWorkspace, GroupedGemm, GroupedGemmShape, KvLayout, PrefillAttention, PrefillAttentionArgs,
    PrefillAttentionShape,
};

const ATTENTION: DecodeAttentionShape =
    DecodeAttentionShape { head_dim: 32, query_heads: 4, kv_heads: 2, page_size: 16, split_tokens: 32 };
const REQUESTS: usize = 2;
const PAGES: usize = 3;
const WIDTH: usize = 5;

/// Lengths of the buffers that a batch reads beside its queries, each of which a test may change.
struct Pages {
    keys: usize,
    values: usize,
    layout: KvLayout,
    block_table: usize,
    table_width: usize,
    slots: usize,
    context: usize,
    sinks: Option<usize>,
    /// Elements to skip at the start of the keys.
    shift: usize,
}

/// The buffers.
struct PageBuffers {
    keys: CudaSlice<u16>,
    values: CudaSlice<u16>,
    block_table: CudaSlice<i32>,
    slots: CudaSlice<i32>,
    context: CudaSlice<i32>,
    sinks: Option<CudaSlice<f32>>,
}

impl Pages {
    fn right() -> Self {
        Self {
            keys: PAGES * 16 * 2 * 32,
            values: PAGES * 16 * 2 * 32,
            layout: KvLayout::token_major(ATTENTION.kv(), PAGES),
            block_table: 4 * WIDTH,
            table_width: WIDTH,
            slots: REQUESTS,
            context: REQUESTS,
            sinks: None,
            shift: 0,
        }
    }

    fn buffers(&self, device: &CudaDevice) -> Result<PageBuffers, CudaError> {
        Ok(PageBuffers {
            keys: device.zeros(self.keys + self.shift)?,
            values: device.zeros(self.values)?,
            block_table: device.zeros(self.block_table)?,
            slots: device.zeros(self.slots)?,
            context: device.zeros(self.context)?,
            sinks: self.sinks.map(|length| device.zeros(length)).transpose()?,
        })
    }

    /// Pages that no kernel without sinks may be launched with, and what the error names.
    fn wrong() -> Vec<(&'static str, Self)> {
        let right = Self::right;
        let layout = |change: fn(&mut KvLayout)| {
            let mut pages = right();
            change(&mut pages.layout);
            pages
        };
        vec![
            ("number of buffers of sinks", Self { sinks: Some(4), ..right() }),
            ("length of context", Self { context: REQUESTS + 1, ..right() }),
            ("length of block_table", Self { block_table: 19, ..right() }),
            ("length of block_table", Self { table_width: 0, ..right() }),
            ("length of the key pool", Self { keys: 3071, ..right() }),
            ("length of the value pool", Self { values: 3071, ..right() }),
            ("length of the key pool", layout(|layout| layout.page_stride += 8)),
            ("token_stride", layout(|layout| layout.token_stride -= 4)),
            ("head_stride", layout(|layout| layout.head_stride -= 4)),
            ("the key pool's address modulo 16", Self { shift: 4, ..right() }),
        ]
    }
}

fn assert_refused(what: &str, outcome: Result<(), CudaError>) {
    let error = outcome.unwrap_err();
    assert!(matches!(error, CudaError::Size { what: found, .. } if found == what), "{what}: {error}");
}

/// A batch for decode attention.
struct Decode {
    pages: Pages,
    query: usize,
    max_context: usize,
    output: usize,
    lse: usize,
    workspace_context: usize,
}

impl Decode {
    fn right() -> Self {
        Self::with(Pages::right())
    }

    fn with(pages: Pages) -> Self {
        let rows = REQUESTS * ATTENTION.query_heads;
        Self {
            pages,
            query: rows * ATTENTION.head_dim,
            max_context: 80,
            output: rows * ATTENTION.head_dim,
            lse: rows,
            workspace_context: 80,
        }
    }

    fn launch(&self, device: &CudaDevice, kernel: &DecodeAttention) -> Result<(), CudaError> {
        let query: CudaSlice<u16> = device.zeros(self.query)?;
        let pages = self.pages.buffers(device)?;
        let mut output: CudaSlice<u16> = device.zeros(self.output)?;
        let mut lse: CudaSlice<f32> = device.zeros(self.lse)?;
        let mut workspace = DecodeWorkspace::new(device, &ATTENTION, REQUESTS, self.workspace_context)?;
        device.paged_decode_attention(
            kernel,
            DecodeAttentionArgs {
                query: query.as_view(),
                keys: pages.keys.slice(self.pages.shift..),
                values: pages.values.as_view(),
                layout: self.pages.layout,
                block_table: pages.block_table.as_view(),
                table_width: self.pages.table_width,
                slots: pages.slots.as_view(),
                context: pages.context.as_view(),
                max_context: self.max_context,
                scale: 1.0,
                sinks: pages.sinks.as_ref().map(CudaSlice::as_view),
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
    let right = Decode::right;
    right().launch(&device, &kernel).unwrap();
    let wrong = [
        ("length of query", Decode { query: 255, ..right() }),
        ("length of output", Decode { output: 257, ..right() }),
        ("length of lse", Decode { lse: 7, ..right() }),
        ("max_context", Decode { max_context: 81, ..right() }),
        ("rows of the workspace", Decode { workspace_context: 64, ..right() }),
    ];
    let wrong_pages = Pages::wrong().into_iter().map(|(what, pages)| (what, Decode::with(pages)));
    for (what, batch) in wrong.into_iter().chain(wrong_pages) {
        assert_refused(what, batch.launch(&device, &kernel));
    }
}

const PREFILL: PrefillAttentionShape =
    PrefillAttentionShape { head_dim: 32, query_heads: 4, kv_heads: 2, page_size: 16 };
const TOKENS: usize = 6;

/// A batch for prefill attention.
struct Prefill {
    pages: Pages,
    query: usize,
    query_stride: usize,
    tokens: usize,
    query_starts: usize,
    output: usize,
    lse: Option<usize>,
    /// Elements to skip at the start of the output.
    shift: usize,
}

impl Prefill {
    fn right() -> Self {
        Self::with(Pages { layout: KvLayout::head_major(PREFILL.kv(), PAGES), ..Pages::right() })
    }

    fn with(pages: Pages) -> Self {
        Self {
            pages,
            query: 5 * 136 + 128,
            query_stride: 136,
            tokens: TOKENS,
            query_starts: REQUESTS + 1,
            output: TOKENS * 128,
            lse: Some(TOKENS * 4),
            shift: 0,
        }
    }

    fn launch(&self, device: &CudaDevice, kernel: &PrefillAttention) -> Result<(), CudaError> {
        let query: CudaSlice<u16> = device.zeros(self.query)?;
        let pages = self.pages.buffers(device)?;
        let query_starts: CudaSlice<i32> = device.zeros(self.query_starts)?;
        let mut output: CudaSlice<u16> = device.zeros(self.output + self.shift)?;
        let mut lse: Option<CudaSlice<f32>> = self.lse.map(|length| device.zeros(length)).transpose()?;
        device.paged_prefill_attention(
            kernel,
            PrefillAttentionArgs {
                query: query.as_view(),
                query_stride: self.query_stride,
                tokens: self.tokens,
                keys: pages.keys.slice(self.pages.shift..),
                values: pages.values.as_view(),
                layout: self.pages.layout,
                block_table: pages.block_table.as_view(),
                table_width: self.pages.table_width,
                slots: pages.slots.as_view(),
                query_starts: query_starts.as_view(),
                context: pages.context.as_view(),
                scale: 1.0,
                sinks: pages.sinks.as_ref().map(CudaSlice::as_view),
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
    let wrong = [
        ("length of query", Prefill { query: 5 * 136 + 127, ..right() }),
        ("length of query", Prefill { query_stride: usize::MAX / 8 * 8, ..right() }),
        ("query_stride", Prefill { query_stride: 132, ..right() }),
        ("tokens * query_heads + requests", Prefill { tokens: 1 << 29, ..right() }),
        ("length of output", Prefill { output: TOKENS * 128 + 1, ..right() }),
        ("length of lse", Prefill { lse: Some(TOKENS * 4 - 1), ..right() }),
        ("length of query_starts", Prefill { query_starts: REQUESTS, ..right() }),
        ("the output's address modulo 16", Prefill { shift: 4, ..right() }),
    ];
    let wrong_pages = Pages::wrong().into_iter().map(|(what, pages)| (what, Prefill::with(pages)));
    for (what, batch) in wrong.into_iter().chain(wrong_pages) {
        assert_refused(what, batch.launch(&device, &kernel));
    }
}

#[test]
fn a_kernel_for_sinks_wants_one_per_query_head() {
    let device = device();
    let rules = AttentionRules { sinks: true, ..AttentionRules::default() };
    let decode = DecodeAttention::compile(&device, ATTENTION, rules).unwrap();
    let prefill = PrefillAttention::compile(&device, PREFILL, rules).unwrap();
    let pages = |sinks| Pages { sinks, ..Pages::right() };
    Decode::with(pages(Some(4))).launch(&device, &decode).unwrap();
    Prefill::with(pages(Some(4))).launch(&device, &prefill).unwrap();
    for (sinks, what) in [(None, "number of buffers of sinks"), (Some(3), "length of sinks")] {
        assert_refused(what, Decode::with(pages(sinks)).launch(&device, &decode));
        assert_refused(what, Prefill::with(pages(sinks)).launch(&device, &prefill));
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
        let sorted = SortedRows {
            sorted_rows: device.zeros(sorted_rows)?,
            block_expert: device.zeros(block_expert)?,
            used_rows: device.zeros(1)?,
        };
        let mut output: CudaSlice<u16> = device.zeros(output)?;
        device.grouped_gemm(&kernel, sorted.product(&input, &weights, rows, &mut output))?;
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
        assert_refused(what, launch(sizes));
    }
}
