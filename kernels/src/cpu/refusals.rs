//! What does not fit is refused, in release builds too: behind these checks memory is read without any.

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::simd::{dot_stored, dot_tile, expand, silu_mul as silu_mul_row, weighted_sums};
use super::{
    AttentionShape, ElementType, ExpertGroups, ExpertWeights, Isa, Matrix, PagedKv, RopeTable, Routing, SequenceSpan,
    Workers, apply_rope, combine_experts, grouped_matmul, matmul, paged_attention, rms_norm, route, silu_mul,
};

/// Does `work`, which must panic and say `what`.
#[track_caller]
fn refused(what: &str, work: impl FnOnce()) {
    let panic = catch_unwind(AssertUnwindSafe(work)).expect_err("what does not fit is refused");
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned())).unwrap_or_default();
    assert!(text.contains(what), "said {text:?}, not {what:?}");
}

fn workers() -> Workers {
    Workers::new(NonZeroUsize::MIN).expect("a thread starts")
}

#[test]
fn vectors_of_unequal_length_are_refused_on_every_instruction_set() {
    let long = [1.0_f32; 65];
    for isa in Isa::available() {
        for (x, w) in [(64, 65), (65, 64), (15, 16), (0, 1)] {
            refused("unequal length", || _ = dot_tile(isa, [&long[..x]], [&long[..x], &long[..w]]));
            refused("unequal length", || _ = dot_tile(isa, [&long[..x], &long[..w]], [&long[..x]]));
        }
        for bytes in [0, 33, 35, 68] {
            let (bytes, x) = (vec![0; bytes], &long[..32]);
            refused("unequal length", || _ = dot_stored(isa, x, ElementType::Q8_0, [&bytes]));
            refused("another number", || expand(isa, ElementType::Q8_0, &bytes, &mut [0.0; 32]));
        }
        refused("another number", || expand(isa, ElementType::Q8_0, &[0; 34], &mut [0.0; 33]));
        for len in [5, 64] {
            let row = |short: usize| move |_: usize| &[1.0; 65][..len - short];
            let (mut a, mut b) = (vec![0.0; len], vec![0.0; len + 1]);
            refused("a row of another length", || weighted_sums(isa, [&[1.0]], row(1), [&mut a]));
            refused("sums of unequal length", || {
                weighted_sums(isa, [&[1.0], &[1.0]], row(0), [&mut a.clone(), &mut b]);
            });
            refused("weights of unequal number", || {
                weighted_sums(isa, [&[1.0], &[1.0, 1.0]], row(0), [&mut a.clone(), &mut a]);
            });
        }
        for (gate, up) in [(16, 17), (17, 16)] {
            refused("unequal length", || silu_mul_row(isa, &long[..gate], &long[..up], &mut [0.0; 16]));
        }
    }
}

#[test]
fn elements_that_fill_no_whole_blocks_or_no_memory_have_no_bytes() {
    for element in ElementType::ALL {
        let (block, bytes) = element.block();
        assert_eq!(element.bytes(3 * block), Some(3 * bytes), "{}", element.name());
        if block > 1 {
            assert_eq!((element.bytes(1), element.bytes(3 * block + 1)), (None, None), "{}", element.name());
        }
    }
    assert_eq!(ElementType::F32.bytes(usize::MAX / 2), None);
}

#[test]
fn matrices_and_products_of_other_shapes_are_refused() {
    let (workers, x) = (workers(), [1.0; 6]);
    refused("", || matmul(&workers, &x[..3], &[1.0; 7], 3, &mut [0.0; 2]));
    refused("are not rows of 3", || matmul(&workers, &x[..4], &x, 3, &mut [0.0; 2]));
    refused("another shape", || matmul(&workers, &x[..3], &x, 3, &mut [0.0; 3]));
    refused("are not rows", || drop(Matrix::floats(4, x.to_vec())));
    refused("are not rows", || drop(Matrix::stored(ElementType::Q8_0, 32, vec![0; 35])));
    refused("are not rows", || drop(Matrix::stored(ElementType::Q8_0, 33, vec![0; 34])));
    refused("different width", || drop(Matrix::stacked([2, 3].map(|columns| Matrix::floats(columns, x.to_vec())))));
    let matrix = Matrix::floats(3, x.to_vec());
    refused("another length", || matrix.expand_row(Isa::scalar(), 0, &mut [0.0; 2]));
    refused("2 rows end", || matrix.expand_row(Isa::scalar(), 2, &mut [0.0; 3]));
    refused("are not rows of 4", || workers.for_each_row(&mut [0.0; 6], 4, |_, _| {}));
    refused("are not rows of 0", || workers.for_each_row(&mut [], 0, |_, _| {}));
    refused("are not rows of 4", || workers.for_each_row_with(&mut [0; 6], 4, || (), |(), _, _| {}));
}

