//! What there is beside attention and experts.

use kernels::cuda::check::{
    ArgmaxProblem, Comparison, GatedDeltaProblem, GatedDeltaRun, GatherProblem, NormProblem, PageCopyProblem,
    PoolOrder, RopeProblem, SampleProblem, ShapeLogitsProblem, SiluMulProblem, WeightFormat,
};
use kernels::cuda::{
    Argmax, CopyPages, CudaDevice, CudaError, GatedDelta, GatedDeltaShape, GatherRows, GatherRowsShape, HeadNorm,
    KernelSource, RmsNorm, RmsNormShape, RopeKvWrite, RopeKvWriteShape, Sample, ShapeLogits, SiluMul, SiluMulShape,
};

use super::{Problem, Subject};

pub(super) fn subjects() -> Vec<Subject> {
    vec![
        Subject {
            file: "gather_rows.cu",
            problems: vec![
                gather("narrow rows", 24, (5, 9), true),
                gather("rows of several blocks", 2048, (3, 9), false),
                gather("single elements", 7, (5, 12), false),
            ],
        },
        Subject {
            file: "silu_mul.cu",
            problems: vec![silu("single elements", 111), silu("rows of several blocks", 2056)],
        },
        Subject {
            file: "rms_norm.cu",
            problems: vec![
                norm("few vectors", 136, (true, WeightFormat::Bf16)),
                norm("few vectors, nothing added", 136, (false, WeightFormat::Bf16)),
                norm("single elements", 111, (false, WeightFormat::F32)),
                norm("many rounds", 4104, (true, WeightFormat::Bf16)),
                norm("rows wider than the registers", 33_001, (true, WeightFormat::Bf16)),
                norm("vectors wider than the registers", 40_960, (true, WeightFormat::F32)),
            ],
        },
        Subject {
            file: "rope_kv_write.cu",
            problems: vec![
                rope("no normalisation", 64, HeadNorm::None, (PoolOrder::TokenMajor, WeightFormat::Bf16)),
                rope("heads normalised", 80, HeadNorm::PerHead, (PoolOrder::HeadMajor, WeightFormat::Bf16)),
                rope("all heads normalised", 192, HeadNorm::AllHeads, (PoolOrder::HeadMajor, WeightFormat::Bf16)),
                rope("weights of 32 bits", 64, HeadNorm::PerHead, (PoolOrder::TokenMajor, WeightFormat::F32)),
            ],
        },
        Subject {
            file: "gated_delta.cu",
            problems: vec![
                gated_delta("heads that share keys", (2, 4, 64, 32), true),
                gated_delta("long keys", (1, 1, 128, 64), false),
            ],
        },
        Subject {
            file: "argmax.cu",
            problems: vec![
                argmax("small", 111, 9, WeightFormat::F32),
                argmax("large", 1536, 1, WeightFormat::F32),
                argmax("logits of 16 bits", 111, 9, WeightFormat::Bf16),
            ],
        },
        Subject {
            file: "copy_pages.cu",
            problems: vec![copies("small pages", 4, 64, 8), copies("pages of several blocks", 5, 40_000, 8)],
        },
        Subject {
            file: "shape_logits.cu",
            problems: vec![logits("short masks", 600, 1, 500), logits("long masks", 64, 5, 96)],
        },
        Subject {
            file: "sample.cu",
            problems: vec![
                Problem::new("borders between tokens", solve_borders),
                draws("few tokens", 110, 5, 3),
                draws("a token for every thread", 22, 1024, 1),
                draws("many tokens", 66, 3073, 0),
            ],
        },
    ]
}

fn gather(name: &'static str, width: usize, rows: (usize, usize), unsigned: bool) -> Problem {
    Problem::new(name, move |device, source| {
        let shape = GatherRowsShape { width };
        let kernel = GatherRows::compile_source(device, shape, source)?;
        let gap = if width.is_multiple_of(8) { 8 } else { 3 };
        let problem = GatherProblem::random(shape, rows, unsigned, gap, 42);
        let (found, guards_intact) = problem.run(device, &kernel)?;
        Ok(found == problem.reference() && guards_intact)
    })
}

fn silu(name: &'static str, width: usize) -> Problem {
    Problem::new(name, move |device, source| {
        let shape = SiluMulShape { width };
        let kernel = SiluMul::compile_source(device, shape, source)?;
        let problem = SiluMulProblem::random(shape, 3, 8, 44);
        let (found, guards_intact) = problem.run(device, &kernel)?;
        Ok(problem.compare(&found).holds() && guards_intact)
    })
}

fn norm(name: &'static str, width: usize, kind: (bool, WeightFormat)) -> Problem {
    Problem::new(name, move |device, source| {
        let shape = RmsNormShape { width };
        let kernel = RmsNorm::compile_source(device, shape, source)?;
        let problem = NormProblem::random(shape, 3, kind, 8, 41);
        let found = problem.run(device, &kernel)?;
        Ok(problem.compare(&found).holds() && found.guards_intact && found.residual == problem.reference().residual)
    })
}

