//! Are the kernels right on this device? Random problems, float64 references, and the rule that compares them.

mod acceptance;
mod argmax;
mod attention;
mod decode;
mod elementwise;
mod experts;
mod gated_delta;
mod gather;
mod gemm;
mod guarded;
mod lanes;
mod merging;
mod mla;
mod noise;
mod norm;
mod pages;
mod paging;
mod prefill;
mod quantised;
mod rope;
mod route_groups;
mod routing;
mod sampling;
mod strided;

use std::fmt;

use super::attention_rules::AttentionRules;
use super::decode_attention::{DecodeAttention, DecodeAttentionShape};
use super::device::{CudaDevice, CudaOptions};
use super::error::CudaError;
use super::gated_delta::{GatedDelta, GatedDeltaShape};
use super::grouped_gemm::{GroupedGemm, GroupedGemmShape};
use super::merge_states::{MergeStates, MergeStatesShape};
use super::mla_decode_attention::{MlaDecode, MlaDecodeShape};
use super::prefill_attention::{PrefillAttention, PrefillAttentionShape};

pub use acceptance::{Accuracy, Comparison, compare};
pub use argmax::ArgmaxProblem;
pub use attention::AttentionResult;
pub use decode::DecodeProblem;
pub use elementwise::SiluMulProblem;
pub use experts::{GroupedGemmProblem, GroupedGemmResult};
pub use gated_delta::{GatedDeltaProblem, GatedDeltaResult, GatedDeltaRun};
pub use gather::GatherProblem;
pub use gemm::{Bias, GemmProblem, GemmResult, ProductSize};
pub use lanes::LaneKernel;
pub use merging::MergeProblem;
pub use mla::MlaDecodeProblem;
pub use noise::Noise;
pub use norm::{NormProblem, NormResult, WeightFormat};
pub use pages::PageCopyProblem;
pub use paging::PoolOrder;
pub use prefill::{PrefillProblem, PrefillRequest};
pub use quantised::QuantisedGemmProblem;
pub use rope::{RopeProblem, RopeResult};
pub use route_groups::GroupRoutingProblem;
pub use routing::{CombineProblem, Grouping, GroupingProblem, RoutingProblem, RoutingResult};
pub use sampling::{SampleProblem, ShapeLogitsProblem};

/// The shapes to check the kernels in.
#[derive(Debug, Clone, Copy)]
pub struct CheckShapes {
    /// Decode attention; prefill attention is checked with the same heads and pages.
    pub attention: DecodeAttentionShape,
    /// Grouped matrix product. Of many experts, a few are checked.
    pub experts: GroupedGemmShape,
    /// Decides all inputs.
    pub seed: u64,
}

/// What a check found.
#[derive(Debug)]
pub struct Report {
    /// The device's name.
    pub device: String,
    /// One entry per kernel and result.
    pub measurements: Vec<Measurement>,
}

/// How near one result of one kernel came to its reference.
#[derive(Debug)]
pub struct Measurement {
    /// The kernel and the result.
    pub what: &'static str,
    /// Errors and what they may be.
    pub comparison: Comparison,
    /// Whether the memory before and after the result was left alone.
    pub guards_intact: bool,
}

impl Report {
    /// Whether every result is acceptable.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.measurements.iter().all(|measurement| measurement.comparison.holds() && measurement.guards_intact)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "kernels on {}", self.device)?;
        for measurement in &self.measurements {
            let verdict = match (measurement.comparison.holds(), measurement.guards_intact) {
                (true, true) => "ok",
                (false, true) => "WRONG",
                (_, false) => "WRITES OUTSIDE ITS RESULT",
            };
            writeln!(f, "  {:<28} {}  {verdict}", measurement.what, measurement.comparison)?;
        }
        Ok(())
    }
}

/// Most experts whose weights are made up; the reference takes time in proportion.
const MOST_EXPERTS: usize = 6;
/// Longest context, whatever the split length.
const LONGEST_CONTEXT: usize = 600;

/// Compiles the kernels for `shapes`, runs them on the device that `options` name, and compares with references.
///
/// An error means that the check could not be made; wrong results are a report that has not
/// [`passed`](Report::passed).
pub fn self_check(options: &CudaOptions, shapes: &CheckShapes) -> Result<Report, CudaError> {
    let device = CudaDevice::open(options)?;
    let mut measurements = check_decode(&device, shapes)?;
    measurements.extend(check_prefill(&device, shapes)?);
    measurements.extend(check_compressed(&device, shapes)?);
    measurements.extend(check_merge(&device, shapes)?);
    measurements.extend(check_gated_delta(&device, shapes.seed)?);
    measurements.push(check_experts(&device, shapes)?);
    Ok(Report { device: device.name()?, measurements })
}

fn check_decode(device: &CudaDevice, shapes: &CheckShapes) -> Result<Vec<Measurement>, CudaError> {
    let (shape, rules) = (shapes.attention, AttentionRules::default());
    let kernel = DecodeAttention::compile(device, shape, rules)?;
    let page = shape.page_size.min(LONGEST_CONTEXT);
    let contexts = [
        Some(0),
        Some(1),
        None,
        Some(page - 1),
        Some(page),
        Some(page + 1),
        Some((2 * shape.split_tokens + 1).min(LONGEST_CONTEXT)),
    ];
    let problem = DecodeProblem::random(shape, rules, &contexts, PoolOrder::TokenMajor, shapes.seed);
    let found = problem.run(device, &kernel)?;
    let whats = ["decode attention, output", "decode attention, lse"];
    Ok(of_two(whats, problem.compare(&found), found.guards_intact))
}

