//! Random activations and biases, and their solutions.

use super::acceptance::{Accuracy, Comparison, compare};
use super::noise::{Noise, from_bf16, to_bf16};
use super::norm::WeightFormat;
use super::strided::{Layout, StridedInput, StridedOutput, widen};
use crate::cuda::add_bias::{AddBias, AddBiasArgs, AddBiasShape};
use crate::cuda::device::CudaDevice;
use crate::cuda::error::CudaError;
use crate::cuda::floats::Floats;
use crate::cuda::silu_mul::{SiluMul, SiluMulArgs, SiluMulShape};

/// Rows of gates and ups; the first gates are so large that their exponential has no number.
#[derive(Debug, Clone)]
pub struct SiluMulProblem {
    shape: SiluMulShape,
    rows: usize,
    gap: usize,
    gate_up: Vec<u16>,
}

impl SiluMulProblem {
    /// `rows` rows, `gap` elements apart.
    #[must_use]
    pub fn random(shape: SiluMulShape, rows: usize, gap: usize, seed: u64) -> Self {
        let mut noise = Noise::new(seed);
        let mut gate_up: Vec<u16> = (0..rows * 2 * shape.width).map(|_| to_bf16(noise.normal() * 4.0)).collect();
        for (gate, extreme) in gate_up.iter_mut().zip([-200.0, 200.0, -0.0]).take(shape.width) {
            *gate = to_bf16(extreme);
        }
        Self { shape, rows, gap, gate_up }
    }

    fn solve(&self, activate: impl Fn(u16, u16) -> f64) -> Vec<f64> {
        let width = self.shape.width;
        let rows = self.gate_up.chunks_exact(2 * width).map(|row| row.split_at(width));
        rows.flat_map(|(gates, ups)| gates.iter().zip(ups).map(|(&gate, &up)| activate(gate, up))).collect()
    }

    /// Solves the problem with the kernel: the output, and whether the memory around it was left alone.
    pub fn run(&self, device: &CudaDevice, kernel: &SiluMul) -> Result<(Vec<f64>, bool), CudaError> {
        let layout = |width, gap| Layout { rows: self.rows, width, stride: width + gap };
        let gate_up = StridedInput::new(device, layout(2 * self.shape.width, self.gap), &self.gate_up)?;
        let mut output = StridedOutput::new(device, layout(self.shape.width, 2 * self.gap))?;
        device.silu_mul(kernel, SiluMulArgs { gate_up: gate_up.rows(), rows: self.rows, output: output.rows() })?;
        let (output, guards_intact) = output.read(device)?;
        Ok((widen(&output), guards_intact))
    }

    /// Compares an output with the reference.
    #[must_use]
    pub fn compare(&self, found: &[f64]) -> Comparison {
        let reference = self.solve(|gate, up| {
            let (gate, up) = (f64::from(from_bf16(gate)), f64::from(from_bf16(up)));
            gate / (1.0 + (-gate).exp()) * up
        });
        let naive = self.solve(|gate, up| {
            let (gate, up) = (from_bf16(gate), from_bf16(up));
            f64::from(from_bf16(to_bf16(gate / (1.0 + (-gate).exp()) * up)))
        });
        compare(found, &naive, &reference, Accuracy::Bf16Once)
    }
}

/// Rows, and what is added to each of them.
#[derive(Debug, Clone)]
pub struct BiasProblem {
    shape: AddBiasShape,
    rows: usize,
    gap: usize,
    values: Vec<u16>,
    format: WeightFormat,
    bias: Vec<f32>,
}

impl BiasProblem {
    /// `rows` rows, `gap` elements apart, and a bias in `format`.
    #[must_use]
    pub fn random(shape: AddBiasShape, rows: usize, format: WeightFormat, gap: usize, seed: u64) -> Self {
        let mut noise = Noise::new(seed);
        let values = noise.normal_bf16(rows * shape.width);
        let bias = (0..shape.width).map(|_| noise.normal()).map(|value| match format {
            WeightFormat::Bf16 => from_bf16(to_bf16(value)),
            WeightFormat::F32 => value,
        });
        Self { shape, rows, gap, values, format, bias: bias.collect() }
    }

    /// The solution: bits. Single precision holds the sums of these numbers to far more than the result's digits.
    #[must_use]
    pub fn reference(&self) -> Vec<u16> {
        let bias = self.bias.iter().cycle();
        self.values.iter().zip(bias).map(|(&value, bias)| to_bf16(from_bf16(value) + bias)).collect()
    }

    /// Solves the problem with the kernel: bits, and whether the memory around them was left alone.
    pub fn run(&self, device: &CudaDevice, kernel: &AddBias) -> Result<(Vec<u16>, bool), CudaError> {
        let layout = Layout { rows: self.rows, width: self.shape.width, stride: self.shape.width + self.gap };
        let mut values = StridedOutput::with(device, layout, &self.values)?;
        let bits: Vec<u16> = self.bias.iter().map(|&value| to_bf16(value)).collect();
        let (bf16_bias, f32_bias) = (device.upload(&bits)?, device.upload(&self.bias)?);
        let bias = match self.format {
            WeightFormat::Bf16 => Floats::Bf16(bf16_bias.as_view()),
            WeightFormat::F32 => Floats::F32(f32_bias.as_view()),
        };
        device.add_bias(kernel, AddBiasArgs { values: values.rows(), rows: self.rows, bias })?;
        values.read(device)
    }
}
