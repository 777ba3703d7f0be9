//! Every problem of the kernel tests, and problems drawn at random.

use std::fmt::Debug;

use kernel_tests::{cases, operation_cases, product_cases};
use kernels::cuda::{CudaDevice, Gemm, GemmTiles};
use serde_json::Value;

use crate::Step;

/// A step for each problem, or for a sample of them.
pub(crate) fn steps(is_thin: bool) -> Vec<Step> {
    let mut all = Problems { steps: Vec::new(), every: if is_thin { 12 } else { 1 } };
    for head_dim in (16..=256).step_by(16 * if is_thin { 7 } else { 1 }) {
        all.some("decode attention", cases::attention(head_dim), cases::AttentionCase::check);
        all.some("prefill attention", cases::prefill(head_dim), cases::PrefillCase::check);
    }
    all.some("decode attention", cases::attention_with_rules(), cases::AttentionCase::check);
    all.some("prefill attention", cases::prefill_with_rules(), cases::PrefillCase::check);
    all.some("latent attention", cases::mla(), cases::MlaCase::check);
    for block_rows in [16, 32, 64, 128] {
        all.some("product with experts", cases::products(block_rows), cases::ProductCase::check);
        all.some("gated product with experts", cases::products(block_rows), cases::ProductCase::check_gated);
    }
    let tiles = &product_cases::DENSE_TILES[..if is_thin { 1 } else { product_cases::DENSE_TILES.len() }];
    for &tile in tiles {
        all.one(format!("products in {tile:?}"), move |device| product_cases::dense(device, tile));
        for format in product_cases::FORMATS {
            all.one(format!("{format:?} in {tile:?}"), move |device| product_cases::quantised(device, format, tile));
        }
    }
    for (name, operation) in operation_cases::ALL {
        if !is_thin || ["page_copies", "elementwise"].contains(&name) {
            all.one(name.to_owned(), operation);
        }
    }
    if is_thin {
        all.steps.extend(random(2));
    }
    all.steps
}

/// Problems drawn at random: of each kind so many.
pub(crate) fn random(count: u64) -> Vec<Step> {
    let mut all = Problems { steps: Vec::new(), every: 1 };
    for seed in 0..count {
        all.one(format!("random decode attention {seed}"), move |device| cases::random_attention(seed).check(device));
        all.one(format!("random prefill attention {seed}"), move |device| cases::random_prefill(seed).check(device));
        all.one(format!("random latent attention {seed}"), move |device| cases::random_mla(seed).check(device));
        all.one(format!("random product with experts {seed}"), move |device| cases::random_product(seed).check(device));
        all.one(format!("random product {seed}"), move |device| {
            product_cases::random_dense(device, &Gemm::new(GemmTiles::default()), seed);
        });
    }
    all.steps
}

struct Problems {
    steps: Vec<Step>,
    every: usize,
}

impl Problems {
    fn one(&mut self, name: String, solve: impl Fn(&CudaDevice) + 'static) {
        self.steps.push(Step::new(name, move |device| {
            solve(device);
            Ok(Value::Null)
        }));
    }

    /// Of these problems, all or a sample.
    fn some<T: Debug + 'static>(&mut self, kind: &str, problems: Vec<T>, solve: fn(&T, &CudaDevice)) {
        for problem in problems.into_iter().step_by(self.every) {
            self.one(format!("{kind} {problem:?}"), move |device| solve(&problem, device));
        }
    }
}