/// The measurements of two results of one kernel.
fn of_two(whats: [&'static str; 2], comparisons: [Comparison; 2], guards_intact: bool) -> Vec<Measurement> {
    let pairs = whats.into_iter().zip(comparisons);
    pairs.map(|(what, comparison)| Measurement { what, comparison, guards_intact }).collect()
}

/// The sizes of known models, since settings have none for it.
fn check_compressed(device: &CudaDevice, shapes: &CheckShapes) -> Result<Vec<Measurement>, CudaError> {
    let DecodeAttentionShape { page_size, split_tokens, .. } = shapes.attention;
    let shape = MlaDecodeShape { latent_dim: 512, rope_dim: 64, query_heads: 16, page_size, split_tokens };
    let kernel = MlaDecode::compile(device, shape)?;
    let longest = (split_tokens + 1).min(LONGEST_CONTEXT / 2);
    let problem = MlaDecodeProblem::random(shape, &[Some(0), Some(1), None, Some(longest)], shapes.seed);
    let found = problem.run(device, &kernel)?;
    let whats = ["compressed attention, output", "compressed attention, lse"];
    Ok(of_two(whats, problem.compare(&found), found.guards_intact))
}

/// The head sizes of known models, since settings have none for it, and few heads.
fn check_gated_delta(device: &CudaDevice, seed: u64) -> Result<Vec<Measurement>, CudaError> {
    let shape = GatedDeltaShape { key_heads: 1, value_heads: 2, key_dim: 128, value_dim: 128, normalise: true };
    let kernel = GatedDelta::compile(device, shape)?;
    let run = |tokens, continues| GatedDeltaRun { tokens, continues };
    let steps = [run(1, Some(true)), run(1, None), run(1, Some(true))];
    let problem = GatedDeltaProblem::random(shape, &steps, 0, 0, seed);
    let found = problem.run_decode(device, &kernel)?;
    let whats = ["gated delta step, output", "gated delta step, states"];
    let mut measurements = of_two(whats, problem.compare_decode(&found), found.guards_intact);
    let runs = [run(65, Some(false)), run(0, Some(true)), run(3, None), run(70, Some(true))];
    let problem = GatedDeltaProblem::random(shape, &runs, 1, 0, seed);
    let found = problem.run_prefill(device, &kernel)?;
    let whats = ["gated delta runs, output", "gated delta runs, states"];
    measurements.extend(of_two(whats, problem.compare_prefill(&found), found.guards_intact));
    Ok(measurements)
}

fn check_merge(device: &CudaDevice, shapes: &CheckShapes) -> Result<Vec<Measurement>, CudaError> {
    let DecodeAttentionShape { head_dim, query_heads, .. } = shapes.attention;
    let shape = MergeStatesShape { head_dim, query_heads, sinks: false };
    let kernel = MergeStates::compile(device, shape)?;
    let problem = MergeProblem::random(shape, 20, 0, shapes.seed);
    let found = problem.run(device, &kernel)?;
    Ok(of_two(["merge of attention, output", "merge of attention, lse"], problem.compare(&found), found.guards_intact))
}

fn check_prefill(device: &CudaDevice, shapes: &CheckShapes) -> Result<Vec<Measurement>, CudaError> {
    let DecodeAttentionShape { head_dim, query_heads, kv_heads, page_size, .. } = shapes.attention;
    let rules = AttentionRules::default();
    let shape = PrefillAttentionShape { head_dim, query_heads, kv_heads, page_size };
    let kernel = PrefillAttention::compile(device, shape, rules)?;
    let page = page_size.min(LONGEST_CONTEXT);
    let requests = [(page + 1, Some(page + 1)), (1, Some(2 * page)), (0, Some(1)), (2, None), (20, Some(150))];
    let requests = requests.map(|(tokens, context)| PrefillRequest { tokens, context });
    let problem = PrefillProblem::random(shape, rules, &requests, 1, PoolOrder::TokenMajor, shapes.seed);
    let found = problem.run(device, &kernel)?;
    let whats = ["prefill attention, output", "prefill attention, lse"];
    Ok(of_two(whats, problem.compare(&found), found.guards_intact))
}

fn check_experts(device: &CudaDevice, shapes: &CheckShapes) -> Result<Measurement, CudaError> {
    let block = shapes.experts.block_rows;
    let shape = GroupedGemmShape { experts: shapes.experts.experts.min(MOST_EXPERTS), ..shapes.experts };
    let rows = [block + 1, 0, 1, block - 1, block, 3];
    let kernel = GroupedGemm::compile(device, shape)?;
    let problem = GroupedGemmProblem::random(shape, &rows[..shape.experts], 1, shapes.seed)?;
    let found = problem.run(device, &kernel)?;
    Ok(Measurement {
        what: "grouped matrix product",
        comparison: problem.compare(&found),
        guards_intact: found.guards_intact,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(relative: f64, guards_intact: bool) -> Report {
        let comparison = Comparison { relative, relative_bound: 8e-3, largest: 0.01, largest_bound: 0.02 };
        let what = "grouped matrix product";
        Report { device: "a device".to_owned(), measurements: vec![Measurement { what, comparison, guards_intact }] }
    }

    #[test]
    fn one_wrong_result_fails_the_report() {
        for (relative, guards_intact, verdict) in
            [(1e-3, true, "ok"), (1e-1, true, "WRONG"), (1e-3, false, "WRITES OUTSIDE ITS RESULT")]
        {
            let report = report(relative, guards_intact);
            assert_eq!(report.passed(), verdict == "ok");
            let text = report.to_string();
            assert!(text.starts_with("kernels on a device\n") && text.trim_end().ends_with(verdict), "{text}");
        }
    }
}
