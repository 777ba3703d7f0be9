//! Random grouped matrix products and their solution.

use super::acceptance::{Accuracy, Comparison, compare};
use super::guarded::Guarded;
use super::noise::{BF16_NAN, Noise, from_bf16, to_bf16};
use crate::cuda::device::CudaDevice;
use crate::cuda::error::CudaError;
use crate::cuda::grouped_gemm::{GatedGemm, GroupedGemm, GroupedGemmArgs, GroupedGemmShape, RowGroups};

/// A batch of rows sent to experts. Weights of experts without rows are NaN, and padding is any number that is no row.
/// With foreign rows, the grouping ends with a block that is not in use and would fail if it were.
#[derive(Debug, Clone)]
pub struct GroupedGemmProblem {
    shape: GroupedGemmShape,
    is_gated: bool,
    expert_of_row: Vec<i32>,
    input: Vec<u16>,
    weights: Vec<u16>,
    groups: RowGroups,
    /// Entries of the sorted rows that are in use.
    in_use: usize,
}

/// A solution.
#[derive(Debug, Clone)]
pub struct GroupedGemmResult {
    /// `[rows, columns]`.
    pub output: Vec<f64>,
    /// Whether the memory around it was left alone.
    pub guards_intact: bool,
}

impl GroupedGemmProblem {
    /// A batch with `rows[e]` rows for expert `e`, and `foreign` or a few more rows whose expert has no weights here.
    pub fn random(shape: GroupedGemmShape, rows: &[usize], foreign: usize, seed: u64) -> Result<Self, CudaError> {
        Self::new(shape, false, (rows, foreign), seed)
    }

    /// The same for a gated product.
    pub fn gated(shape: GroupedGemmShape, rows: &[usize], foreign: usize, seed: u64) -> Result<Self, CudaError> {
        Self::new(shape, true, (rows, foreign), seed)
    }

    fn new(
        shape: GroupedGemmShape,
        is_gated: bool,
        (rows, foreign): (&[usize], usize),
        seed: u64,
    ) -> Result<Self, CudaError> {
        let mut noise = Noise::new(seed);
        let mut expert_of_row: Vec<i32> =
            rows.iter().enumerate().flat_map(|(expert, &rows)| std::iter::repeat_n(expert as i32, rows)).collect();
        let total = (expert_of_row.len() + foreign).next_multiple_of(shape.rows_per_input);
        expert_of_row.resize(total, -1);
        noise.shuffle(&mut expert_of_row);
        let input = noise.normal_bf16(total / shape.rows_per_input * shape.depth);
        let matrix = (1 + usize::from(is_gated)) * shape.columns * shape.depth;
        let weights = (0..shape.experts)
            .flat_map(|expert| match rows.get(expert) {
                None | Some(0) => vec![BF16_NAN; matrix],
                Some(_) => noise.normal_bf16(matrix),
            })
            .collect();
        let mut groups = RowGroups::new(&expert_of_row, shape.experts, shape.block_rows)?;
        let padding = groups.sorted_rows.iter_mut().filter(|row| **row == i32::MAX);
        padding.zip([total as i32, -1, i32::MAX].iter().cycle()).for_each(|(row, number)| *row = *number);
        let in_use = groups.sorted_rows.len();
        if foreign > 0 {
            groups.sorted_rows.extend(std::iter::repeat_n(0, shape.block_rows));
            groups.block_expert.push(i32::MAX);
        }
        Ok(Self { shape, is_gated, expert_of_row, input, weights, groups, in_use })
    }

    /// The solution in double precision.
    #[must_use]
    pub fn reference(&self) -> GroupedGemmResult {
        let dot = |input: &[u16], weights: &[u16]| -> f64 {
            let pairs = input.iter().zip(weights);
            pairs.map(|(x, w)| f64::from(from_bf16(*x)) * f64::from(from_bf16(*w))).sum()
        };
        self.solve(dot, |gate, up| up.map_or(gate, |up| gate / (1.0 + (-gate).exp()) * up))
    }

