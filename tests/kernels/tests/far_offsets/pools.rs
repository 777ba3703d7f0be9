//! Pages, tokens and heads of pools that are far apart.

use kernel_tests::mutation::mutate;
use kernels::cuda::check::{DecodeProblem, MlaDecodeProblem, Noise, PoolOrder, PrefillProblem, PrefillRequest};
use kernels::cuda::{
    AttentionRules, CopyPages, CopyPagesArgs, CudaDevice, DecodeAttention, DecodeAttentionArgs, DecodeAttentionShape,
    DecodeWorkspace, KvLayout, KvShape, MlaDecode, MlaDecodeShape, PrefillAttention, PrefillAttentionArgs,
    PrefillAttentionShape,
};

use super::{FAR, assert_right, bf16_buffer, far_device};

const RULES: AttentionRules = AttentionRules { window: Some(30), softcap: None, sinks: false };

/// Pages hold 16 tokens of two heads of 32: a page's second token, and its second head, are too far already.
const STRETCH: usize = FAR / 32;

const CONTEXTS: [Option<usize>; 4] = [Some(40), None, Some(17), Some(1)];

fn decode(device: &CudaDevice, query_heads: usize) {
    let shape = DecodeAttentionShape { head_dim: 32, query_heads, kv_heads: 2, page_size: 16, split_tokens: 32 };
    let kernel = DecodeAttention::compile(device, shape, RULES).unwrap();
    for order in [PoolOrder::TokenMajor, PoolOrder::HeadMajor] {
        let problem = DecodeProblem::random(shape, RULES, &CONTEXTS, order, 71).stretched(STRETCH);
        let found = problem.run(device, &kernel).unwrap();
        assert_right(&problem.compare(&found), found.guards_intact);
    }
}

#[test]
fn attention_of_single_tokens() {
    decode(&far_device(), 2);
}

#[test]
fn attention_of_single_tokens_by_tensor_cores() {
    decode(&far_device(), 16);
}

#[test]
fn attention_of_prompts() {
    let device = far_device();
    let shape = PrefillAttentionShape { head_dim: 32, query_heads: 4, kv_heads: 2, page_size: 16 };
    let kernel = PrefillAttention::compile(&device, shape, RULES).unwrap();
    let requests = [(20, Some(40)), (2, None), (1, Some(17))];
    let requests = requests.map(|(tokens, context)| PrefillRequest { tokens, context });
    for order in [PoolOrder::TokenMajor, PoolOrder::HeadMajor] {
        let problem = PrefillProblem::random(shape, RULES, &requests, 1, order, 72).stretched(STRETCH);
        let found = problem.run(&device, &kernel).unwrap();
        assert_right(&problem.compare(&found), found.guards_intact);
    }
}

#[test]
fn attention_over_compressed_keys() {
    let device = far_device();
    let shape = MlaDecodeShape { latent_dim: 128, rope_dim: 16, query_heads: 4, page_size: 16, split_tokens: 32 };
    let kernel = MlaDecode::compile(&device, shape).unwrap();
    let problem = MlaDecodeProblem::random(shape, &CONTEXTS, 73).stretched(FAR / 144 + 1);
    let found = problem.run(&device, &kernel).unwrap();
    assert_right(&problem.compare(&found), found.guards_intact);
}

/// Numbers of pages that are themselves large, as in a pool that fills a device.
#[test]
fn copied_pages() {
    let device = far_device();
    let kernel = CopyPages::compile(&device).unwrap();
    let (pages, stride, length) = ((1 << 28) + 1, 24, 16);
    let row = |number: u16| [number; 16];
    let from = [1 << 28, 7, 1 << 27];
    let to = [3, (1 << 28) - 1, 1 << 26];
    let rows = [row(1), row(2), row(3)];
    let places: Vec<(usize, &[u16])> = from.iter().zip(&rows).map(|(&at, row)| (at * stride, &row[..])).collect();
    let mut keys = bf16_buffer(&device, pages * stride, &places);
    let mut values = bf16_buffer(&device, pages * stride, &places);
    let pairs: Vec<i32> = from.iter().zip(to).flat_map(|(&from, to)| [from as i32, to as i32]).collect();
    let pairs = device.upload(&pairs).unwrap();
    let args = CopyPagesArgs {
        keys: keys.as_view_mut(),
        values: values.as_view_mut(),
        pages,
        page_stride: stride,
        page_length: length,
        pairs: pairs.as_view(),
    };
    device.copy_pages(&kernel, args).unwrap();
    for pool in [&keys, &values] {
        for (place, row) in to.into_iter().zip(rows) {
            assert_eq!(device.download(&pool.slice(place * stride..place * stride + length)).unwrap(), row);
        }
    }
}

