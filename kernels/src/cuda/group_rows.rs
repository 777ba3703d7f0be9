//! Rows sorted by expert on the device, as [`RowGroups`](super::RowGroups) sorts them on the host.

use cudarc::driver::{CudaView, CudaViewMut, PushKernelArg};

use super::device::CudaDevice;
use super::error::{CudaError, require, require_size, require_supported};
use super::kernel::{Grid, Kernel, KernelCode, KernelShape, start};
use super::nvrtc::KernelSource;
use super::route_experts::MAX_EXPERTS;

/// The sizes that the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupRowsShape {
    /// Experts that have weights here: 1 to 1024.
    pub experts: usize,
    /// Rows of a block of the grouped product: 16, 32, 64 or 128.
    pub block_rows: usize,
}

const THREADS: usize = 256;

impl GroupRowsShape {
    /// Says what is wrong with a shape that the kernel does not support.
    pub fn check(&self) -> Result<(), CudaError> {
        require_supported("experts", self.experts, (1..=MAX_EXPERTS).contains(&self.experts), "1 to 1024")?;
        require_supported(
            "block_rows",
            self.block_rows,
            matches!(self.block_rows, 16 | 32 | 64 | 128),
            "16, 32, 64 and 128",
        )
    }

    /// Blocks that `rows` rows can take, however they are spread over the experts. Grows with the rows.
    ///
    /// Every expert with rows wastes less than a block; rows of experts that are elsewhere count as one more expert.
    #[must_use]
    pub fn most_blocks(&self, rows: usize) -> usize {
        let groups = rows.min(self.experts + 1);
        (rows + groups * (self.block_rows - 1)) / self.block_rows
    }
}

impl KernelCode for GroupRowsShape {
    const SOURCE: KernelSource = KernelSource::embedded("group_rows.cu", include_str!("../../cu/group_rows.cu"));
    const FUNCTIONS: &'static [&'static str] = &["group_rows"];
}

impl KernelShape for GroupRowsShape {
    fn macros(&self) -> Result<Vec<(&'static str, usize)>, CudaError> {
        self.check()?;
        Ok(vec![("EXPERTS", self.experts), ("BLOCK_ROWS", self.block_rows)])
    }
}

/// The arguments of one launch, on the device.
#[derive(Debug)]
pub struct GroupRowsArgs<'a> {
    /// `[rows]`: the expert of each row. One that is not there, such as -1, gets its rows into blocks of expert -1.
    pub expert_of_row: CudaView<'a, i32>,
    /// `[blocks, block_rows]` for at least [`most_blocks`](GroupRowsShape::most_blocks): row numbers, `i32::MAX` as padding.
    /// Blocks that are not used are left as they are.
    pub sorted_rows: CudaViewMut<'a, i32>,
    /// `[blocks]`: the expert of each block.
    pub block_expert: CudaViewMut<'a, i32>,
    /// One number: entries of `sorted_rows` in use.
    pub used_rows: CudaViewMut<'a, i32>,
}

/// The kernel, compiled for a shape and loaded on a device.
pub type GroupRows = Kernel<GroupRowsShape>;

impl CudaDevice {
    /// Launches the sort of rows by expert.
    pub fn group_rows(&self, kernel: &GroupRows, args: GroupRowsArgs<'_>) -> Result<(), CudaError> {
        let shape = kernel.shape();
        let GroupRowsArgs { expert_of_row, mut sorted_rows, mut block_expert, mut used_rows } = args;
        let rows = expert_of_row.len();
        require("rows", rows, rows <= 1 << 30, || "at most 1073741824".to_owned())?;
        let (blocks, needed) = (block_expert.len(), shape.most_blocks(rows));
        require("length of block_expert", blocks, blocks >= needed, || format!("at least {needed}"))?;
        let sorted = blocks.checked_mul(shape.block_rows).filter(|sorted| i32::try_from(*sorted).is_ok());
        require("length of sorted_rows", sorted_rows.len(), sorted == Some(sorted_rows.len()), || {
            format!("{blocks} blocks of {}, below 2^31", shape.block_rows)
        })?;
        require_size("length of used_rows", used_rows.len(), 1)?;
        let row_count = rows as i32;
        let mut launch = self.launch_builder(kernel.function(0))?;
        launch.arg(&expert_of_row).arg(&row_count).arg(&mut sorted_rows).arg(&mut block_expert).arg(&mut used_rows);
        // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
        unsafe {
            start(&mut launch, Grid::new([shape.experts + 1, 1, 1], THREADS), "launching the sort of rows by expert")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::RowGroups;

    #[test]
    fn unsupported_shapes_say_what_is_supported() {
        let good = GroupRowsShape { experts: 128, block_rows: 64 };
        good.check().unwrap();
        let error = GroupRowsShape { experts: 2000, ..good }.check().unwrap_err();
        assert_eq!(error.to_string(), "experts is 2000; supported: 1 to 1024");
        let error = GroupRowsShape { block_rows: 24, ..good }.check().unwrap_err();
        assert_eq!(error.to_string(), "block_rows is 24; supported: 16, 32, 64 and 128");
    }

    /// The worst case: a full block and one row more for as many experts as possible.
    #[test]
    fn there_is_room_for_the_worst_spread_and_not_much_more() {
        for experts in [1, 3, 8] {
            let shape = GroupRowsShape { experts, block_rows: 16 };
            for rows in 0..200_usize {
                let mut spread: Vec<i32> = (0..rows.min(experts + 1)).map(|group| group as i32 - 1).collect();
                // What is left goes to the first, 16 at a time, so that no other block is filled.
                spread.resize(rows, -1);
                let blocks = RowGroups::new(&spread, experts, 16).unwrap().block_expert.len();
                let room = shape.most_blocks(rows);
                assert!((blocks..=blocks + 1).contains(&room), "{rows} rows, {experts} experts: {blocks} of {room}");
            }
        }
    }
}