#[test]
fn rows_of_other_shapes_are_refused() {
    let (workers, x) = (workers(), [1.0; 8]);
    refused("another shape", || rms_norm(&workers, &x, &x[..4], 1e-5, &mut [0.0; 4]));
    refused("another shape", || silu_mul(&workers, &x, 2, &mut [0.0; 2]));
    let table = RopeTable::new(&[1.0], 1.0, 0..2);
    refused("other tokens", || apply_rope(&workers, &mut [1.0; 4], 4, 2, &table));
    refused("other tokens", || apply_rope(&workers, &mut [1.0; 12], 4, 2, &table));
}

#[test]
fn attention_over_heads_or_windows_that_cannot_be_is_refused() {
    let (workers, numbers) = (workers(), [1.0; 12]);
    let attend = |heads, kv_heads, window, q: usize, out: usize| {
        let shape = AttentionShape { heads, kv_heads, head_dim: 2, window };
        let kv = PagedKv { keys: &numbers, values: &numbers, page_size: 1 };
        let span = SequenceSpan { block_table: &[0], cached: 0, new: 1 };
        paged_attention(&workers, (&numbers[..q], 2 * heads), kv, shape, &[span], &mut vec![0.0; out]);
    };
    attend(2, 2, Some(1), 4, 4);
    refused("3 heads over 2", || attend(3, 2, None, 6, 6));
    refused("2 heads over 0", || attend(2, 0, None, 4, 4));
    refused("a window of no tokens", || attend(2, 2, Some(0), 4, 4));
    refused("output of another shape", || attend(2, 2, None, 4, 6));
    refused("queries of another shape", || attend(2, 2, None, 6, 4));
}

#[test]
fn experts_that_are_too_few_or_of_other_shapes_are_refused() {
    let workers = workers();
    let choose = |logits: &[f32], per_token| route(logits, 2, per_token, ExpertWeights::Softmax);
    refused("for 2 experts", || drop(choose(&[1.0; 3], 1)));
    refused("0 of 2 experts", || drop(choose(&[1.0; 4], 0)));
    refused("3 of 2 experts", || drop(choose(&[1.0; 4], 3)));

    let routing = Routing { per_token: 1, experts: vec![0, 1], weights: vec![1.0; 2] };
    let groups = ExpertGroups::new(&routing, 2);
    let multiply = |shapes: &[(usize, usize)], out: usize| {
        let w: Vec<_> = shapes.iter().map(|&(rows, k)| Matrix::floats(k, vec![1.0; rows * k])).collect();
        grouped_matmul(&workers, &groups, &[1.0; 6], |row| row, &w, &mut vec![0.0; out]);
    };
    multiply(&[(2, 3), (2, 3)], 4);
    refused("another number of experts", || multiply(&[(2, 3)], 4));
    refused("another number of experts", || multiply(&[(2, 3); 3], 4));
    refused("different shapes", || multiply(&[(2, 3), (3, 3)], 4));
    refused("different shapes", || multiply(&[(2, 3), (2, 2)], 4));
    refused("output of another shape", || multiply(&[(2, 3); 2], 6));
    let combine = |x: usize, y: usize| {
        combine_experts(&workers, &routing, &groups, (&vec![1.0; x], 2), &mut vec![0.0; y]);
    };
    combine(4, 4);
    refused("rows of another shape", || combine(6, 6));
    refused("output of another shape", || combine(4, 6));
}
