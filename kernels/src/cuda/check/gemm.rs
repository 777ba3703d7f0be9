//! Random matrix products and their solutions.

use cudarc::driver::CudaView;

use super::acceptance::{Accuracy, Comparison, compare};
use super::guarded::Guarded;
use super::noise::{BF16_NAN, Noise, from_bf16, to_bf16};
use super::norm::WeightFormat;
use crate::cuda::device::CudaDevice;
use crate::cuda::error::CudaError;
use crate::cuda::floats::FloatsMut;
use crate::cuda::gemm::{Gemm, GemmArgs};

/// The sizes of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProductSize {
    /// Rows of activations.
    pub rows: usize,
    /// Rows of weights.
    pub columns: usize,
    /// Elements of a row of either.
    pub depth: usize,
}

/// What is added to the rows of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bias {
    /// Nothing.
    None,
    /// Random numbers.
    Random,
    /// Nearly the first row with the other sign, so that what a sum loses by being rounded first is much of the result.
    Cancelling,
}

/// Activations, weights and a bias. In large products, a row of the activations and one of the weights are NaN, so that a
/// row or column that takes part in another's sums is noticed.
#[derive(Debug, Clone)]
pub struct GemmProblem {
    size: ProductSize,
    input: Vec<u16>,
    weights: Vec<u16>,
    bias: Option<Vec<f32>>,
}

/// A solution.
#[derive(Debug, Clone)]
pub struct GemmResult {
    /// `[rows, columns]`.
    pub output: Vec<f64>,
    /// Whether the memory around it was left alone.
    pub guards_intact: bool,
}

impl GemmProblem {
    /// A problem of this size.
    #[must_use]
    pub fn random(size: ProductSize, bias: Bias, seed: u64) -> Self {
        let ProductSize { columns, depth, .. } = size;
        let mut noise = Noise::new(seed);
        let mut weights = noise.normal_bf16(columns * depth);
        if bias != Bias::Cancelling && columns > 4 {
            let row = noise.below(columns);
            weights[row * depth..(row + 1) * depth].fill(BF16_NAN);
        }
        Self::with_weights(size, weights, bias, &mut noise)
    }

    /// A problem with these weights.
    pub(super) fn with_weights(size: ProductSize, weights: Vec<u16>, bias: Bias, noise: &mut Noise) -> Self {
        let ProductSize { rows, columns, depth } = size;
        let mut input = noise.normal_bf16(rows * depth);
        if bias != Bias::Cancelling && rows > 4 {
            let row = noise.below(rows);
            input[row * depth..(row + 1) * depth].fill(BF16_NAN);
        }
        let mut problem = Self { size, input, weights, bias: None };
        problem.bias = match bias {
            Bias::None => None,
            Bias::Random => Some((0..columns).map(|_| noise.normal() * 4.0).collect()),
            Bias::Cancelling => {
                let sums = problem.solve(dot_f32);
                Some(sums[..columns].iter().map(|&sum| noise.normal() / 16.0 - sum as f32).collect())
            }
        };
        problem
    }

    pub(super) fn weights(&self) -> &[u16] {
        &self.weights
    }

    /// The same problem with some of its rows.
    #[must_use]
    pub fn with_rows(&self, rows: std::ops::Range<usize>) -> Self {
        let depth = self.size.depth;
        let input = self.input[rows.start * depth..rows.end * depth].to_vec();
        Self { size: ProductSize { rows: rows.len(), ..self.size }, input, ..self.clone() }
    }

    fn solve(&self, dot: impl Fn(&[u16], &[u16], f32) -> f64) -> Vec<f64> {
        let ProductSize { columns, depth, .. } = self.size;
        let rows = self.input.chunks_exact(depth);
        let value = |row, (column, weights)| {
            let sum = dot(row, weights, self.bias.as_ref().map_or(0.0, |bias| bias[column]));
            if sum.is_nan() { f64::NAN } else { sum }
        };
        rows.flat_map(|row| {
            let weights = self.weights.chunks_exact(depth).take(columns).enumerate();
            weights.map(move |weights| value(row, weights))
        })
        .collect()
    }

    /// Solves the problem with the kernel, for a result in `format`.
    pub fn run(&self, device: &CudaDevice, kernel: &Gemm, format: WeightFormat) -> Result<GemmResult, CudaError> {
        let ProductSize { rows, columns, depth } = self.size;
        let weights = device.upload(&self.weights)?;
        self.launch(device, format, |input, bias, output| {
            let weights = weights.as_view();
            device.gemm(kernel, GemmArgs { input, weights, bias, rows, columns, depth, output })
        })
    }

