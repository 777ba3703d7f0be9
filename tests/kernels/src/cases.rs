//! The problems that the kernels must solve, on whatever device.

use kernels::cuda::check::{
    Comparison, DecodeProblem, GroupedGemmProblem, MlaDecodeProblem, Noise, PoolOrder, PrefillProblem, PrefillRequest,
};
use kernels::cuda::{
    AttentionRules, CudaDevice, DecodeAttention, DecodeAttentionShape, GatedGemm, GatedGemmShape, GroupedGemm,
    GroupedGemmShape, MlaDecode, MlaDecodeShape, PrefillAttention, PrefillAttentionShape,
};

/// Contexts around the boundaries of pages and splits; an empty one and a padding row among them.
const CONTEXTS: [Option<usize>; 8] = [Some(17), Some(0), Some(513), None, Some(1), Some(16), Some(100), Some(15)];

/// Query tokens and contexts: prompts, chunks, single tokens and padding in one batch, around the boundaries of pages and
/// steps; fewer keys than query tokens, no query token, and nothing at all.
const RUNS: [(usize, Option<usize>); 12] = [
    (37, Some(37)),
    (17, Some(97)),
    (1, Some(54)),
    (0, Some(20)),
    (3, None),
    (64, Some(64)),
    (65, Some(130)),
    (1, Some(1)),
    (16, Some(16)),
    (5, Some(2)),
    (0, Some(0)),
    (1, Some(65)),
];

/// Rows per expert around the boundary of a block, and experts without rows first, last and between.
const ROWS: [usize; 8] = [0, 1, 63, 64, 0, 65, 17, 0];

/// A batch for decode attention.
#[derive(Debug, Clone)]
pub struct AttentionCase {
    /// What the kernel is compiled for.
    pub shape: DecodeAttentionShape,
    /// What it does beside the softmax.
    pub rules: AttentionRules,
    /// One request per entry.
    pub contexts: Vec<Option<usize>>,
    /// How the pools lie.
    pub order: PoolOrder,
    /// Decides the inputs.
    pub seed: u64,
}

/// A batch for decode attention over compressed keys and values.
#[derive(Debug, Clone)]
pub struct MlaCase {
    /// What the kernel is compiled for.
    pub shape: MlaDecodeShape,
    /// One request per entry.
    pub contexts: Vec<Option<usize>>,
    /// Decides the inputs.
    pub seed: u64,
}

/// A batch for prefill attention.
#[derive(Debug, Clone)]
pub struct PrefillCase {
    /// What the kernel is compiled for.
    pub shape: PrefillAttentionShape,
    /// What it does beside the softmax.
    pub rules: AttentionRules,
    /// Query tokens and context of each request.
    pub requests: Vec<PrefillRequest>,
    /// Query tokens of no request.
    pub padding: usize,
    /// How the pools lie.
    pub order: PoolOrder,
    /// Decides the inputs.
    pub seed: u64,
}

/// A batch for the grouped product.
#[derive(Debug, Clone)]
pub struct ProductCase {
    /// What the kernel is compiled for.
    pub shape: GroupedGemmShape,
    /// Rows of each expert.
    pub rows: Vec<usize>,
    /// Rows whose expert has no weights here.
    pub foreign: usize,
    /// Decides the inputs.
    pub seed: u64,
}

impl AttentionCase {
    /// Solves the problem on a device and compares; prints the errors.
    ///
    /// # Panics
    ///
    /// If the result is wrong or the device fails.
    pub fn check(&self, device: &CudaDevice) {
        println!("{self:?}");
        let kernel = DecodeAttention::compile(device, self.shape, self.rules).unwrap();
        let problem = DecodeProblem::random(self.shape, self.rules, &self.contexts, self.order, self.seed);
        let found = problem.run(device, &kernel).unwrap();
        assert_solved(&problem.compare(&found), found.guards_intact);
    }
}

impl MlaCase {
    /// Solves the problem on a device and compares; prints the errors.
    ///
    /// # Panics
    ///
    /// If the result is wrong or the device fails.
    pub fn check(&self, device: &CudaDevice) {
        println!("{self:?}");
        let kernel = MlaDecode::compile(device, self.shape).unwrap();
        let problem = MlaDecodeProblem::random(self.shape, &self.contexts, self.seed);
        let found = problem.run(device, &kernel).unwrap();
        assert_solved(&problem.compare(&found), found.guards_intact);
    }
}

