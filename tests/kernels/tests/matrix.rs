//! All the shapes that tests of other engines' kernels have and these kernels support, where the other tests have a few of
//! each.
//!
//! They take minutes together, and are run by hand: `cargo test -p kernel-tests --test matrix -- --ignored`, or with a name.

use kernel_tests::{device, matrix};
use kernels::cuda::check::{
    Bias, CombineProblem, Comparison, GatedDeltaProblem, GatedDeltaRun, GemmProblem, GroupRoutingProblem,
    GroupingProblem, MergeProblem, NormProblem, ProductSize, RoutingProblem, SampleProblem, SiluMulProblem,
    WeightFormat,
};
use kernels::cuda::{
    CombineExperts, CombineExpertsShape, GatedDelta, GatedDeltaShape, Gemm, GemmTiles, GroupRows, GroupRowsShape,
    MergeStates, MergeStatesShape, RmsNorm, RmsNormShape, RouteExperts, RouteExpertsShape, RouteGroups,
    RouteGroupsShape, Sample, SiluMul, SiluMulShape,
};

fn assert_right(what: &str, comparisons: &[Comparison], guards_intact: bool) {
    println!("{what}: {comparisons:?}");
    assert!(comparisons.iter().all(Comparison::holds) && guards_intact, "{what}");
}

#[test]
#[ignore = "minutes"]
fn decode_attention() {
    let device = device();
    for case in matrix::attention() {
        case.check(&device);
    }
}

#[test]
#[ignore = "minutes"]
fn decode_attention_with_windows_and_sinks() {
    let device = device();
    for case in matrix::attention_with_rules() {
        case.check(&device);
    }
}

#[test]
#[ignore = "minutes"]
fn decode_attention_over_compressed_keys() {
    let device = device();
    for case in matrix::mla() {
        case.check(&device);
    }
}

#[test]
#[ignore = "minutes"]
fn prefill_attention() {
    let device = device();
    for case in matrix::prefill() {
        case.check(&device);
    }
}

#[test]
#[ignore = "minutes"]
fn prefill_attention_with_windows_and_sinks() {
    let device = device();
    for case in matrix::prefill_with_rules() {
        case.check(&device);
    }
}

#[test]
#[ignore = "minutes"]
fn merged_parts() {
    let device = device();
    for head_dim in [32, 48, 64, 96, 128, 256] {
        for query_heads in [4, 8, 40, 64] {
            let shape = MergeStatesShape { head_dim, query_heads, sinks: query_heads == 8 };
            let kernel = MergeStates::compile(&device, shape).unwrap();
            for rows in [256, 613, 1536] {
                let problem = MergeProblem::random(shape, rows, 8, rows as u64);
                let found = problem.run(&device, &kernel).unwrap();
                assert_right(&format!("{shape:?}, {rows} rows"), &problem.compare(&found), found.guards_intact);
            }
        }
    }
}

#[test]
#[ignore = "minutes"]
fn norms_and_activations() {
    let device = device();
    for width in [111, 500, 1024, 3072, 3584, 4096, 8192, 16384] {
        let norm = RmsNorm::compile(&device, RmsNormShape { width }).unwrap();
        let activation = SiluMul::compile(&device, SiluMulShape { width }).unwrap();
        for rows in [1, 19, 99, 989] {
            let what = format!("{rows} rows of {width}");
            for adds in [false, true] {
                let kind = (adds, WeightFormat::Bf16);
                let problem = NormProblem::random(RmsNormShape { width }, rows, kind, 8, rows as u64);
                let found = problem.run(&device, &norm).unwrap();
                assert_right(&what, &[problem.compare(&found)], found.guards_intact);
                assert!(found.residual == problem.reference().residual, "{what}");
            }
            let problem = SiluMulProblem::random(SiluMulShape { width }, rows, 8, rows as u64);
            let (found, intact) = problem.run(&device, &activation).unwrap();
            assert_right(&what, &[problem.compare(&found)], intact);
        }
    }
}

#[test]
#[ignore = "minutes"]
fn grouped_products() {
    let device = device();
    for case in matrix::products() {
        case.check(&device);
        case.check_gated(&device);
    }
}

#[test]
#[ignore = "minutes"]
fn dense_products() {
    let device = device();
    let kernel = Gemm::compile(&device, GemmTiles::default()).unwrap();
    for (columns, depth) in [(2112, 7168), (576, 7168), (24576, 1536), (4096, 7168), (7168, 2048), (256, 7168)] {
        for rows in [1, 3, 128] {
            let size = ProductSize { rows, columns, depth };
            let problem = GemmProblem::random(size, Bias::Random, rows as u64);
            let found = problem.run(&device, &kernel, WeightFormat::Bf16).unwrap();
            let comparison = problem.compare(&found, WeightFormat::Bf16);
            assert_right(&format!("{size:?}"), &[comparison], found.guards_intact);
        }
    }
}