fn rope(name: &'static str, head_dim: usize, norm: HeadNorm, formats: (PoolOrder, WeightFormat)) -> Problem {
    Problem::new(name, move |device, source| {
        let shape = RopeKvWriteShape { head_dim, query_heads: 7, kv_heads: 2, page_size: 2, norm };
        let kernel = RopeKvWrite::compile_source(device, shape, source)?;
        let positions = [Some(30), Some(2), None, None, Some(5), Some(9), Some(8)];
        let problem = RopeProblem::random(shape, &positions, formats, Some(0.75), 43);
        let found = problem.run(device, &kernel)?;
        Ok(problem.compare(&found).iter().all(Comparison::holds) && found.guards_intact)
    })
}

/// Steps, and runs around the boundaries of chunks, with and without a state before, with padding among them and after.
fn gated_delta(name: &'static str, size: (usize, usize, usize, usize), normalise: bool) -> Problem {
    let (key_heads, value_heads, key_dim, value_dim) = size;
    let shape = GatedDeltaShape { key_heads, value_heads, key_dim, value_dim, normalise };
    Problem::new(name, move |device, source| {
        let kernel = GatedDelta::compile_source(device, shape, source)?;
        let run = |(tokens, continues)| GatedDeltaRun { tokens, continues };
        let steps = [(1, Some(true)), (1, None), (1, Some(true))].map(run);
        let steps = GatedDeltaProblem::random(shape, &steps, 0, 8, 55);
        let found = steps.run_decode(device, &kernel)?;
        if !found.guards_intact || !steps.compare_decode(&found).iter().all(Comparison::holds) {
            return Ok(false);
        }
        // The third chunk of the first run has the place before that of the second run, and the last run the last place.
        let (others, kept, new) = (None, Some(true), Some(false));
        let runs = [(129, kept), (1, kept), (0, new), (5, others), (64, new), (3, kept)].map(run);
        let runs = GatedDeltaProblem::random(shape, &runs, 2, 8, 56);
        let found = runs.run_prefill(device, &kernel)?;
        if !found.guards_intact || !runs.compare_prefill(&found).iter().all(Comparison::holds) {
            return Ok(false);
        }
        // Starts before and after all tokens, of runs that are somebody's and of some that are not.
        for starts in [[-7, 129, 130, -7, 135, 250, 400], [0, 129, i32::MAX, 204, 204, 204, 204]] {
            if !runs.clone().with_starts(&starts).run_prefill(device, &kernel)?.guards_intact {
                return Ok(false);
            }
        }
        Ok(true)
    })
}

fn argmax(name: &'static str, vocabulary: usize, padding: usize, format: WeightFormat) -> Problem {
    Problem::new(name, move |device, source| {
        let kernel = Argmax::compile_source(device, source)?;
        let problem = ArgmaxProblem::random(14, vocabulary, padding, format, 46);
        let (found, guards_intact) = problem.run(device, &kernel)?;
        Ok(found == problem.reference() && guards_intact)
    })
}

fn copies(name: &'static str, pages: usize, length: usize, gap: usize) -> Problem {
    Problem::new(name, move |device, source| {
        let kernel = CopyPages::compile_source(device, source)?;
        let problem = PageCopyProblem::random(pages, length, gap, 47);
        let (found, guards_intact) = problem.run(device, &kernel)?;
        Ok(found == problem.reference() && guards_intact)
    })
}

fn logits(name: &'static str, vocabulary: usize, padding: usize, mask_tokens: usize) -> Problem {
    Problem::new(name, move |device, source| {
        let kernels = ShapeLogits::compile_source(device, source)?;
        let problem = ShapeLogitsProblem::random(9, vocabulary, padding, mask_tokens, 52);
        let (found, guards_intact) = problem.run(device, &kernels)?;
        Ok(problem.compare(&found).holds() && guards_intact && problem.gaps_are_intact(&found))
    })
}

fn draws(name: &'static str, rows: usize, vocabulary: usize, padding: usize) -> Problem {
    Problem::new(name, move |device, source| {
        let kernel = Sample::compile_source(device, source)?;
        let problem = SampleProblem::random(rows, vocabulary, padding, 51);
        let (found, guards_intact) = problem.run(device, &kernel)?;
        Ok(problem.first_wrong(&found).is_none() && guards_intact)
    })
}

/// The first and the last random number of what is a token's.
fn solve_borders(device: &CudaDevice, source: KernelSource) -> Result<bool, CudaError> {
    let kernel = Sample::compile_source(device, source)?;
    let (problem, expected) = SampleProblem::at_borders(6);
    Ok(problem.run(device, &kernel)? == (expected, true))
}
