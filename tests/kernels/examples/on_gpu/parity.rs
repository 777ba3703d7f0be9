//! Every problem of the kernel tests.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kernel_tests::{cases, operation_cases, product_cases};
use kernels::cuda::{CudaDevice, Gemm, GemmTiles};
use serde_json::{Value, json};

use crate::Outcome;

/// Runs all problems, or a sample; a problem that fails is listed, and the others still run.
pub(crate) fn run(device: &CudaDevice, is_thin: bool) -> Outcome<Value> {
    let mut tally = Tally { solved: 0, failed: Vec::new() };
    let step = if is_thin { 12 } else { 1 };
    for head_dim in (16..=256).step_by(16 * if is_thin { 7 } else { 1 }) {
        tally.all(cases::attention(head_dim).iter().step_by(step), |case| case.check(device));
        tally.all(cases::prefill(head_dim).iter().step_by(step), |case| case.check(device));
    }
    tally.all(cases::attention_with_rules().iter().step_by(step), |case| case.check(device));
    tally.all(cases::prefill_with_rules().iter().step_by(step), |case| case.check(device));
    tally.all(cases::mla().iter().step_by(step), |case| case.check(device));
    for block_rows in [16, 32, 64, 128] {
        tally.all(cases::products(block_rows).iter().step_by(step), |case| case.check(device));
        tally.all(cases::products(block_rows).iter().step_by(step), |case| case.check_gated(device));
    }
    let tiles = &product_cases::DENSE_TILES[..if is_thin { 1 } else { product_cases::DENSE_TILES.len() }];
    tally.all(tiles, |&tile| product_cases::dense(device, tile));
    for format in product_cases::FORMATS {
        tally.all(tiles, |&tile| product_cases::quantised(device, format, tile));
    }
    let operations: &[fn(&CudaDevice)] =
        if is_thin { &[operation_cases::page_copies, operation_cases::elementwise] } else { &[operation_cases::all] };
    tally.all(operations, |operation| operation(device));
    let seeds: Vec<u64> = (0..if is_thin { 2 } else { 200 }).collect();
    tally.all(&seeds, |&seed| cases::random_attention(seed).check(device));
    tally.all(&seeds, |&seed| cases::random_prefill(seed).check(device));
    tally.all(&seeds, |&seed| cases::random_mla(seed).check(device));
    tally.all(&seeds, |&seed| cases::random_product(seed).check(device));
    let product = Gemm::compile(device, GemmTiles::default())?;
    tally.all(&seeds, |&seed| product_cases::random_dense(device, &product, seed));
    Ok(json!({
        "device": device.name()?,
        "target": device.target().to_string(),
        "solved": tally.solved,
        "failed": tally.failed,
    }))
}

struct Tally {
    solved: usize,
    failed: Vec<String>,
}

impl Tally {
    fn all<T>(&mut self, problems: impl IntoIterator<Item = T>, solve: impl Fn(T)) {
        for problem in problems {
            match catch_unwind(AssertUnwindSafe(|| solve(problem))) {
                Ok(()) => self.solved += 1,
                Err(panic) => {
                    let text = panic.downcast_ref::<String>().cloned();
                    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
                    self.failed.push(text.unwrap_or_else(|| "a panic without words".to_owned()));
                }
            }
        }
    }
}
