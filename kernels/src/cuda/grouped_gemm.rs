//! Grouped matrix products: every row against the weights of its expert.

use cudarc::driver::{CudaView, CudaViewMut, PushKernelArg};

use super::device::{CudaDevice, LoadedFunction};
use super::error::{CudaError, require, require_size, require_supported};
use super::gemm_tile::GemmTile;
use super::kernel::{Kernel, KernelCode, KernelShape, start};
use super::nvrtc::KernelSource;

/// The sizes that the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupedGemmShape {
    /// Rows of a block, all of one expert: 16, 32, 64 or 128.
    pub block_rows: usize,
    /// Experts that have weights here.
    pub experts: usize,
    /// Output width of an expert, a multiple of 8.
    pub columns: usize,
    /// Input width of an expert, a multiple of 8.
    pub depth: usize,
    /// Output rows that read the same input row: a token's experts for the first product, 1 for the second.
    pub rows_per_input: usize,
}

impl GroupedGemmShape {
    /// Says what is wrong with a shape that the kernel does not support.
    pub fn check(&self) -> Result<(), CudaError> {
        let in_i32 = |number: usize| (1..=i32::MAX as usize).contains(&number);
        require_supported(
            "block_rows",
            self.block_rows,
            matches!(self.block_rows, 16 | 32 | 64 | 128),
            "16, 32, 64 and 128",
        )?;
        for (what, value) in [("columns", self.columns), ("depth", self.depth)] {
            require_supported(
                what,
                value,
                in_i32(value) && value.is_multiple_of(8),
                "positive multiples of 8 below 2^31",
            )?;
        }
        for (what, value) in [("experts", self.experts), ("rows_per_input", self.rows_per_input)] {
            require_supported(what, value, in_i32(value), "1 to 2147483647")?;
        }
        Ok(())
    }

    /// A block of 4 warps. With few rows, steps are deep, since such a product waits for its weights.
    fn tile(&self) -> GemmTile {
        let (warps_down, depth, stages) = match self.block_rows {
            16 => (1, 128, 4),
            32 => (2, 64, 4),
            64 => (2, 32, 3),
            _ => (4, 32, 3),
        };
        GemmTile { rows: self.block_rows, columns: 64, depth, stages, warps_down, warps_across: 4 / warps_down }
    }
}

/// The sizes of a gated product: twice as many columns are multiplied as come out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatedGemmShape(
    /// The output's. An expert's weights are `columns` rows for the gates, and below them as many for what they gate.
    pub GroupedGemmShape,
);

const SOURCE: KernelSource = KernelSource::embedded("grouped_gemm.cu", include_str!("../../cu/grouped_gemm.cu"));
const FUNCTIONS: &[&str] = &["grouped_gemm"];

impl KernelCode for GroupedGemmShape {
    const SOURCE: KernelSource = SOURCE;
    const FUNCTIONS: &'static [&'static str] = FUNCTIONS;
}

impl KernelCode for GatedGemmShape {
    const SOURCE: KernelSource = SOURCE;
    const FUNCTIONS: &'static [&'static str] = FUNCTIONS;
}

impl GroupedGemmShape {
    fn macros(&self, is_gated: bool) -> Result<Vec<(&'static str, usize)>, CudaError> {
        self.check()?;
        let mut macros = self.tile().macros()?;
        macros.extend([
            ("COLUMNS", self.columns),
            ("DEPTH", self.depth),
            ("ROWS_PER_INPUT", self.rows_per_input),
            ("GATED", usize::from(is_gated)),
        ]);
        Ok(macros)
    }
}

impl KernelShape for GroupedGemmShape {
    fn macros(&self) -> Result<Vec<(&'static str, usize)>, CudaError> {
        self.macros(false)
    }

    fn shared_bytes(&self) -> usize {
        self.tile().shared_bytes()
    }
}

impl KernelShape for GatedGemmShape {
    fn macros(&self) -> Result<Vec<(&'static str, usize)>, CudaError> {
        self.0.macros(true)
    }

