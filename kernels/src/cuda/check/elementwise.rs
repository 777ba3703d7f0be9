//! Random activations and their solution.

use super::acceptance::{Accuracy, Comparison, compare};
use super::noise::{Noise, from_bf16, to_bf16};
use super::strided::{Layout, StridedInput, StridedOutput, widen};
use crate::cuda::device::CudaDevice;
use crate::cuda::error::CudaError;
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