impl PrefillCase {
    /// Solves the problem on a device and compares; prints the errors.
    ///
    /// # Panics
    ///
    /// If the result is wrong or the device fails.
    pub fn check(&self, device: &CudaDevice) {
        println!("{self:?}");
        let kernel = PrefillAttention::compile(device, self.shape, self.rules).unwrap();
        let problem =
            PrefillProblem::random(self.shape, self.rules, &self.requests, self.padding, self.order, self.seed);
        let found = problem.run(device, &kernel).unwrap();
        assert_solved(&problem.compare(&found), found.guards_intact);
    }
}

impl ProductCase {
    /// Solves the problem on a device and compares; prints the errors.
    ///
    /// # Panics
    ///
    /// If the result is wrong or the device fails.
    pub fn check(&self, device: &CudaDevice) {
        println!("{self:?}");
        let kernel = GroupedGemm::compile(device, self.shape).unwrap();
        let problem = GroupedGemmProblem::random(self.shape, &self.rows, self.foreign, self.seed).unwrap();
        let found = problem.run(device, &kernel).unwrap();
        assert_solved(&[problem.compare(&found)], found.guards_intact);
    }

    /// The same for a gated product, which comes out as wide.
    ///
    /// # Panics
    ///
    /// If the result is wrong or the device fails.
    pub fn check_gated(&self, device: &CudaDevice) {
        println!("gated, {self:?}");
        let kernel = GatedGemm::compile(device, GatedGemmShape(self.shape)).unwrap();
        let problem = GroupedGemmProblem::gated(self.shape, &self.rows, self.foreign, self.seed).unwrap();
        let found = problem.run_gated(device, &kernel).unwrap();
        assert_solved(&[problem.compare(&found)], found.guards_intact);
    }
}

/// Every result must be near enough, and the memory around them as it was.
pub(crate) fn assert_solved(comparisons: &[Comparison], guards_intact: bool) {
    comparisons.iter().for_each(assert_near);
    assert!(guards_intact, "wrote outside its results");
}

pub(crate) fn assert_near(comparison: &Comparison) {
    println!("  {comparison}");
    assert!(comparison.holds(), "{comparison}");
}

/// Decode attention with heads of `head_dim` elements: page sizes by group sizes, split and not, the pools in either
/// order in turn.
#[must_use]
pub fn attention(head_dim: usize) -> Vec<AttentionCase> {
    let (page_sizes, groups): (&[usize], &[usize]) = match head_dim {
        64 | 128 => (&[1, 16, 64], &[1, 4, 8]),
        32 | 256 => (&[16], &[1, 3, 4, 20]),
        _ => (&[16], &[1, 5]),
    };
    let mut cases = Vec::new();
    for &page_size in page_sizes {
        for &group in groups {
            for split_tokens in [64, 1024] {
                let seed = (head_dim * 1000 + cases.len()) as u64;
                cases.push(AttentionCase {
                    shape: DecodeAttentionShape {
                        head_dim,
                        query_heads: 2 * group,
                        kv_heads: 2,
                        page_size,
                        split_tokens,
                    },
                    rules: AttentionRules::default(),
                    contexts: CONTEXTS.to_vec(),
                    order: order(cases.len()),
                    seed,
                });
            }
        }
    }
    cases
}

/// Windows around the boundaries of pages, steps and contexts; caps that bend the scores; sinks; and all at once.
fn all_rules() -> Vec<AttentionRules> {
    let none = AttentionRules::default();
    let windows = [1, 3, 13, 16, 43, 64, 65, 533].map(|window| AttentionRules { window: Some(window), ..none });
    let others = [
        AttentionRules { softcap: Some(1.5), ..none },
        AttentionRules { softcap: Some(30.0), ..none },
        AttentionRules { sinks: true, ..none },
        AttentionRules { window: Some(37), softcap: Some(2.0), sinks: true },
    ];
    windows.into_iter().chain(others).collect()
}

fn random_rules(noise: &mut Noise) -> AttentionRules {
    AttentionRules {
        window: (noise.below(2) == 0).then(|| 1 + noise.below(150)),
        softcap: [None, Some(1.0), Some(50.0)][noise.below(3)],
        sinks: noise.below(2) == 0,
    }
}