    fn shared_bytes(&self) -> usize {
        self.0.tile().shared_bytes()
    }
}

/// Rows sorted by expert, each expert's rows padded to whole blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowGroups {
    /// Row numbers, `block_rows` to a block; `i32::MAX` is padding.
    pub sorted_rows: Vec<i32>,
    /// The expert of each block; -1 for rows whose expert has no weights here.
    pub block_expert: Vec<i32>,
}

impl RowGroups {
    /// Groups rows by their expert. Rows keep their order within an expert, so a batch has one grouping only.
    ///
    /// A negative expert is one that has no weights here; its rows get zeros.
    pub fn new(expert_of_row: &[i32], experts: usize, block_rows: usize) -> Result<Self, CudaError> {
        let mut rows_of = vec![Vec::new(); experts + 1];
        for (row, &expert) in expert_of_row.iter().enumerate() {
            // Group 0 is that of foreign experts.
            let group = usize::try_from(expert).map_or(0, |expert| expert + 1);
            require("an expert", group.wrapping_sub(1), group <= experts, || format!("less than {experts}"))?;
            rows_of[group].push(row as i32);
        }
        let mut groups = Self { sorted_rows: Vec::new(), block_expert: Vec::new() };
        for (group, rows) in rows_of.iter().enumerate() {
            let blocks = rows.len().div_ceil(block_rows);
            groups.sorted_rows.extend(rows);
            groups.block_expert.extend(std::iter::repeat_n(group as i32 - 1, blocks));
            groups.sorted_rows.resize(groups.block_expert.len() * block_rows, i32::MAX);
        }
        Ok(groups)
    }
}

/// The arguments of one launch, on the device.
///
/// The contents of `sorted_rows` and `block_expert` cannot be checked before the launch. Wrong ones make the kernel
/// read the wrong weights, or fail where there is no memory; it writes rows below `rows` only.
#[derive(Debug)]
pub struct GroupedGemmArgs<'a> {
    /// `[rows / rows_per_input, depth]`.
    pub input: CudaView<'a, u16>,
    /// `[experts, columns, depth]`; of a gated product twice as many columns.
    pub weights: CudaView<'a, u16>,
    /// `[blocks, block_rows]`, as [`RowGroups`] has them. There may be more blocks than are in use.
    pub sorted_rows: CudaView<'a, i32>,
    /// `[blocks]`.
    pub block_expert: CudaView<'a, i32>,
    /// One number: entries of `sorted_rows` in use. On the device, so that the host need not know it.
    pub used_rows: CudaView<'a, i32>,
    /// Output rows.
    pub rows: usize,
    /// `[rows, columns]`. Rows that no block names are left as they are.
    pub output: CudaViewMut<'a, u16>,
}

/// The kernel, compiled for a shape and loaded on a device.
pub type GroupedGemm = Kernel<GroupedGemmShape>;

/// The gated kernel: `silu(gate) * up`, rounded once.
pub type GatedGemm = Kernel<GatedGemmShape>;

impl CudaDevice {
    /// Launches a grouped matrix product.
    pub fn grouped_gemm(&self, kernel: &GroupedGemm, args: GroupedGemmArgs<'_>) -> Result<(), CudaError> {
        self.launch_grouped(kernel.function(0), *kernel.shape(), 1, args)
    }

    /// Launches a grouped product that is gated.
    pub fn gated_gemm(&self, kernel: &GatedGemm, args: GroupedGemmArgs<'_>) -> Result<(), CudaError> {
        self.launch_grouped(kernel.function(0), kernel.shape().0, 2, args)
    }

