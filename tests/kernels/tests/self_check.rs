//! The check that an operator runs on a device.

use kernel_tests::options;
use kernels::cuda::check::CheckShapes;
use kernels::cuda::{CudaError, DecodeAttentionShape, GroupedGemmShape, self_check};

const SHAPES: CheckShapes = CheckShapes {
    attention: DecodeAttentionShape { head_dim: 64, query_heads: 8, kv_heads: 2, page_size: 16, split_tokens: 128 },
    experts: GroupedGemmShape { block_rows: 32, experts: 128, columns: 96, depth: 64, rows_per_input: 4 },
    seed: 1,
};

#[test]
fn right_kernels_pass_and_the_report_says_so() {
    let report = self_check(&options(), &SHAPES).unwrap();
    println!("{report}");
    assert!(report.passed());
    assert_eq!(report.device, "PTX interpreter");
    let whats: Vec<&str> = report.measurements.iter().map(|m| m.what).collect();
    let expected = [
        "decode attention, output",
        "decode attention, lse",
        "prefill attention, output",
        "prefill attention, lse",
        "compressed attention, output",
        "compressed attention, lse",
        "merge of attention, output",
        "merge of attention, lse",
        "gated delta step, output",
        "gated delta step, states",
        "gated delta runs, output",
        "gated delta runs, states",
        "grouped matrix product",
    ];
    assert_eq!(whats, expected);
    assert!(report.to_string().contains("ok"));
}

#[test]
fn a_shape_without_a_kernel_is_an_error() {
    let mut shapes = SHAPES;
    shapes.attention.head_dim = 72;
    let error = self_check(&options(), &shapes).unwrap_err();
    assert!(matches!(error, CudaError::Unsupported { what: "head_dim", .. }), "{error}");
}

#[test]
fn a_device_that_is_not_there_is_an_error() {
    let mut options = options();
    options.ordinal = 3;
    let error = self_check(&options, &SHAPES).unwrap_err();
    assert_eq!(error.to_string(), "no CUDA device 3: the driver reports 1, numbered from 0");
}