/// The pools in either order in turn.
fn order(index: usize) -> PoolOrder {
    [PoolOrder::TokenMajor, PoolOrder::HeadMajor][index % 2]
}

fn runs() -> Vec<PrefillRequest> {
    RUNS.iter().map(|&(tokens, context)| PrefillRequest { tokens, context }).collect()
}

/// Decode attention with every rule, contexts split and not.
#[must_use]
pub fn attention_with_rules() -> Vec<AttentionCase> {
    let rules = all_rules().into_iter().enumerate();
    rules
        .map(|(index, rules)| AttentionCase {
            shape: DecodeAttentionShape {
                head_dim: 64,
                query_heads: [6, 14][index / 4 % 2],
                kv_heads: 2,
                page_size: 16,
                split_tokens: [64, 1024][index % 2],
            },
            rules,
            contexts: CONTEXTS.to_vec(),
            order: order(index / 2),
            seed: 70 + index as u64,
        })
        .collect()
}

/// Prefill attention with every rule.
#[must_use]
pub fn prefill_with_rules() -> Vec<PrefillCase> {
    let rules = all_rules().into_iter().enumerate();
    rules
        .map(|(index, rules)| PrefillCase {
            shape: PrefillAttentionShape { head_dim: 32, query_heads: 6, kv_heads: 2, page_size: 16 },
            rules,
            requests: runs(),
            padding: 1,
            order: order(index),
            seed: 90 + index as u64,
        })
        .collect()
}

/// Decode attention in shapes and batches drawn at random: groups that fit no block evenly, splits that are not whole
/// pages, one head or several.
#[must_use]
pub fn random_attention(seed: u64) -> AttentionCase {
    let mut noise = Noise::new(seed);
    let mut one_of = |choices: &[usize]| choices[noise.below(choices.len())];
    let kv_heads = one_of(&[1, 2, 3]);
    let shape = DecodeAttentionShape {
        head_dim: one_of(&[16, 32, 64, 80, 96, 128, 192, 256]),
        query_heads: kv_heads * one_of(&[1, 2, 3, 5, 7, 11, 16, 33]),
        kv_heads,
        page_size: one_of(&[1, 2, 8, 16, 32, 128]),
        split_tokens: one_of(&[1, 7, 32, 37, 100, 256, 4096]),
    };
    let longest = one_of(&[3, 40, 200, 300]);
    let contexts = (0..=noise.below(5)).map(|_| (noise.below(6) > 0).then(|| noise.below(longest + 1))).collect();
    let order = order(noise.below(2));
    AttentionCase { shape, rules: random_rules(&mut noise), contexts, order, seed }
}

/// Decode attention over compressed keys and values: rows of the sizes that models have and of others, whose depth is no
/// multiple of what warps share; heads that fill no block and several; split and not.
#[must_use]
pub fn mla() -> Vec<MlaCase> {
    let few = [Some(33), None, Some(1), Some(0), Some(130)];
    [
        ((512, 64, 16, 64), 1024, &CONTEXTS[..]),
        ((512, 64, 128, 64), 64, &few[..3]),
        ((512, 64, 20, 1), 40, &few),
        ((256, 32, 40, 16), 64, &CONTEXTS),
        ((128, 16, 5, 16), 64, &CONTEXTS),
        ((128, 48, 16, 2), 1024, &few),
        ((384, 64, 1, 128), 128, &few),
    ]
    .into_iter()
    .enumerate()
    .map(|(index, ((latent_dim, rope_dim, query_heads, page_size), split_tokens, contexts))| MlaCase {
        shape: MlaDecodeShape { latent_dim, rope_dim, query_heads, page_size, split_tokens },
        contexts: contexts.to_vec(),
        seed: 300 + index as u64,
    })
    .collect()
}

