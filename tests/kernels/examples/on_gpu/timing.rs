//! How long kernels take, beside the least that an H200 could take and what is aimed at.
//!
//! A kernel is launched several times in a row between two events, and the least of several such runs is divided by
//! their number. Inputs are random and the same each time: what fits the cache of the device is read from there.

use std::time::{Duration, Instant};

use kernel_tests::launches::{DrawSettings, SortedRows};
use kernels::cuda::check::Noise;
use kernels::cuda::{
    AttentionRules, BlockFormat, CudaDevice, CudaError, CudaSlice, DecodeAttention, DecodeAttentionArgs,
    DecodeAttentionShape, DecodeWorkspace, Floats, FloatsMut, Gemm, GemmArgs, GemmTiles, GroupedGemm, GroupedGemmShape,
    HeadNorm, HeadNormWeights, KvLayout, KvShape, PrefillAttention, PrefillAttentionArgs, PrefillAttentionShape,
    QuantisedGemm, QuantisedGemmArgs, QuantisedMatrix, RmsNorm, RmsNormArgs, RmsNormShape, RopeKvWrite,
    RopeKvWriteArgs, RopeKvWriteShape, RowGroups, Rows, RowsMut, Sample, Staging, rope_turns,
};
use serde_json::{Value, json};

use crate::Step;

/// Launches between two events, and how often that is repeated.
const LAUNCHES: u32 = 20;
const REPEATS: usize = 5;
/// How long a device works before it is measured: idle, its clock is low.
const WARM_UP: Duration = Duration::from_millis(200);

/// Times each kernel; where `is_thin`, a small one of the same kind, which shows only that this works. Where `compiles_only`,
/// kernels are compiled for their sizes and not launched.
pub(crate) fn steps(is_thin: bool, compiles_only: bool) -> Vec<Step> {
    let row = |kernel: &'static str, floor, goal, took: Timing| {
        let (kind, rest): (&str, &str) = kernel.split_at(kernel.find(',').unwrap_or(kernel.len()));
        Step::of(kind, rest, move |device| {
            let bench = Bench { device, is_thin, compiles_only, launches: if is_thin { 1 } else { LAUNCHES } };
            Ok(took(&bench)?.map_or(Value::Null, |took| bench.row(kernel, floor, goal, took)).into())
        })
    };
    vec![
        row("product, 1 x 8192 x 28672", Some(109.0), 125.0, |bench| bench.product(1, 28672, 8192)),
        row("product, 16 x 8192 x 28672", Some(109.0), 125.0, |bench| bench.product(16, 28672, 8192)),
        row("product, 8192 x 4096 x 14336", Some(1230.0), 2000.0, |bench| bench.product(8192, 14336, 4096)),
        row("product with Q8_0, 1 x 8192 x 28672", Some(58.0), 75.0, |bench| bench.quantised(BlockFormat::Q8_0, 1)),
        row("product with Q4_0, 1 x 8192 x 28672", Some(31.0), 50.0, |bench| bench.quantised(BlockFormat::Q4_0, 1)),
        row("decode attention, 32 of 4096, 32/8/128", Some(125.0), 145.0, |bench| bench.decode(32, 4096, 8)),
        row("decode attention, 1 of 1024, 32/4/128", None, 10.0, |bench| bench.decode(1, 1024, 4)),
        row("decode attention, 1 of 131072, 32/8/128", Some(125.0), 150.0, |bench| bench.decode(1, 131_072, 8)),
        row("prefill attention, 1 of 8192, 32/8/128", Some(700.0), 1600.0, |bench| bench.prefill(8192)),
        row("RMSNorm with residual, 8192 x 4096", Some(62.0), 75.0, |bench| bench.norm(8192, 4096)),
        row("QK norm, RoPE and KV write, 8192 tokens, 32/8/128", Some(47.0), 60.0, |bench| bench.rope(8192)),
        row("experts of Qwen3-30B, 1 token", Some(18.0), 25.0, |bench| bench.experts(1)),
        row("experts of Qwen3-30B, 64 tokens", Some(279.0), 340.0, |bench| bench.experts(64)),
        row("experts of Qwen3-30B, 32768 tokens", Some(3200.0), 8000.0, |bench| bench.experts(32768)),
        row("top-k, top-p and draw, 64 of 151936", Some(9.0), 40.0, |bench| bench.sample(64, 151_936)),
    ]
}

/// How long a launch took; none where there was none.
type Timing = fn(&Bench<'_>) -> Result<Option<f64>, CudaError>;

struct Bench<'a> {
    device: &'a CudaDevice,
    is_thin: bool,
    compiles_only: bool,
    launches: u32,
}

