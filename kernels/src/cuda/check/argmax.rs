//! Random rows of logits, and the likeliest tokens of each.

use super::guarded::Guarded;
use super::noise::{Noise, change, from_bf16, to_bf16};
use super::norm::WeightFormat;
use crate::cuda::argmax::{Argmax, ArgmaxArgs};
use crate::cuda::device::CudaDevice;
use crate::cuda::error::CudaError;
use crate::cuda::floats::Floats;

/// Rows of logits. After the first: one with its highest logit twice, one in which only the last token is possible, one
/// with both zeros as highest, one without a possible token, one with a NaN, one with an infinity. Logits beyond the
/// vocabulary are higher than any within.
#[derive(Debug, Clone)]
pub struct ArgmaxProblem {
    rows: usize,
    vocabulary: usize,
    stride: usize,
    format: WeightFormat,
    logits: Vec<f32>,
}

/// The last thread of a block takes the first of these tokens, and the first thread the second.
const NEIGHBOURS: [usize; 2] = [511, 512];

impl ArgmaxProblem {
    /// `rows` rows of `vocabulary` logits in `format`, `padding` more between them.
    #[must_use]
    pub fn random(rows: usize, vocabulary: usize, padding: usize, format: WeightFormat, seed: u64) -> Self {
        let mut noise = Noise::new(seed);
        let stride = vocabulary + padding;
        let mut logits = vec![1e30; rows * stride];
        for (index, row) in logits.chunks_exact_mut(stride).enumerate() {
            let row = &mut row[..vocabulary];
            row.fill_with(|| noise.normal() * 5.0);
            let mut places = [noise.below(vocabulary), noise.below(vocabulary)];
            places.sort_unstable();
            match index % 7 {
                // Neighbours that different warps look at are as likely as any.
                1 if vocabulary > NEIGHBOURS[1] => NEIGHBOURS.iter().for_each(|&place| row[place] = 40.0),
                1 => places.iter().for_each(|&place| row[place] = 40.0),
                2 => {
                    row.fill(f32::NEG_INFINITY);
                    row[vocabulary - 1] = if index % 2 == 0 { f32::MIN } else { -3.0 };
                }
                3 => {
                    change(row, |logit| -1.0 - logit.abs());
                    row[places[1]] = 0.0;
                    row[places[0]] = -0.0;
                }
                4 => row.fill(f32::NEG_INFINITY),
                // Of either sign.
                5 => row[places[0]] = if index % 2 == 0 { -f32::NAN } else { f32::NAN },
                6 => row[places[0]] = f32::INFINITY,
                0 if index > 0 => row[places[0]] = f32::MAX,
                _ => {}
            }
        }
        if format == WeightFormat::Bf16 {
            change(&mut logits, |logit| from_bf16(to_bf16(logit)));
        }
        Self { rows, vocabulary, stride, format, logits }
    }

    /// The solution.
    #[must_use]
    pub fn reference(&self) -> Vec<i32> {
        let likeliest = |row: &[f32]| {
            let row = &row[..self.vocabulary];
            if row.iter().any(|logit| logit.is_nan() || *logit == f32::INFINITY) {
                return -1;
            }
            let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let first = row.iter().position(|&logit| logit > f32::NEG_INFINITY && logit >= max);
            first.map_or(-1, |token| token as i32)
        };
        self.logits.chunks_exact(self.stride).map(likeliest).collect()
    }

    /// Solves the problem with the kernel: tokens, and whether the memory around them was left alone.
    pub fn run(&self, device: &CudaDevice, kernel: &Argmax) -> Result<(Vec<i32>, bool), CudaError> {
        let bits: Vec<u16> = self.logits.iter().map(|&logit| to_bf16(logit)).collect();
        let (bf16_logits, f32_logits) = (device.upload(&bits)?, device.upload(&self.logits)?);
        let logits = match self.format {
            WeightFormat::Bf16 => Floats::Bf16(bf16_logits.as_view()),
            WeightFormat::F32 => Floats::F32(f32_logits.as_view()),
        };
        let mut tokens = Guarded::<i32>::new(device, self.rows)?;
        let (stride, vocabulary) = (self.stride, self.vocabulary);
        device.argmax(kernel, ArgmaxArgs { logits, stride, vocabulary, tokens: tokens.view_mut() })?;
        tokens.read(device)
    }
}