/// The same in shapes and batches drawn at random.
#[must_use]
pub fn random_mla(seed: u64) -> MlaCase {
    let mut noise = Noise::new(seed);
    let mut one_of = |choices: &[usize]| choices[noise.below(choices.len())];
    let shape = MlaDecodeShape {
        latent_dim: one_of(&[128, 128, 256, 384, 512]),
        rope_dim: one_of(&[16, 32, 48, 64]),
        query_heads: one_of(&[1, 3, 8, 16, 17, 32]),
        page_size: one_of(&[1, 2, 16, 64]),
        split_tokens: one_of(&[1, 7, 32, 37, 100, 4096]),
    };
    let longest = one_of(&[3, 40, 150]);
    let contexts = (0..=noise.below(4)).map(|_| (noise.below(6) > 0).then(|| noise.below(longest + 1))).collect();
    MlaCase { shape, contexts, seed }
}

/// Prefill attention with heads of `head_dim` elements: page sizes by group sizes, the pools in either order in turn.
#[must_use]
pub fn prefill(head_dim: usize) -> Vec<PrefillCase> {
    let shapes: &[(usize, usize)] = match head_dim {
        16 => &[(16, 2), (4, 1)],
        64 => &[(1, 4), (16, 7), (64, 1)],
        128 => &[(16, 1), (16, 8), (128, 4)],
        _ => &[(16, 4)],
    };
    shapes
        .iter()
        .enumerate()
        .map(|(index, &(page_size, group))| PrefillCase {
            shape: PrefillAttentionShape { head_dim, query_heads: 2 * group, kv_heads: 2, page_size },
            rules: AttentionRules::default(),
            requests: runs(),
            padding: index % 2 * 3,
            order: order(head_dim / 16 + index),
            seed: (head_dim * 1000 + index) as u64,
        })
        .collect()
}

/// Prefill attention in shapes and batches drawn at random.
#[must_use]
pub fn random_prefill(seed: u64) -> PrefillCase {
    let mut noise = Noise::new(seed);
    let mut one_of = |choices: &[usize]| choices[noise.below(choices.len())];
    let kv_heads = one_of(&[1, 2, 3]);
    let shape = PrefillAttentionShape {
        head_dim: one_of(&[16, 32, 48, 64, 80, 96, 112, 128, 192]),
        query_heads: kv_heads * one_of(&[1, 2, 3, 4, 5, 7, 8, 16]),
        kv_heads,
        page_size: one_of(&[1, 2, 8, 16, 32, 128]),
    };
    let (most, longest) = (one_of(&[1, 20, 80]), one_of(&[3, 70, 300]));
    let requests = (0..=noise.below(40))
        .map(|_| {
            let tokens = noise.below(most + 1);
            let context = (noise.below(6) > 0).then(|| tokens + noise.below(longest + 1));
            PrefillRequest { tokens, context }
        })
        .scan(0, |total, request| {
            *total += request.tokens;
            (*total < 160).then_some(request)
        })
        .collect();
    let order = order(noise.below(2));
    PrefillCase { shape, rules: random_rules(&mut noise), requests, padding: noise.below(5), order, seed }
}

/// Grouped products in blocks of `block_rows`: whole tiles, parts of tiles in either direction, and less than one tile;
/// one, some and many steps along the depth.
#[must_use]
pub fn products(block_rows: usize) -> Vec<ProductCase> {
    let sizes = [(64, 32), (128, 64), (104, 72), (8, 8), (200, 160), (64, 320)];
    sizes
        .into_iter()
        .enumerate()
        .map(|(index, (columns, depth))| ProductCase {
            shape: GroupedGemmShape {
                block_rows,
                experts: ROWS.len(),
                columns,
                depth,
                rows_per_input: [1, 2, 8][index % 3],
            },
            rows: ROWS.to_vec(),
            foreign: index % 2 * 20,
            seed: (block_rows * 100 + index) as u64,
        })
        .collect()
}

/// Grouped products in shapes and batches drawn at random.
#[must_use]
pub fn random_product(seed: u64) -> ProductCase {
    let mut noise = Noise::new(seed);
    let experts = 1 + noise.below(9);
    let rows = (0..experts).map(|_| noise.below(3) * noise.below(60)).collect();
    let shape = GroupedGemmShape {
        block_rows: [16, 32, 64, 128][noise.below(4)],
        experts,
        columns: 8 * (1 + noise.below(24)),
        depth: 8 * (1 + noise.below(40)),
        rows_per_input: 1 + noise.below(8),
    };
    ProductCase { shape, rows, foreign: noise.below(20), seed }
}
