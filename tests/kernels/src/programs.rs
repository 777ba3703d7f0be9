//! The kernels in the shapes whose machine code is looked at: those that models have, and those that need most registers.

use std::collections::BTreeMap;

use crate::product_cases::{FORMATS, measured_tiles};
use kernels::cuda::{
    Argmax, AttentionRules, CombineExperts, CombineExpertsShape, CopyPages, DecodeAttention, DecodeAttentionShape,
    GatedDelta, GatedDeltaShape, GatedGemmShape, GatherRows, GatherRowsShape, Gemm, GemmShape, GroupRows,
    GroupRowsShape, GroupedGemm, GroupedGemmShape, HeadNorm, Kernel, MergeSplits, MergeSplitsShape, MergeStates,
    MergeStatesShape, MlaDecode, MlaDecodeShape, PrefillAttention, PrefillAttentionShape, Program, QuantisedGemm,
    QuantisedGemmShape, RmsNorm, RmsNormShape, RopeKvWrite, RopeKvWriteShape, RouteExperts, RouteExpertsShape,
    RouteGroupsShape, Sample, ShapeLogits, SiluMul, SiluMulShape,
};

/// All of them.
///
/// # Panics
///
/// If a shape is not supported, which each of them is.
#[must_use]
pub fn programs() -> Vec<Program> {
    let none = AttentionRules::default();
    let all = AttentionRules { window: Some(4096), softcap: Some(50.0), sinks: true };
    let attention = [
        (32, 1, none),
        (64, 3, all),
        (128, 2, none),
        (256, 3, all),
        (16, 2, all),
        (64, 4, none),
        (80, 1, all),
        (128, 4, none),
        (128, 8, all),
        (256, 4, all),
    ]
    .map(|(head_dim, group, rules)| {
        let shape =
            DecodeAttentionShape { head_dim, query_heads: 4 * group, kv_heads: 4, page_size: 16, split_tokens: 256 };
        DecodeAttention::program(shape, rules, DecodeAttention::source(&shape)).unwrap()
    });
    let mla =
        [(512, 64, 16), (512, 64, 128), (256, 32, 40), (128, 48, 5)].map(|(latent_dim, rope_dim, query_heads)| {
            let shape = MlaDecodeShape { latent_dim, rope_dim, query_heads, page_size: 64, split_tokens: 1024 };
            MlaDecode::program(shape, MlaDecode::SOURCE).unwrap()
        });
    let merges = [128, 512].map(|head_dim| {
        let shape = MergeSplitsShape { head_dim, query_heads: 16, sinks: true };
        MergeSplits::program(shape, MergeSplits::SOURCE).unwrap()
    });
    let prefill = [
        (16, 2, all),
        (64, 1, none),
        (80, 1, all),
        (96, 7, none),
        (128, 4, none),
        (128, 8, all),
        (192, 8, none),
        (256, 4, all),
    ]
    .map(|(head_dim, group, rules)| {
        let shape = PrefillAttentionShape { head_dim, query_heads: 4 * group, kv_heads: 4, page_size: 16 };
        PrefillAttention::program(shape, rules, PrefillAttention::SOURCE).unwrap()
    });
    let products = [16, 32, 64, 128].map(|block_rows| {
        let shape = GroupedGemmShape { block_rows, experts: 128, columns: 1536, depth: 2048, rows_per_input: 8 };
        GroupedGemm::program(shape, GroupedGemm::SOURCE).unwrap()
    });
    let gated = [16, 64, 128].map(|block_rows| {
        let shape = GroupedGemmShape { block_rows, experts: 128, columns: 768, depth: 2048, rows_per_input: 8 };
        Kernel::program(GatedGemmShape(shape), GroupedGemm::SOURCE).unwrap()
    });
    let quantised = FORMATS.into_iter().flat_map(|format| {
        measured_tiles()
            .map(move |tile| Kernel::program(QuantisedGemmShape { tile, format }, QuantisedGemm::SOURCE).unwrap())
    });
    let products = products.into_iter().chain(gated).chain(quantised);
    let dense = measured_tiles().map(|tile| Kernel::program(GemmShape { tile }, Gemm::SOURCE).unwrap());
    let attention = attention.into_iter().chain(prefill).chain(mla).chain(merges);
    attention.chain(products).chain(dense).chain(operations()).collect()
}

/// One program of each source: of those that it has, the one of that number, counted round.
#[must_use]
pub fn one_of_each_source(number: usize) -> Vec<Program> {
    let mut of_source: BTreeMap<&str, Vec<Program>> = BTreeMap::new();
    for program in programs() {
        of_source.entry(program.source.name).or_default().push(program);
    }
    of_source.into_values().map(|mut programs| programs.swap_remove(number % programs.len())).collect()
}

/// The operations beside attention and matrix products, in the widths that need most registers.
fn operations() -> Vec<Program> {
    let mut programs = vec![
        Argmax::program(Argmax::SOURCE),
        CopyPages::program(CopyPages::SOURCE),
        Sample::program(Sample::SOURCE),
        ShapeLogits::program(ShapeLogits::SOURCE),
    ];
    for width in [64, 111, 4096, 32768, 40960] {
        programs.push(RmsNorm::program(RmsNormShape { width }, RmsNorm::SOURCE).unwrap());
        programs.push(GatherRows::program(GatherRowsShape { width }, GatherRows::SOURCE).unwrap());
    }
    for (experts, chosen) in [(128, 8), (1024, 8), (160, 160)] {
        for renormalise in [false, true] {
            let shape = RouteExpertsShape { experts, chosen, renormalise };
            programs.push(RouteExperts::program(shape, RouteExperts::SOURCE).unwrap());
        }
        let experts_shape = RouteExpertsShape { experts, chosen, renormalise: true };
        let shape = RouteGroupsShape { experts: experts_shape, groups: 8, chosen_groups: 8 };
        programs.push(Kernel::program(shape, RouteExperts::SOURCE).unwrap());
        let shape = GroupRowsShape { experts, block_rows: 64 };
        programs.push(GroupRows::program(shape, GroupRows::SOURCE).unwrap());
    }
    for width in [768, 111] {
        let shape = CombineExpertsShape { width, chosen: 8 };
        programs.push(CombineExperts::program(shape, CombineExperts::SOURCE).unwrap());
        programs.push(SiluMul::program(SiluMulShape { width }, SiluMul::SOURCE).unwrap());
    }
    for norm in [HeadNorm::None, HeadNorm::PerHead, HeadNorm::AllHeads] {
        for head_dim in [64, 128, 512] {
            let shape = RopeKvWriteShape { head_dim, query_heads: 32, kv_heads: 8, page_size: 16, norm };
            programs.push(RopeKvWrite::program(shape, RopeKvWrite::SOURCE).unwrap());
        }
    }
    for (key_dim, value_dim, normalise) in [(128, 128, true), (64, 160, false)] {
        let shape = GatedDeltaShape { key_heads: 16, value_heads: 32, key_dim, value_dim, normalise };
        programs.push(GatedDelta::program(shape, GatedDelta::SOURCE).unwrap());
    }
    for sinks in [false, true] {
        let shape = MergeStatesShape { head_dim: 128, query_heads: 32, sinks };
        programs.push(MergeStates::program(shape, MergeStates::SOURCE).unwrap());
    }
    programs
}