    /// With `products` columns of weights for each column of the output.
    fn launch_grouped(
        &self,
        function: &LoadedFunction,
        shape: GroupedGemmShape,
        products: usize,
        args: GroupedGemmArgs<'_>,
    ) -> Result<(), CudaError> {
        self.check_gemm_args(shape, products, &args)?;
        let tile = shape.tile();
        let grid = tile.grid(args.sorted_rows.len(), products * shape.columns, tile.shared_bytes())?;
        if args.block_expert.is_empty() {
            return Ok(());
        }
        let rows = args.rows as i32;
        let mut output = args.output;
        let mut launch = self.launch_builder(function)?;
        launch
            .arg(&args.input)
            .arg(&args.weights)
            .arg(&mut output)
            .arg(&args.sorted_rows)
            .arg(&args.block_expert)
            .arg(&args.used_rows)
            .arg(&rows);
        // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
        unsafe { start(&mut launch, grid, "launching a grouped matrix product") }
    }

    fn check_gemm_args(
        &self,
        shape: GroupedGemmShape,
        products: usize,
        args: &GroupedGemmArgs<'_>,
    ) -> Result<(), CudaError> {
        let rows = args.rows;
        require("rows", rows, i32::try_from(rows).is_ok() && rows.is_multiple_of(shape.rows_per_input), || {
            format!("a multiple of {} below 2^31", shape.rows_per_input)
        })?;
        let inputs = rows / shape.rows_per_input;
        require_size("length of input", args.input.len(), inputs * shape.depth)?;
        require_size("length of output", args.output.len(), rows * shape.columns)?;
        let weights = [shape.experts, products, shape.columns, shape.depth]
            .iter()
            .try_fold(1_usize, |product, size| product.checked_mul(*size));
        require("length of weights", args.weights.len(), weights == Some(args.weights.len()), || {
            format!("{} x {} x {}", shape.experts, products * shape.columns, shape.depth)
        })?;
        let blocks = args.block_expert.len();
        let sorted = blocks.checked_mul(shape.block_rows).filter(|sorted| i32::try_from(*sorted).is_ok());
        require("length of sorted_rows", args.sorted_rows.len(), sorted == Some(args.sorted_rows.len()), || {
            format!("{blocks} blocks of {}, below 2^31", shape.block_rows)
        })?;
        require_size("length of used_rows", args.used_rows.len(), 1)?;
        for (what, misalignment) in [
            ("the input's address modulo 16", self.misalignment(&args.input)),
            ("the weights' address modulo 16", self.misalignment(&args.weights)),
            ("the output's address modulo 16", self.misalignment(&args.output)),
        ] {
            require_size(what, misalignment, 0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: GroupedGemmShape =
        GroupedGemmShape { block_rows: 64, experts: 8, columns: 128, depth: 64, rows_per_input: 2 };

    #[test]
    fn unsupported_shapes_say_what_is_supported() {
        GOOD.check().unwrap();
        let bad = [
            (GroupedGemmShape { block_rows: 48, ..GOOD }, "block_rows is 48; supported: 16, 32, 64 and 128"),
            (
                GroupedGemmShape { columns: 100, ..GOOD },
                "columns is 100; supported: positive multiples of 8 below 2^31",
            ),
            (GroupedGemmShape { depth: 0, ..GOOD }, "depth is 0; supported: positive multiples of 8 below 2^31"),
            (GroupedGemmShape { experts: 0, ..GOOD }, "experts is 0; supported: 1 to 2147483647"),
        ];
        for (shape, message) in bad {
            assert_eq!(shape.check().unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn rows_are_grouped_in_order_and_padded() {
        let pad = i32::MAX;
        let groups = RowGroups::new(&[2, 0, 2, -1, 2], 4, 2).unwrap();
        assert_eq!(groups.block_expert, [-1, 0, 2, 2]);
        assert_eq!(groups.sorted_rows, [3, pad, 1, pad, 0, 2, 4, pad]);
    }

    #[test]
    fn an_expert_that_does_not_exist_is_refused() {
        let error = RowGroups::new(&[0, 4], 4, 16).unwrap_err();
        assert_eq!(error.to_string(), "an expert is 4; this launch needs less than 4");
    }

    #[test]
    fn no_rows_are_no_blocks() {
        let groups = RowGroups::new(&[], 4, 16).unwrap();
        assert!(groups.sorted_rows.is_empty() && groups.block_expert.is_empty());
    }
}