impl Bench<'_> {
    fn row(&self, kernel: &str, floor: Option<f64>, goal: f64, took: f64) -> Value {
        println!("{kernel}: {took:.1} us");
        if self.is_thin {
            // Smaller than named: floor and goal do not apply.
            return json!({ "kernel": kernel, "took": took });
        }
        json!({ "kernel": kernel, "floor": floor, "goal": goal, "took": took, "reached": took <= goal })
    }

    /// A size, or a small one in its place.
    fn size(&self, full: usize, thin: usize) -> usize {
        if self.is_thin { full.min(thin) } else { full }
    }

    /// Microseconds of a launch. They are captured: one by one, the shortest would wait for the host.
    fn time(&self, mut launch: impl FnMut() -> Result<(), CudaError>) -> Result<Option<f64>, CudaError> {
        launch()?;
        let mut graph = self.device.capture(|| (0..self.launches).try_for_each(|_| launch()))?;
        let start = Instant::now();
        while !self.is_thin && start.elapsed() < WARM_UP {
            self.device.launch_graph(&mut graph)?;
            self.device.synchronize()?;
        }
        let mut least = f64::INFINITY;
        for _ in 0..if self.is_thin { 1 } else { REPEATS } {
            let took = self.device.time(|| self.device.launch_graph(&mut graph))?;
            least = least.min(took.as_secs_f64() * 1e6 / f64::from(self.launches));
        }
        Ok(Some(least))
    }

    /// Random bf16 values; of many, the first are repeated.
    fn random(&self, count: usize) -> Result<CudaSlice<u16>, CudaError> {
        let numbers = Noise::new(count as u64).normal_bf16(count.min(1 << 20));
        self.device.upload(&numbers.into_iter().cycle().take(count).collect::<Vec<_>>())
    }

    fn integers(&self, numbers: impl IntoIterator<Item = usize>) -> Result<CudaSlice<i32>, CudaError> {
        self.device.upload(&numbers.into_iter().map(|number| number as i32).collect::<Vec<_>>())
    }

    fn product(&self, rows: usize, columns: usize, depth: usize) -> Result<Option<f64>, CudaError> {
        let (rows, columns, depth) = (self.size(rows, 4), self.size(columns, 64), self.size(depth, 64));
        let kernel = Gemm::new(GemmTiles::default());
        kernel.prepare(self.device, rows, columns, depth)?;
        if self.compiles_only {
            return Ok(None);
        }
        let (input, weights) = (self.random(rows * depth)?, self.random(columns * depth)?);
        let mut output = self.device.zeros::<u16>(rows * columns)?;
        self.time(|| {
            self.device.gemm(
                &kernel,
                GemmArgs {
                    input: input.as_view(),
                    weights: weights.as_view(),
                    bias: None,
                    rows,
                    columns,
                    depth,
                    output: FloatsMut::Bf16(output.as_view_mut()),
                },
            )
        })
    }

    fn quantised(&self, format: BlockFormat, rows: usize) -> Result<Option<f64>, CudaError> {
        let (columns, depth) = (self.size(28672, 64), self.size(8192, 64));
        let kernel = QuantisedGemm::compile(self.device, format, GemmTiles::default())?;
        if self.compiles_only {
            return Ok(None);
        }
        let mut noise = Noise::new(9);
        // A finite scale, 2^-7, and any codes; of many blocks, the first are repeated.
        let codes = format.block_bytes() - 2;
        let block = |_| [0x00, 0x20].into_iter().chain((0..codes).map(|_| noise.below(256) as u8)).collect::<Vec<_>>();
        let some: Vec<u8> = (0..4096).flat_map(block).collect();
        let bytes = columns * depth / 32 * format.block_bytes();
        let bytes: Vec<u8> = some.iter().copied().cycle().take(bytes).collect();
        let mut staging = Staging::new(self.device, 4 << 20)?;
        let weights = QuantisedMatrix::upload(self.device, &mut staging, format, (columns, depth), &bytes)?;
        let input = self.random(rows * depth)?;
        let mut output = self.device.zeros::<u16>(rows * columns)?;
        self.time(|| {
            self.device.quantised_gemm(
                &kernel,
                QuantisedGemmArgs {
                    input: input.as_view(),
                    weights: &weights,
                    bias: None,
                    rows,
                    output: FloatsMut::Bf16(output.as_view_mut()),
                },
            )
        })
    }

    fn norm(&self, rows: usize, width: usize) -> Result<Option<f64>, CudaError> {
        let (rows, width) = (self.size(rows, 4), self.size(width, 128));
        let kernel = RmsNorm::compile(self.device, RmsNormShape { width })?;
        if self.compiles_only {
            return Ok(None);
        }
        let (input, mut residual) = (self.random(rows * width)?, self.random(rows * width)?);
        let (weight, mut output) = (self.random(width)?, self.device.zeros::<u16>(rows * width)?);
        self.time(|| {
            self.device.rms_norm(
                &kernel,
                RmsNormArgs {
                    input: Rows { values: input.as_view(), stride: width },
                    residual: Some(RowsMut { values: residual.as_view_mut(), stride: width }),
                    weight: Floats::Bf16(weight.as_view()),
                    epsilon: 1e-6,
                    rows,
                    output: RowsMut { values: output.as_view_mut(), stride: width },
                },
            )
        })
    }

    fn rope(&self, tokens: usize) -> Result<Option<f64>, CudaError> {
        let (tokens, head_dim, query_heads, kv_heads, page_size) = (self.size(tokens, 4), 128, 32, 8, 16);
        let shape = RopeKvWriteShape { head_dim, query_heads, kv_heads, page_size, norm: HeadNorm::PerHead };
        let kernel = RopeKvWrite::compile(self.device, shape)?;
        if self.compiles_only {
            return Ok(None);
        }
        let layout = KvLayout::token_major(KvShape { head_dim, kv_heads, page_size }, tokens.div_ceil(page_size));
        let pool = layout.pages * layout.page_stride;
        let (mut keys, mut values) = (self.device.zeros::<u16>(pool)?, self.device.zeros::<u16>(pool)?);
        let (row, query_row) = ((query_heads + 2 * kv_heads) * head_dim, query_heads * head_dim);
        let qkv = self.random(tokens * row)?;
        let mut query = self.device.zeros::<u16>(tokens * query_row)?;
        let (query_weight, key_weight) = (self.random(head_dim)?, self.random(head_dim)?);
        let frequencies: Vec<f64> = (0..head_dim / 2).map(|pair| 1e6_f64.powf(-2.0 * pair as f64 / 128.0)).collect();
        let turns = self.device.upload(&rope_turns(&frequencies, 1.0, tokens))?;
        let (positions, slots) = (self.integers(0..tokens)?, self.integers(0..tokens)?);
        self.time(|| {
            self.device.rope_kv_write(
                &kernel,
                RopeKvWriteArgs {
                    qkv: Rows { values: qkv.as_view(), stride: row },
                    norm: Some(HeadNormWeights {
                        query: Floats::Bf16(query_weight.as_view()),
                        key: Floats::Bf16(key_weight.as_view()),
                        epsilon: 1e-6,
                    }),
                    clip: None,
                    positions: positions.as_view(),
                    turns: turns.as_view(),
                    slots: slots.as_view(),
                    query: RowsMut { values: query.as_view_mut(), stride: query_row },
                    keys: keys.as_view_mut(),
                    values: values.as_view_mut(),
                    layout,
                },
            )
        })
    }

    fn decode(&self, requests: usize, context: usize, kv_heads: usize) -> Result<Option<f64>, CudaError> {
        let (requests, context) = (self.size(requests, 2), self.size(context, 100));
        let (head_dim, query_heads, page_size) = (128, 32, 16);
        let shape = DecodeAttentionShape { head_dim, query_heads, kv_heads, page_size, split_tokens: 256 };
        let kernel = DecodeAttention::compile(self.device, shape, AttentionRules::default())?;
        if self.compiles_only {
            return Ok(None);
        }
        let table_width = context.div_ceil(page_size);
        let layout = KvLayout::token_major(shape.kv(), requests * table_width);
        let pool = layout.pages * layout.page_stride;
        let (keys, values) = (self.random(pool)?, self.random(pool)?);
        let query = self.random(requests * query_heads * head_dim)?;
        let mut output = self.device.zeros::<u16>(requests * query_heads * head_dim)?;
        let mut lse = self.device.zeros::<f32>(requests * query_heads)?;
        let (block_table, slots) = (self.integers(0..layout.pages)?, self.integers(0..requests)?);
        let contexts = self.integers(vec![context; requests])?;
        let mut workspace = DecodeWorkspace::new(self.device, &shape, requests, context)?;
        self.time(|| {
            self.device.paged_decode_attention(
                &kernel,
                DecodeAttentionArgs {
                    query: query.as_view(),
                    keys: keys.as_view(),
                    values: values.as_view(),
                    layout,
                    block_table: block_table.as_view(),
                    table_width,
                    slots: slots.as_view(),
                    context: contexts.as_view(),
                    max_context: context,
                    scale: 0.088,
                    sinks: None,
                    output: output.as_view_mut(),
                    lse: lse.as_view_mut(),
                    workspace: &mut workspace,
                },
            )
        })
    }

    fn prefill(&self, tokens: usize) -> Result<Option<f64>, CudaError> {
        let tokens = self.size(tokens, 64);
        let (head_dim, query_heads, kv_heads, page_size) = (128, 32, 8, 16);
        let shape = PrefillAttentionShape { head_dim, query_heads, kv_heads, page_size };
        let kernel = PrefillAttention::compile(self.device, shape, AttentionRules::default())?;
        if self.compiles_only {
            return Ok(None);
        }
        let layout = KvLayout::token_major(shape.kv(), tokens.div_ceil(page_size));
        let pool = layout.pages * layout.page_stride;
        let (keys, values) = (self.random(pool)?, self.random(pool)?);
        let row = query_heads * head_dim;
        let query = self.random(tokens * row)?;
        let mut output = self.device.zeros::<u16>(tokens * row)?;
        let (block_table, slots) = (self.integers(0..layout.pages)?, self.integers([0])?);
        let (query_starts, context) = (self.integers([0, tokens])?, self.integers([tokens])?);
        self.time(|| {
            self.device.paged_prefill_attention(
                &kernel,
                PrefillAttentionArgs {
                    query: query.as_view(),
                    query_stride: row,
                    tokens,
                    keys: keys.as_view(),
                    values: values.as_view(),
                    layout,
                    block_table: block_table.as_view(),
                    table_width: layout.pages,
                    slots: slots.as_view(),
                    query_starts: query_starts.as_view(),
                    context: context.as_view(),
                    scale: 0.088,
                    sinks: None,
                    output: output.as_view_mut(),
                    lse: None,
                },
            )
        })
    }

    /// Both products of a layer of experts, each token with eight of them; without the activation between.
    fn experts(&self, tokens: usize) -> Result<Option<f64>, CudaError> {
        const CHOSEN: usize = 8;
        let (tokens, hidden, inner) = (self.size(tokens, 4), self.size(2048, 64), self.size(768, 32));
        let experts = self.size(128, 8);
        let rows = tokens * CHOSEN;
        let block_rows = [16, 64, 128][usize::from(rows > 16 * experts) + usize::from(rows > 256 * experts)];
        let up = GroupedGemmShape { block_rows, experts, columns: 2 * inner, depth: hidden, rows_per_input: CHOSEN };
        let down = GroupedGemmShape { block_rows, experts, columns: hidden, depth: inner, rows_per_input: 1 };
        let (up, down) = (GroupedGemm::compile(self.device, up)?, GroupedGemm::compile(self.device, down)?);
        if self.compiles_only {
            return Ok(None);
        }
        let mut noise = Noise::new(tokens as u64);
        let expert_of_row: Vec<i32> = (0..tokens)
            .flat_map(|_| {
                let mut all: Vec<i32> = (0..experts as i32).collect();
                noise.shuffle(&mut all);
                all.truncate(CHOSEN);
                all
            })
            .collect();
        let groups = RowGroups::new(&expert_of_row, experts, block_rows)?;
        let input = self.random(tokens * hidden)?;
        let (up_weights, down_weights) =
            (self.random(experts * 2 * inner * hidden)?, self.random(experts * hidden * inner)?);
        let activated = self.random(rows * inner)?;
        let mut widened = self.device.zeros::<u16>(rows * 2 * inner)?;
        let mut output = self.device.zeros::<u16>(rows * hidden)?;
        let sorted = SortedRows::upload(self.device, &groups)?;
        self.time(|| {
            self.device.grouped_gemm(&up, sorted.product(&input, &up_weights, rows, &mut widened))?;
            self.device.grouped_gemm(&down, sorted.product(&activated, &down_weights, rows, &mut output))
        })
    }

    fn sample(&self, rows: usize, vocabulary: usize) -> Result<Option<f64>, CudaError> {
        let (rows, vocabulary) = (self.size(rows, 2), self.size(vocabulary, 1000));
        let kernel = Sample::compile(self.device)?;
        if self.compiles_only {
            return Ok(None);
        }
        let mut noise = Noise::new(1);
        let logits: Vec<f32> = (0..rows * vocabulary).map(|_| noise.normal() * 3.0).collect();
        let logits = self.device.upload(&logits)?;
        let settings = DrawSettings::cut_at(self.device, rows, 50, 0.9)?;
        let mut tokens = self.device.zeros::<i32>(rows)?;
        self.time(|| self.device.sample(&kernel, settings.draw(&logits, (vocabulary, vocabulary), &mut tokens)))
    }
}
