//! Random products with quantised weights and their solutions.

use super::acceptance::Comparison;
use super::gemm::{Bias, GemmProblem, GemmResult, ProductSize};
use super::noise::{Noise, to_bf16};
use super::norm::WeightFormat;
use crate::cuda::device::CudaDevice;
use crate::cuda::error::CudaError;
use crate::cuda::quantised_gemm::{BlockFormat, QuantisedGemm, QuantisedGemmArgs, QuantisedMatrix};
use crate::cuda::staging::Staging;

/// Activations, blocks of weights and a bias. Scales are of either sign, and some are zero or have no leading one.
#[derive(Debug, Clone)]
pub struct QuantisedGemmProblem {
    size: ProductSize,
    format: BlockFormat,
    blocks: Vec<u8>,
    dense: GemmProblem,
}

impl QuantisedGemmProblem {
    /// A problem of this size.
    #[must_use]
    pub fn random(format: BlockFormat, size: ProductSize, bias: Bias, seed: u64) -> Self {
        let mut noise = Noise::new(seed);
        let count = size.columns * size.depth / 32;
        let mut blocks: Vec<u8> = (0..count * format.block_bytes()).map(|_| noise.below(256) as u8).collect();
        for block in blocks.chunks_exact_mut(format.block_bytes()) {
            let scales = if format == BlockFormat::Q4_1 { 4 } else { 2 };
            for scale in block[..scales].chunks_exact_mut(2) {
                // Exponents of numbers below 2, and for most blocks of those from a hundredth on.
                scale[1] &= 0xbf;
                if noise.below(4) > 0 {
                    scale[1] = scale[1] & 0x83 | (8 + noise.below(7) as u8) << 2;
                }
            }
        }
        Self::with_blocks(format, size, blocks, bias, &mut noise)
    }

    /// A problem with these blocks of weights.
    #[must_use]
    pub fn of_blocks(format: BlockFormat, size: ProductSize, blocks: &[u8], seed: u64) -> Self {
        Self::with_blocks(format, size, blocks.to_vec(), Bias::None, &mut Noise::new(seed))
    }

    fn with_blocks(format: BlockFormat, size: ProductSize, blocks: Vec<u8>, bias: Bias, noise: &mut Noise) -> Self {
        let weights = blocks.chunks_exact(format.block_bytes()).flat_map(|block| expanded(format, block)).collect();
        let dense = GemmProblem::with_weights(size, weights, bias, noise);
        Self { size, format, blocks, dense }
    }

    /// The problem with every weight rounded to bf16, whose solution has the same bits.
    #[must_use]
    pub fn dense(&self) -> &GemmProblem {
        &self.dense
    }

    /// Every weight, rounded to bf16.
    #[must_use]
    pub fn weights(&self) -> &[u16] {
        self.dense.weights()
    }

    /// Solves the problem with the kernel, for a result in `format`.
    pub fn run(
        &self,
        device: &CudaDevice,
        kernel: &QuantisedGemm,
        format: WeightFormat,
    ) -> Result<GemmResult, CudaError> {
        let ProductSize { rows, columns, depth } = self.size;
        let mut staging = Staging::new(device, depth)?;
        let weights = QuantisedMatrix::upload(device, &mut staging, self.format, (columns, depth), &self.blocks)?;
        self.dense.launch(device, format, |input, bias, output| {
            device.quantised_gemm(kernel, QuantisedGemmArgs { input, weights: &weights, bias, rows, output })
        })
    }

    /// Compares a solution in `format` with the reference.
    #[must_use]
    pub fn compare(&self, found: &GemmResult, format: WeightFormat) -> Comparison {
        self.dense.compare(found, format)
    }
}

/// The 32 numbers of a block: in double precision, then rounded to single precision and to bf16.
fn expanded(format: BlockFormat, block: &[u8]) -> Vec<u16> {
    let number = |at: usize| half(u16::from(block[at]) | u16::from(block[at + 1]) << 8);
    let nibble = |codes: &[u8], i: usize| f64::from(if i < 16 { codes[i] % 16 } else { codes[i - 16] / 16 });
    let value = |i: usize| match format {
        BlockFormat::Q8_0 => number(0) * f64::from(block[2 + i].cast_signed()),
        BlockFormat::Q4_0 => number(0) * (nibble(&block[2..], i) - 8.0),
        BlockFormat::Q4_1 => number(0) * nibble(&block[4..], i) + number(2),
    };
    (0..32).map(|i| to_bf16(value(i) as f32)).collect()
}

/// A finite half-precision number.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023) / 1024.0);
    let size =
        if exponent == 0 { fraction * 2.0_f64.powi(-14) } else { (1.0 + fraction) * 2.0_f64.powi(exponent - 15) };
    if bits >> 15 == 1 { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_numbers_by_hand() {
        for (bits, value) in
            [(0x3c00, 1.0), (0xc000, -2.0), (0x0001, 2.0_f64.powi(-24)), (0x8000, 0.0), (0x3555, 0.333_251_953_125)]
        {
            assert!((half(bits) - value).abs() < f64::MIN_POSITIVE, "{bits:#x}");
        }
    }
}