    /// The solution as a plain program with bf16 inputs and outputs has it: single precision.
    #[must_use]
    pub fn naive(&self) -> GroupedGemmResult {
        let dot = |input: &[u16], weights: &[u16]| -> f32 {
            let pairs = input.iter().zip(weights);
            pairs.map(|(x, w)| from_bf16(*x) * from_bf16(*w)).sum()
        };
        self.solve(dot, |gate, up| {
            let value = up.map_or(gate, |up| gate / (1.0 + (-gate).exp()) * up);
            f64::from(from_bf16(to_bf16(value)))
        })
    }

    fn solve<T>(&self, dot: impl Fn(&[u16], &[u16]) -> T, finish: impl Fn(T, Option<T>) -> f64) -> GroupedGemmResult {
        let GroupedGemmShape { columns, depth, rows_per_input, .. } = self.shape;
        let output = self.expert_of_row.iter().enumerate().flat_map(|(row, &expert)| {
            let input = &self.input[row / rows_per_input * depth..][..depth];
            let (dot, finish) = (&dot, &finish);
            (0..columns).map(move |column| {
                usize::try_from(expert).map_or(0.0, |expert| {
                    let products = 1 + usize::from(self.is_gated);
                    let product = |number: usize| {
                        let start = ((expert * products + number) * columns + column) * depth;
                        dot(input, &self.weights[start..start + depth])
                    };
                    finish(product(0), self.is_gated.then(|| product(1)))
                })
            })
        });
        GroupedGemmResult { output: output.collect(), guards_intact: true }
    }

    /// Solves the problem with the kernel.
    pub fn run(&self, device: &CudaDevice, kernel: &GroupedGemm) -> Result<GroupedGemmResult, CudaError> {
        self.launch(device, |args| device.grouped_gemm(kernel, args))
    }

    /// Solves a gated problem with the kernel.
    pub fn run_gated(&self, device: &CudaDevice, kernel: &GatedGemm) -> Result<GroupedGemmResult, CudaError> {
        self.launch(device, |args| device.gated_gemm(kernel, args))
    }

    fn launch(
        &self,
        device: &CudaDevice,
        launch: impl FnOnce(GroupedGemmArgs<'_>) -> Result<(), CudaError>,
    ) -> Result<GroupedGemmResult, CudaError> {
        let rows = self.expert_of_row.len();
        let input = device.upload(&self.input)?;
        let weights = device.upload(&self.weights)?;
        let sorted_rows = device.upload(&self.groups.sorted_rows)?;
        let block_expert = device.upload(&self.groups.block_expert)?;
        let used_rows = device.upload(&[self.in_use as i32])?;
        let mut output = Guarded::<u16>::new(device, rows * self.shape.columns)?;
        launch(GroupedGemmArgs {
            input: input.slice(..self.input.len()),
            weights: weights.as_view(),
            sorted_rows: sorted_rows.slice(..self.groups.sorted_rows.len()),
            block_expert: block_expert.slice(..self.groups.block_expert.len()),
            used_rows: used_rows.as_view(),
            rows,
            output: output.view_mut(),
        })?;
        let (output, guards_intact) = output.read(device)?;
        Ok(GroupedGemmResult { output: output.iter().map(|&bits| f64::from(from_bf16(bits))).collect(), guards_intact })
    }

    /// Compares a solution with the reference.
    #[must_use]
    pub fn compare(&self, found: &GroupedGemmResult) -> Comparison {
        let (naive, reference) = (self.naive(), self.reference());
        // Rounded gates and ups would add to the error of a product of theirs.
        let accuracy = if self.is_gated { Accuracy::Bf16Once } else { Accuracy::Bf16 };
        compare(&found.output, &naive.output, &reference.output, accuracy)
    }
}
