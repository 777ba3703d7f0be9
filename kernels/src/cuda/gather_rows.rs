//! Rows of a table, by number: embeddings, and the rows whose logits are wanted.

use cudarc::driver::{CudaView, PushKernelArg};

use super::device::CudaDevice;
use super::error::{CudaError, require};
use super::kernel::{Grid, Kernel, KernelCode, KernelShape, start};
use super::nvrtc::KernelSource;
use super::rows::{Rows, RowsMut, require_rows, require_width, row_macros, row_names};

/// The sizes that the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatherRowsShape {
    /// Elements of a row: 1 to 1048576. A multiple of 8 is read and written 16 bytes at a time.
    pub width: usize,
}

impl GatherRowsShape {
    /// Says what is wrong with a shape that the kernel does not support.
    pub fn check(&self) -> Result<(), CudaError> {
        require_width("width", self.width)
    }
}

impl KernelCode for GatherRowsShape {
    const SOURCE: KernelSource = KernelSource::embedded("gather_rows.cu", include_str!("../../cu/gather_rows.cu"));
    const FUNCTIONS: &'static [&'static str] = &["gather_rows"];
}

impl KernelShape for GatherRowsShape {
    fn macros(&self) -> Result<Vec<(&'static str, usize)>, CudaError> {
        self.check()?;
        Ok(row_macros(self.width))
    }
}

/// Row numbers on the device, as token ids or as places in a batch.
#[derive(Debug)]
pub enum RowNumbers<'a> {
    /// Unsigned.
    U32(CudaView<'a, u32>),
    /// Signed; a negative number is no row.
    I32(CudaView<'a, i32>),
}

/// The arguments of one launch, on the device.
#[derive(Debug)]
pub struct GatherRowsArgs<'a> {
    /// `[table_rows, width]`.
    pub table: Rows<'a>,
    /// Rows that the table has.
    pub table_rows: usize,
    /// The row of the table for each row of the output. One that the table does not have gives zeros.
    pub rows: RowNumbers<'a>,
    /// `[rows, width]`.
    pub output: RowsMut<'a>,
}

/// The kernel, compiled for a shape and loaded on a device.
pub type GatherRows = Kernel<GatherRowsShape>;

impl CudaDevice {
    /// Launches a gather.
    pub fn gather_rows(&self, kernel: &GatherRows, args: GatherRowsArgs<'_>) -> Result<(), CudaError> {
        let width = kernel.shape().width;
        let GatherRowsArgs { table, table_rows, rows: numbers, mut output } = args;
        let rows = match &numbers {
            RowNumbers::U32(numbers) => numbers.len(),
            RowNumbers::I32(numbers) => numbers.len(),
        };
        require_rows(rows)?;
        require("table_rows", table_rows, i32::try_from(table_rows).is_ok(), || "less than 2^31".to_owned())?;
        self.check_rows(&row_names!("table"), &table.values, table.stride, (table_rows, width), 1)?;
        self.check_rows(&row_names!("output"), &output.values, output.stride, (rows, width), 1)?;
        if rows == 0 {
            return Ok(());
        }
        let strides = [table.stride as i64, output.stride as i64];
        let table_rows = table_rows as u32;
        let mut launch = self.launch_builder(kernel.function(0))?;
        launch.arg(&table.values).arg(&strides[0]).arg(&table_rows);
        match &numbers {
            RowNumbers::U32(numbers) => launch.arg(numbers),
            RowNumbers::I32(numbers) => launch.arg(numbers),
        };
        launch.arg(&mut output.values).arg(&strides[1]);
        // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
        unsafe { start(&mut launch, Grid::of_pieces(rows, width), "launching a gather of rows") }
    }
}
