//! More rows than the second dimension of a grid has blocks.

use kernel_tests::device;
use kernels::cuda::check::{
    CombineProblem, Comparison, DecodeProblem, GatherProblem, MergeProblem, NormProblem, PoolOrder, SiluMulProblem,
    WeightFormat,
};
use kernels::cuda::{
    AttentionRules, CombineExperts, CombineExpertsShape, DecodeAttention, DecodeAttentionShape, GatherRows,
    GatherRowsShape, MergeStates, MergeStatesShape, RmsNorm, RmsNormShape, SiluMul, SiluMulShape,
};

const MANY: usize = 65_537;

#[test]
fn every_one_of_many_rows_is_computed() {
    let device = device();
    let (width, seed) = (8, 91);

    let shape = RmsNormShape { width };
    let problem = NormProblem::random(shape, MANY, (true, WeightFormat::F32), 0, seed);
    let found = problem.run(&device, &RmsNorm::compile(&device, shape).unwrap()).unwrap();
    assert!(problem.compare(&found).holds() && found.guards_intact, "norm");

    let shape = SiluMulShape { width };
    let problem = SiluMulProblem::random(shape, MANY, 0, seed);
    let (found, intact) = problem.run(&device, &SiluMul::compile(&device, shape).unwrap()).unwrap();
    assert!(problem.compare(&found).holds() && intact, "activation");

    let shape = GatherRowsShape { width };
    let problem = GatherProblem::random(shape, (50, MANY), false, 0, seed);
    let (found, intact) = problem.run(&device, &GatherRows::compile(&device, shape).unwrap()).unwrap();
    assert!(found == problem.reference() && intact, "gather");

    let shape = CombineExpertsShape { width, chosen: 1 };
    let problem = CombineProblem::random(shape, MANY, 0, seed);
    let (found, intact) = problem.run(&device, &CombineExperts::compile(&device, shape).unwrap()).unwrap();
    assert!(problem.compare(&found).holds() && intact, "sum over experts");

    let shape = MergeStatesShape { head_dim: width, query_heads: 1, sinks: false };
    let problem = MergeProblem::random(shape, MANY, 8, seed);
    let found = problem.run(&device, &MergeStates::compile(&device, shape).unwrap()).unwrap();
    assert!(problem.compare(&found).iter().all(Comparison::holds), "merge");
    assert!(found.guards_intact, "merge");
}

/// All but the last are padding.
#[test]
fn the_last_of_many_requests_is_served() {
    let device = device();
    let shape = DecodeAttentionShape { head_dim: 32, query_heads: 1, kv_heads: 1, page_size: 16, split_tokens: 64 };
    let rules = AttentionRules::default();
    let kernel = DecodeAttention::compile(&device, shape, rules).unwrap();
    let mut contexts = vec![None; MANY];
    contexts[MANY - 1] = Some(5);
    let problem = DecodeProblem::random(shape, rules, &contexts, PoolOrder::TokenMajor, 92);
    let found = problem.run(&device, &kernel).unwrap();
    assert!(problem.compare(&found).iter().all(Comparison::holds) && found.guards_intact);
}