#[test]
#[ignore = "minutes"]
fn routing_and_sorting_and_sums() {
    let device = device();
    let choices = [(8, 4), (31, 8), (32, 8), (40, 8), (71, 8), (128, 128), (129, 128), (160, 160), (512, 10)];
    for (experts, chosen) in choices {
        for renormalise in [false, true] {
            let shape = RouteExpertsShape { experts, chosen, renormalise };
            let problem = RoutingProblem::random(shape, 99, 1, WeightFormat::F32, experts as u64);
            let found = problem.run(&device, &RouteExperts::compile(&device, shape).unwrap()).unwrap();
            assert_eq!(found.experts, problem.reference().experts, "{shape:?}");
            assert_right(&format!("{shape:?}"), &[problem.compare(&found)], found.guards_intact);
        }
    }
    for experts in [256, 384] {
        for (groups, chosen_groups) in [(1, 1), (2, 1), (4, 2), (8, 4)] {
            for chosen in [1, 2, 4, 8] {
                let experts = RouteExpertsShape { experts, chosen, renormalise: true };
                let shape = RouteGroupsShape { experts, groups, chosen_groups };
                let problem = GroupRoutingProblem::random(shape, 99, 0, chosen > 1, chosen as u64);
                let found = problem.run(&device, &RouteGroups::compile(&device, shape).unwrap()).unwrap();
                assert_eq!(found.experts, problem.reference().experts, "{shape:?}");
                assert_right(&format!("{shape:?}"), &[problem.compare(&found)], found.guards_intact);
            }
        }
    }
    for experts in [32, 160, 256, 257] {
        for block_rows in [32, 64, 128] {
            let shape = GroupRowsShape { experts, block_rows };
            let kernel = GroupRows::compile(&device, shape).unwrap();
            for (tokens, chosen) in [(1, 1), (3, 2), (256, 16), (2256, 2), (4096, 8)] {
                let problem = GroupingProblem::random(shape, tokens * chosen, 1, tokens as u64);
                let (found, intact) = problem.run(&device, &kernel).unwrap();
                assert!(found == problem.reference().unwrap() && intact, "{shape:?}, {tokens} tokens, {chosen} each");
            }
        }
    }
    for (width, chosen) in [(128, 2), (2048, 8), (7168, 8), (511, 6)] {
        let shape = CombineExpertsShape { width, chosen };
        let problem = CombineProblem::random(shape, 33, 8, width as u64);
        let (found, intact) = problem.run(&device, &CombineExperts::compile(&device, shape).unwrap()).unwrap();
        assert_right(&format!("{shape:?}"), &[problem.compare(&found)], intact);
    }
}

#[test]
#[ignore = "minutes"]
fn gated_delta_rule() {
    let device = device();
    for (key_dim, value_dim) in [(64, 64), (128, 128), (128, 256)] {
        for per_key in [1, 2, 4] {
            let shape = GatedDeltaShape { key_heads: 1, value_heads: per_key, key_dim, value_dim, normalise: true };
            let kernel = GatedDelta::compile(&device, shape).unwrap();
            for tokens in [1, 63, 64, 65, 75, 500, 1000, 1024] {
                let runs = [true, false].map(|continues| GatedDeltaRun { tokens, continues: Some(continues) });
                let problem = GatedDeltaProblem::random(shape, &runs, 0, 8, tokens as u64);
                let found = problem.run_prefill(&device, &kernel).unwrap();
                let what = format!("{shape:?}, {tokens} tokens");
                assert_right(&what, &problem.compare_prefill(&found), found.guards_intact);
            }
            for requests in [1, 16, 127] {
                let step = |request| GatedDeltaRun { tokens: 1, continues: (request % 5 != 3).then_some(true) };
                let steps: Vec<_> = (0..requests).map(step).collect();
                let problem = GatedDeltaProblem::random(shape, &steps, 0, 0, requests as u64);
                let found = problem.run_decode(&device, &kernel).unwrap();
                let what = format!("{shape:?}, {requests} steps");
                assert_right(&what, &problem.compare_decode(&found), found.guards_intact);
            }
        }
    }
}

#[test]
#[ignore = "minutes"]
fn draws() {
    let device = device();
    let kernel = Sample::compile(&device).unwrap();
    for (rows, vocabulary) in [(99, 111), (989, 111), (99, 32_000), (44, 128_256), (22, 151_936)] {
        let problem = SampleProblem::random(rows, vocabulary, 3, vocabulary as u64);
        let (found, intact) = problem.run(&device, &kernel).unwrap();
        assert_eq!(problem.first_wrong(&found), None, "{rows} rows of {vocabulary}");
        assert!(intact);
    }
}
