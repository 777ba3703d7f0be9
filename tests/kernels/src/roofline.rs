//! What the kernels that decide the speed of decoding read and do, counted by the emulator, beside the least they must
//! read. `cargo bench -p kernel-tests --bench roofline` prints it for `docs/roofline.md`.

use kernels::cuda::check::{DecodeProblem, GroupedGemmProblem, PoolOrder};
use kernels::cuda::{AttentionRules, CudaDevice, DecodeAttention, DecodeAttentionShape, GroupedGemm, GroupedGemmShape};

use crate::{Counters, Emulator};

/// Columns of a block of the grouped product, each of which reads its input rows again.
const BLOCK_COLUMNS: usize = 64;
/// Bytes per second that a copy moves on the GPU for which floors are given, an H200.
const BANDWIDTH: f64 = 4.3e12;

/// One kernel on one problem.
#[derive(Debug, Clone)]
pub struct Count {
    /// The kernel and the problem.
    pub name: String,
    /// What is counted per: tokens of context or rows.
    pub unit: &'static str,
    /// How many of them there are.
    pub units: usize,
    /// Bytes that any kernel must read.
    pub least: u64,
    /// Bytes that this one reads again, because several blocks need them.
    pub again: u64,
    /// What it did.
    pub counters: Counters,
}

impl Count {
    /// Bytes read beyond those that must be, and those that are known to be read again, as a part of the former.
    #[must_use]
    pub fn excess(&self) -> f64 {
        (self.counters.global_load_bytes - self.again) as f64 / self.least as f64 - 1.0
    }
}

/// Decode attention for one request with heads of 128 elements, `query_heads` of them and 8 key heads.
///
/// # Panics
///
/// If the device fails.
#[must_use]
pub fn decode(device: &CudaDevice, emulator: &Emulator, query_heads: usize, context: usize) -> Count {
    let shape = DecodeAttentionShape { head_dim: 128, query_heads, kv_heads: 8, page_size: 16, split_tokens: context };
    let rules = AttentionRules::default();
    let kernel = DecodeAttention::compile(device, shape, rules).unwrap();
    let problem = DecodeProblem::random(shape, rules, &[Some(context)], PoolOrder::TokenMajor, 1);
    problem.run(device, &kernel).unwrap();
    let (keys_and_values, queries) = (2 * shape.kv_heads * shape.head_dim * context, query_heads * shape.head_dim);
    Count {
        name: format!("decode attention, {query_heads} heads on 8 of 128 elements, {context} tokens"),
        unit: "token of context",
        units: context,
        least: 2 * (keys_and_values + queries) as u64,
        again: 0,
        counters: emulator.counters(),
    }
}

/// The grouped product of `rows` rows for each of 8 experts.
///
/// # Panics
///
/// If the device fails.
#[must_use]
pub fn product(device: &CudaDevice, emulator: &Emulator, rows: usize, columns: usize, depth: usize) -> Count {
    const EXPERTS: usize = 8;
    let shape = GroupedGemmShape { block_rows: rows, experts: EXPERTS, columns, depth, rows_per_input: 1 };
    let kernel = GroupedGemm::compile(device, shape).unwrap();
    let problem = GroupedGemmProblem::random(shape, &[rows; EXPERTS], 0, 2).unwrap();
    problem.run(device, &kernel).unwrap();
    let (weights, inputs) = (EXPERTS * columns * depth, EXPERTS * rows * depth);
    Count {
        name: format!("grouped product, {EXPERTS} experts of {columns} x {depth}, {rows} rows each"),
        unit: "row",
        units: EXPERTS * rows,
        least: 2 * (weights + inputs) as u64,
        again: 2 * (inputs * (columns.div_ceil(BLOCK_COLUMNS) - 1)) as u64,
        counters: emulator.counters(),
    }
}

/// The counts as a table in Markdown.
#[must_use]
pub fn table(counts: &[Count]) -> String {
    let head = "| kernel | least bytes | read once | read again | excess | floor | per | bytes | warp instructions | \
                matrix instructions | conflicts |\n|---|--:|--:|--:|--:|--:|---|--:|--:|--:|--:|";
    let row = |count: &Count| {
        let Count { name, unit, units, least, again, counters } = count;
        let once = counters.global_load_bytes - again;
        let per = |number: u64| number as f64 / *units as f64;
        format!(
            "| {name} | {least} | {once} | {again} | {:.1} % | {:.1} µs | {unit} | {:.0} | {:.1} | {:.1} | {} |",
            100.0 * count.excess(),
            1e6 * *least as f64 / BANDWIDTH,
            per(counters.global_load_bytes),
            per(counters.warp_instructions),
            per(counters.matrix_instructions),
            counters.bank_conflict_passes,
        )
    };
    let lines: Vec<_> = std::iter::once(head.to_owned()).chain(counts.iter().map(row)).collect();
    lines.join("\n") + "\n"
}
