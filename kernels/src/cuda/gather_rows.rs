//! Rows of a table, by number: embeddings, and the rows whose logits are wanted.

use cudarc::driver::{CudaFunction, CudaView, LaunchConfig, PushKernelArg};

use super::device::CudaDevice;
use super::error::{CudaError, During, require};
use super::nvrtc::{KernelSource, Program};
use super::rows::{Rows, RowsMut, require_rows, require_width, row_names, vector};

/// The sizes that the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatherRowsShape {
    /// Elements of a row: 1 to 1048576. A multiple of 8 is read and written 16 bytes at a time.
    pub width: usize,
}

const THREADS: usize = 128;

impl GatherRowsShape {
    /// Says what is wrong with a shape that the kernel does not support.
    pub fn check(&self) -> Result<(), CudaError> {
        require_width("width", self.width)
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
#[derive(Debug)]
pub struct GatherRows {
    shape: GatherRowsShape,
    function: CudaFunction,
    /// The compiler's messages.
    pub log: String,
}

impl GatherRows {
    /// The kernel's source.
    pub const SOURCE: KernelSource = KernelSource::embedded("gather_rows.cu", include_str!("../../cu/gather_rows.cu"));

    /// Compiles the kernel for a shape.
    pub fn compile(device: &CudaDevice, shape: GatherRowsShape) -> Result<Self, CudaError> {
        Self::compile_source(device, shape, Self::SOURCE)
    }

    /// Compiles another text of the kernel, such as a deliberately broken one in a test of the checks.
    pub fn compile_source(
        device: &CudaDevice,
        shape: GatherRowsShape,
        source: KernelSource,
    ) -> Result<Self, CudaError> {
        let module = device.load(&Self::program(shape, source)?)?;
        Ok(Self { shape, function: module.function("gather_rows")?, log: module.log })
    }

    /// A source of this kernel with the sizes of a shape.
    pub fn program(shape: GatherRowsShape, source: KernelSource) -> Result<Program, CudaError> {
        shape.check()?;
        Ok(Program { source, defines: vec![("WIDTH", shape.width), ("VECTOR", vector(shape.width))] })
    }

    /// The shape it was compiled for.
    #[must_use]
    pub fn shape(&self) -> &GatherRowsShape {
        &self.shape
    }
}

impl CudaDevice {
    /// Launches a gather.
    pub fn gather_rows(&self, kernel: &GatherRows, args: GatherRowsArgs<'_>) -> Result<(), CudaError> {
        let width = kernel.shape.width;
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
        let mut launch = self.launch_builder(&kernel.function);
        launch.arg(&table.values).arg(&strides[0]).arg(&table_rows);
        match &numbers {
            RowNumbers::U32(numbers) => launch.arg(numbers),
            RowNumbers::I32(numbers) => launch.arg(numbers),
        };
        launch.arg(&mut output.values).arg(&strides[1]);
        let pieces = width / vector(width);
        // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
        unsafe {
            launch.launch(LaunchConfig {
                grid_dim: (rows as u32, pieces.div_ceil(THREADS) as u32, 1),
                block_dim: (THREADS as u32, 1, 1),
                shared_mem_bytes: 0,
            })
        }
        .during("launching a gather of rows")?;
        Ok(())
    }
}