/// Two pages of keys, of values and of the one block table's row, for heads of 256 elements.
const PAGES: KvShape = KvShape { head_dim: 256, kv_heads: 1, page_size: 16 };
/// Tokens in them.
const CONTEXT: i32 = 20;

fn two_pages(seed: u64) -> Vec<u16> {
    Noise::new(seed).normal_bf16(2 * PAGES.page_size * PAGES.head_dim)
}

/// A batch whose first tokens nobody has: the others' queries and results begin past 2^32 elements.
#[test]
fn results_of_a_long_batch_of_prompts() {
    const ROW: usize = 128 * 256;
    let device = far_device();
    let shape = PrefillAttentionShape { head_dim: 256, query_heads: 128, kv_heads: 1, page_size: 16 };
    let kernel = PrefillAttention::compile(&device, shape, AttentionRules::default()).unwrap();
    let (keys, values) = (device.upload(&two_pages(74)).unwrap(), device.upload(&two_pages(75)).unwrap());
    let (table, slots) = (device.upload(&[1, 0]).unwrap(), device.upload(&[0]).unwrap());
    let context = device.upload(&[CONTEXT]).unwrap();
    let queries = Noise::new(76).normal_bf16(2 * ROW);
    let found = [0, 2 * FAR / ROW + 1].map(|first| {
        let tokens = first + 2;
        let query = bf16_buffer(&device, tokens * ROW, &[(first * ROW, &queries)]);
        let starts = device.upload(&[first as i32, tokens as i32]).unwrap();
        let mut output = device.zeros::<u16>(tokens * ROW).unwrap();
        let args = PrefillAttentionArgs {
            query: query.as_view(),
            query_stride: ROW,
            tokens,
            keys: keys.as_view(),
            values: values.as_view(),
            layout: KvLayout::token_major(PAGES, 2),
            block_table: table.as_view(),
            table_width: 2,
            slots: slots.as_view(),
            query_starts: starts.as_view(),
            context: context.as_view(),
            scale: 0.1,
            sinks: None,
            output: output.as_view_mut(),
            lse: None,
        };
        device.paged_prefill_attention(&kernel, args).unwrap();
        device.download(&output.slice(first * ROW..tokens * ROW)).unwrap()
    });
    assert_eq!(found[0], found[1]);
}

/// The same for single tokens, where the block's request is further on than the launch has it: so many requests are too
/// many for an interpreter.
#[test]
fn results_of_a_long_batch_of_single_tokens() {
    let device = far_device();
    for query_heads in [2, 16] {
        let row = query_heads * 256;
        let shape = DecodeAttentionShape { head_dim: 256, query_heads, kv_heads: 1, page_size: 16, split_tokens: 64 };
        let (keys, values) = (device.upload(&two_pages(77)).unwrap(), device.upload(&two_pages(78)).unwrap());
        let table = device.upload(&[1, 0]).unwrap();
        let queries = Noise::new(79).normal_bf16(row);
        let found = [0, 2 * FAR / row + 1].map(|first| {
            let source = DecodeAttention::source(&shape);
            let place = "const i64 request = blockIdx.x;";
            let source = mutate(&source, place, &format!("const i64 request = blockIdx.x + {first};"));
            let merge = DecodeAttention::MERGE_SOURCE;
            let rules = AttentionRules::default();
            let kernel = DecodeAttention::compile_sources(&device, shape, rules, source, merge).unwrap();
            let query = bf16_buffer(&device, (first + 1) * row, &[(first * row, &queries)]);
            let slots = device.zeros::<i32>(first + 1).unwrap();
            let context = device.upload(&vec![CONTEXT; first + 1]).unwrap();
            let mut output = device.zeros::<u16>((first + 1) * row).unwrap();
            let mut lse = device.zeros::<f32>((first + 1) * query_heads).unwrap();
            let mut workspace = DecodeWorkspace::new(&device, &shape, 1, CONTEXT as usize).unwrap();
            let args = DecodeAttentionArgs {
                query: query.slice(..row),
                keys: keys.as_view(),
                values: values.as_view(),
                layout: KvLayout::token_major(PAGES, 2),
                block_table: table.as_view(),
                table_width: 2,
                slots: slots.slice(..1),
                context: context.slice(..1),
                max_context: CONTEXT as usize,
                scale: 0.1,
                sinks: None,
                output: output.slice_mut(..row),
                lse: lse.slice_mut(..query_heads),
                workspace: &mut workspace,
            };
            device.paged_decode_attention(&kernel, args).unwrap();
            device.download(&output.slice(first * row..(first + 1) * row)).unwrap()
        });
        assert_eq!(found[0], found[1]);
    }
}