    /// Launches something that solves the problem: given the input, the bias, and where the result goes.
    pub(super) fn launch(
        &self,
        device: &CudaDevice,
        format: WeightFormat,
        launch: impl Fn(CudaView<'_, u16>, Option<CudaView<'_, f32>>, FloatsMut<'_>) -> Result<(), CudaError>,
    ) -> Result<GemmResult, CudaError> {
        let ProductSize { rows, columns, .. } = self.size;
        let input = device.upload(&self.input)?;
        let bias = self.bias.as_ref().map(|bias| device.upload(bias)).transpose()?;
        let launch = |output: FloatsMut<'_>| {
            launch(input.slice(..self.input.len()), bias.as_ref().map(|bias| bias.as_view()), output)
        };
        let (output, guards_intact) = match format {
            WeightFormat::Bf16 => {
                let mut output = Guarded::<u16>::new(device, rows * columns)?;
                launch(FloatsMut::Bf16(output.view_mut()))?;
                let (output, intact) = output.read(device)?;
                (output.into_iter().map(from_bf16).collect(), intact)
            }
            WeightFormat::F32 => {
                let mut output = Guarded::<f32>::new(device, rows * columns)?;
                launch(FloatsMut::F32(output.view_mut()))?;
                output.read(device)?
            }
        };
        let output: Vec<f32> = output;
        let widen = |value: f32| if value.is_nan() { f64::NAN } else { f64::from(value) };
        Ok(GemmResult { output: output.into_iter().map(widen).collect(), guards_intact })
    }

    /// Compares a solution in `format` with the reference.
    #[must_use]
    pub fn compare(&self, found: &GemmResult, format: WeightFormat) -> Comparison {
        let reference = self.solve(|row, weights, bias| {
            let pairs = row.iter().zip(weights);
            let sum: f64 = pairs.map(|(x, w)| f64::from(from_bf16(*x)) * f64::from(from_bf16(*w))).sum();
            sum + f64::from(bias)
        });
        let naive = |round: fn(f32) -> f32| {
            self.solve(move |row, weights, bias| f64::from(round(dot_f32(row, weights, bias) as f32)))
        };
        match format {
            WeightFormat::Bf16 => {
                let naive = naive(|sum| from_bf16(to_bf16(sum)));
                compare(&found.output, &naive, &reference, Accuracy::Bf16Once)
            }
            WeightFormat::F32 => compare(&found.output, &naive(|sum| sum), &reference, Accuracy::F32),
        }
    }
}

/// A sum in single precision, and a bias that is added to it.
///
/// It is as good as that of the least exact tensor cores: those of an A100 add eight products at a time to a sum, which is cut
/// towards zero; later ones add sixteen. See Khattak and Mikaitis, Accurate Models of NVIDIA Tensor Cores (arXiv 2512.07004).
fn dot_f32(row: &[u16], weights: &[u16], bias: f32) -> f64 {
    let product = |(x, w): (&u16, &u16)| f64::from(from_bf16(*x)) * f64::from(from_bf16(*w));
    let eights = row.chunks(8).zip(weights.chunks(8));
    let sum = eights.fold(0.0_f32, |sum, (x, w)| cut(f64::from(sum) + x.iter().zip(w).map(product).sum::<f64>()));
    f64::from(sum + bias)
}

/// The nearest number of single precision that is not further from zero.
fn cut(number: f64) -> f32 {
    let nearest = number as f32;
    if f64::from(nearest).abs() > number.abs() { f32::from_bits(nearest.to_bits() - 1) } else { nearest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_cut_towards_zero() {
        let ulp = f64::from(f32::EPSILON);
        for (number, expected) in [
            (1.0, 1.0),
            (1.0 + 0.9 * ulp, 1.0),
            (-1.0 - 0.9 * ulp, -1.0),
            (1.0 + 1.1 * ulp, 1.0 + ulp),
            (1e300, f64::from(f32::MAX)),
            (-1e-300, 0.0),
        ] {
            assert!((f64::from(cut(number)) - expected).abs() < f64::MIN_POSITIVE, "{number}");
        }
        assert!(cut(f64::NAN).is_nan());
    }
}
