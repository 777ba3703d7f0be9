//! Random gathers of rows and their solution.

use super::noise::{BF16_NAN, Noise};
use super::strided::{Layout, StridedInput, StridedOutput};
use crate::cuda::device::CudaDevice;
use crate::cuda::error::CudaError;
use crate::cuda::gather_rows::{GatherRows, GatherRowsArgs, GatherRowsShape, RowNumbers};

/// A table, and numbers of rows that it has and that it does not have. Rows that nobody wants are NaN.
#[derive(Debug, Clone)]
pub struct GatherProblem {
    shape: GatherRowsShape,
    table_rows: usize,
    gap: usize,
    table: Vec<u16>,
    numbers: Vec<i32>,
    unsigned: bool,
}

impl GatherProblem {
    /// `rows` rows of a table of `table_rows`; numbers are handed over as `u32` if `unsigned`, otherwise as `i32`.
    #[must_use]
    pub fn random(
        shape: GatherRowsShape,
        (table_rows, rows): (usize, usize),
        unsigned: bool,
        gap: usize,
        seed: u64,
    ) -> Self {
        let mut noise = Noise::new(seed);
        let beyond = [table_rows as i32, -1, i32::MIN, i32::MAX];
        let numbers: Vec<i32> = (0..rows)
            .map(|row| match beyond.get(row / 2) {
                Some(&number) if row % 2 == 1 => number,
                _ => noise.below(table_rows) as i32,
            })
            .collect();
        let table =
            (0..table_rows as i32)
                .flat_map(|row| {
                    if numbers.contains(&row) { noise.normal_bf16(shape.width) } else { vec![BF16_NAN; shape.width] }
                })
                .collect();
        Self { shape, table_rows, gap, table, numbers, unsigned }
    }

    /// The solution: bits of the output.
    #[must_use]
    pub fn reference(&self) -> Vec<u16> {
        let width = self.shape.width;
        let row = |&number: &i32| match usize::try_from(number) {
            Ok(row) if row < self.table_rows => self.table[row * width..][..width].to_vec(),
            _ => vec![0; width],
        };
        self.numbers.iter().flat_map(row).collect()
    }

    /// Solves the problem with the kernel: bits of the output, and whether the memory around it was left alone.
    pub fn run(&self, device: &CudaDevice, kernel: &GatherRows) -> Result<(Vec<u16>, bool), CudaError> {
        let width = self.shape.width;
        let layout = |rows, gap| Layout { rows, width, stride: width + gap };
        let table = StridedInput::new(device, layout(self.table_rows, self.gap), &self.table)?;
        let signed = device.upload(&self.numbers)?;
        let unsigned = device.upload(&self.numbers.iter().map(|number| number.cast_unsigned()).collect::<Vec<_>>())?;
        let rows = self.numbers.len();
        let mut output = StridedOutput::new(device, layout(rows, 2 * self.gap))?;
        device.gather_rows(
            kernel,
            GatherRowsArgs {
                table: table.rows(),
                table_rows: self.table_rows,
                rows: if self.unsigned {
                    RowNumbers::U32(unsigned.slice(..rows))
                } else {
                    RowNumbers::I32(signed.slice(..rows))
                },
                output: output.rows(),
            },
        )?;
        output.read(device)
    }
}
