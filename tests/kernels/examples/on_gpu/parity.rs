//! The problems that the kernel tests share, and problems drawn at random.
//!
//! Results are held to double precision or a reference on the host; those of products also to the bits of another block.
//! What the kernel tests look at besides is not here: trees of tokens, other comparisons of bits, what is refused, and what
//! only an emulated device can tell.

use std::fmt::Debug;

use kernel_tests::{cases, operation_cases, product_cases};
use kernels::cuda::check::{Bias, GemmProblem, GemmResult, ProductSize, QuantisedGemmProblem, WeightFormat};
use kernels::cuda::{BlockFormat, CudaDevice, Gemm, GemmTile, GemmTiles, QuantisedGemm};
use serde_json::Value;

use crate::{Found, Outcome, Step};

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
    for tile in product_cases::measured_tiles().take(if is_thin { 1 } else { usize::MAX }) {
        let rest = format!(" in {tile:?}");
        all.one("products", &rest, move |device| product_cases::dense(device, tile));
        all.steps.push(Step::of("bits of a product", &rest, move |device| dense_bits(device, tile)));
        for format in product_cases::FORMATS {
            let kind = format!("products with {format:?}");
            all.one(&kind, &rest, move |device| product_cases::quantised(device, format, tile));
            let kind = format!("bits of a product with {format:?}");
            all.steps.push(Step::of(&kind, &rest, move |device| quantised_bits(device, format, tile)));
        }
    }
    for (name, operation) in operation_cases::ALL {
        if !is_thin || ["page_copies", "elementwise"].contains(&name) {
            all.one(name, "", operation);
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
        let rest = format!(" {seed}");
        all.one("random decode attention", &rest, move |device| cases::random_attention(seed).check(device));
        all.one("random prefill attention", &rest, move |device| cases::random_prefill(seed).check(device));
        all.one("random latent attention", &rest, move |device| cases::random_mla(seed).check(device));
        all.one("random product with experts", &rest, move |device| cases::random_product(seed).check(device));
        all.one("random product", &rest, move |device| {
            product_cases::random_dense(device, &Gemm::new(GemmTiles::default()), seed);
        });
    }
    all.steps
}

/// A product is to have the same bits in every block: a measurement may choose any of them.
fn dense_bits(device: &CudaDevice, tile: GemmTile) -> Outcome<Found> {
    let problem = GemmProblem::random(ProductSize { rows: 70, columns: 150, depth: 328 }, Bias::Random, 81);
    let run = |tile| -> Outcome<GemmResult> {
        let kernel = Gemm::compile(device, GemmTiles::only(tile))?;
        Ok(problem.run(device, &kernel, WeightFormat::F32)?)
    };
    Ok(compared(&run(tile)?, &run(GemmTile::MANY)?))
}

/// One with quantised weights is to have those of the product with the expanded matrix.
fn quantised_bits(device: &CudaDevice, format: BlockFormat, tile: GemmTile) -> Outcome<Found> {
    let size = ProductSize { rows: 21, columns: 150, depth: 416 };
    let problem = QuantisedGemmProblem::random(format, size, Bias::Random, 90);
    let kernel = QuantisedGemm::compile(device, format, GemmTiles::only(tile))?;
    let found = problem.run(device, &kernel, WeightFormat::F32)?;
    let expanded = Gemm::compile(device, GemmTiles::only(GemmTile::MANY))?;
    Ok(compared(&found, &problem.dense().run(device, &expanded, WeightFormat::F32)?))
}

fn compared(found: &GemmResult, wanted: &GemmResult) -> Found {
    let mut all = Found::default();
    if found.output.len() != wanted.output.len() {
        all.failed.push(format!("{} values where {} are wanted", found.output.len(), wanted.output.len()));
    }
    let pairs = || found.output.iter().zip(&wanted.output);
    let other = || pairs().enumerate().filter(|(_, (found, wanted))| found.to_bits() != wanted.to_bits());
    if let Some((at, (found, wanted))) = other().next() {
        let (count, of) = (other().count(), pairs().len());
        all.failed.push(format!("{count} of {of} values have other bits; value {at} is {found:e}, not {wanted:e}"));
    }
    all
}

struct Problems {
    steps: Vec<Step>,
    every: usize,
}

impl Problems {
    fn one(&mut self, kind: &str, rest: &str, solve: impl Fn(&CudaDevice) + 'static) {
        self.steps.push(Step::of(kind, rest, move |device| {
            solve(device);
            Ok(Value::Null.into())
        }));
    }

    /// Of these problems, all or a sample.
    fn some<T: Debug + 'static>(&mut self, kind: &str, problems: Vec<T>, solve: fn(&T, &CudaDevice)) {
        for problem in problems.into_iter().step_by(self.every) {
            self.one(kind, &format!(" {problem:?}"), move |device| solve(&problem, device));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_other_bits_are_counted() {
        let result = |output: &[f64]| GemmResult { output: output.to_vec(), guards_intact: true };
        let wanted = result(&[1.0, 2.0, 0.0]);
        assert!(compared(&wanted, &wanted).failed.is_empty());
        let found = compared(&result(&[1.0, 2.5, -0.0]), &wanted);
        assert_eq!(found.failed, ["2 of 3 values have other bits; value 1 is 2.5e0, not 2e0"]);
        assert_eq!(compared(&result(&[1.0]), &wanted).failed, ["1 values where 3 are wanted"]);
    }

    #[test]
    fn every_block_that_a_product_may_be_given_is_tried() {
        let steps = steps(false);
        for tile in GemmTile::CANDIDATES {
            let rest = format!(" in {tile:?}");
            assert_eq!(steps.iter().filter(|step| step.title.name.ends_with(&rest)).count(), 8, "{tile:?}");
        }
    }
}
