//! Random normalisations and their solution.

use super::acceptance::{Accuracy, Comparison, compare};
use super::noise::{Noise, from_bf16, to_bf16};
use super::strided::{Layout, StridedInput, StridedOutput, widen};
use crate::cuda::device::CudaDevice;
use crate::cuda::error::CudaError;
use crate::cuda::floats::Floats;
use crate::cuda::rms_norm::{RmsNorm, RmsNormArgs, RmsNormShape};

/// The number format of a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightFormat {
    /// 16-bit.
    Bf16,
    /// 32-bit.
    F32,
}

/// Rows to normalise, of sizes from far below one to far above; the first is zeros.
#[derive(Debug, Clone)]
pub struct NormProblem {
    shape: RmsNormShape,
    rows: usize,
    /// Elements between a row of the input and the next; twice as many between rows of the output.
    gap: usize,
    input: Vec<u16>,
    residual: Option<Vec<u16>>,
    format: WeightFormat,
    /// Values that either format has exactly, unless it is [`WeightFormat::F32`].
    weight: Vec<f32>,
    epsilon: f32,
}

/// A solution.
#[derive(Debug, Clone)]
pub struct NormResult {
    /// `[rows, width]`.
    pub output: Vec<f64>,
    /// `[rows, width]`, the bits of the residual stream afterwards; nothing where there was none.
    pub residual: Vec<u16>,
    /// Whether the memory around and between the rows was left alone.
    pub guards_intact: bool,
}

impl NormProblem {
    /// `rows` rows, with or without the addition before, `gap` elements apart.
    #[must_use]
    pub fn random(
        shape: RmsNormShape,
        rows: usize,
        (adds, format): (bool, WeightFormat),
        gap: usize,
        seed: u64,
    ) -> Self {
        let mut noise = Noise::new(seed);
        let values = |noise: &mut Noise| -> Vec<u16> {
            let size = |row: usize| [0.0, 1.0, 1e-4, 300.0][row.min(row % 3 + 1)];
            (0..rows * shape.width).map(|i| to_bf16(noise.normal() * size(i / shape.width))).collect()
        };
        let input = values(&mut noise);
        let residual = adds.then(|| values(&mut noise));
        let weight = (0..shape.width).map(|_| noise.normal()).map(|value| match format {
            WeightFormat::Bf16 => from_bf16(to_bf16(value)),
            WeightFormat::F32 => value,
        });
        Self { shape, rows, gap, input, residual, format, weight: weight.collect(), epsilon: 1e-5 }
    }

    /// The same problem without the rows from `count` on.
    #[must_use]
    pub fn first_rows(&self, count: usize) -> Self {
        let mut fewer = self.clone();
        fewer.rows = count;
        fewer.input.truncate(count * self.shape.width);
        if let Some(residual) = &mut fewer.residual {
            residual.truncate(count * self.shape.width);
        }
        fewer
    }

    /// What is normalised, as bits.
    fn sums(&self) -> Vec<u16> {
        let Some(residual) = &self.residual else {
            return self.input.clone();
        };
        residual.iter().zip(&self.input).map(|(&r, &x)| to_bf16(from_bf16(r) + from_bf16(x))).collect()
    }

    fn solve(&self, normalise: impl Fn(&[u16]) -> Vec<f64>) -> NormResult {
        let sums = self.sums();
        let output = sums.chunks_exact(self.shape.width).flat_map(normalise).collect();
        NormResult { output, residual: if self.residual.is_some() { sums } else { Vec::new() }, guards_intact: true }
    }

    /// The solution in double precision.
    #[must_use]
    pub fn reference(&self) -> NormResult {
        self.solve(|row| {
            let row = widen(row);
            let mean = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
            let rms = (mean + f64::from(self.epsilon)).sqrt();
            row.iter().zip(&self.weight).map(|(x, &w)| x / rms * f64::from(w)).collect()
        })
    }

    /// The solution as a plain program with bf16 inputs and outputs has it: single precision.
    #[must_use]
    pub fn naive(&self) -> NormResult {
        self.solve(|row| {
            let row: Vec<f32> = row.iter().map(|&bits| from_bf16(bits)).collect();
            let mean = row.iter().map(|x| x * x).sum::<f32>() / row.len() as f32;
            let scale = 1.0 / (mean + self.epsilon).sqrt();
            row.iter().zip(&self.weight).map(|(x, w)| f64::from(from_bf16(to_bf16(x * scale * w)))).collect()
        })
    }

    /// Solves the problem with the kernel.
    pub fn run(&self, device: &CudaDevice, kernel: &RmsNorm) -> Result<NormResult, CudaError> {
        let layout = |gap| Layout { rows: self.rows, width: self.shape.width, stride: self.shape.width + gap };
        let input = StridedInput::new(device, layout(self.gap), &self.input)?;
        let mut residual = match &self.residual {
            Some(values) => Some(StridedOutput::with(device, layout(0), values)?),
            None => None,
        };
        let mut output = StridedOutput::new(device, layout(2 * self.gap))?;
        let bits: Vec<u16> = self.weight.iter().map(|&value| to_bf16(value)).collect();
        let (bf16_weight, f32_weight) = (device.upload(&bits)?, device.upload(&self.weight)?);
        device.rms_norm(
            kernel,
            RmsNormArgs {
                input: input.rows(),
                residual: residual.as_mut().map(StridedOutput::rows),
                weight: match self.format {
                    WeightFormat::Bf16 => Floats::Bf16(bf16_weight.as_view()),
                    WeightFormat::F32 => Floats::F32(f32_weight.as_view()),
                },
                epsilon: self.epsilon,
                rows: self.rows,
                output: output.rows(),
            },
        )?;
        let (output, output_intact) = output.read(device)?;
        let (residual, residual_intact) = match residual {
            Some(residual) => residual.read(device)?,
            None => (Vec::new(), true),
        };
        Ok(NormResult { output: widen(&output), residual, guards_intact: output_intact && residual_intact })
    }

    /// Compares a solution's output with the reference. The residual stream is not compared: it must be equal.
    #[must_use]
    pub fn compare(&self, found: &NormResult) -> Comparison {
        let (naive, reference) = (self.naive(), self.reference());
        compare(&found.output, &naive.output, &reference.output, Accuracy::Bf16Once)
    }
}
