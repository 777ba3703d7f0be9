//! The splits of long contexts: how many there are, and the kernel that joins what they leave.

use cudarc::driver::{CudaView, CudaViewMut, PushKernelArg};

use super::decode_attention::DecodeWorkspace;
use super::device::CudaDevice;
use super::error::{CudaError, require, require_supported};
use super::kernel::{Grid, Kernel, KernelCode, KernelShape, push_optional, start};
use super::nvrtc::KernelSource;

/// The driver's limit on the second and third dimension of a grid.
const MAX_GRID_YZ: usize = 65_535;

/// The sizes that the kernel is compiled for; the launchers of attention have checked them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MergeSplitsShape {
    /// Elements of a head's result, up to 1024.
    pub head_dim: usize,
    /// Query heads of the model.
    pub query_heads: usize,
    /// Whether every query head has a sink, which counts once, here.
    pub sinks: bool,
}

impl KernelCode for MergeSplitsShape {
    const SOURCE: KernelSource =
        KernelSource::embedded("merge_decode_splits.cu", include_str!("../../cu/merge_decode_splits.cu"));
    const FUNCTIONS: &'static [&'static str] = &["merge_decode_splits"];
}

impl KernelShape for MergeSplitsShape {
    fn macros(&self) -> Result<Vec<(&'static str, usize)>, CudaError> {
        let sinks = usize::from(self.sinks);
        Ok(vec![("HEAD_DIM", self.head_dim), ("QUERY_HEADS", self.query_heads), ("SINKS", sinks)])
    }
}

/// The kernel, compiled for a shape and loaded on a device.
pub type MergeSplits = Kernel<MergeSplitsShape>;

/// How the contexts of a launch are split.
#[derive(Debug, Clone, Copy)]
pub(super) struct Splits {
    /// Tokens that a split covers.
    pub(super) tokens: usize,
    /// Splits of every context, of which those past its end are empty.
    pub(super) count: usize,
}

impl Splits {
    /// Says what is wrong with a length that no kernel supports.
    pub(super) fn check_tokens(tokens: usize) -> Result<(), CudaError> {
        require_supported("split_tokens", tokens, (1..=1 << 30).contains(&tokens), "1 to 1073741824")
    }

    /// Those of a launch whose longest context is `max_context`.
    pub(super) fn new(tokens: usize, max_context: usize) -> Self {
        Self { tokens, count: max_context.div_ceil(tokens).max(1) }
    }

    /// The parts that they leave of `rows` rows of query heads: none where a single split is all there is.
    pub(super) fn parts(self, rows: usize) -> usize {
        if self.count == 1 { 0 } else { rows * self.count }
    }

    /// Requires that contexts fit the block table, splits a grid, and what they leave the workspace.
    pub(super) fn check(
        self,
        (max_context, page_size, table_width): (usize, usize, usize),
        workspace: &DecodeWorkspace,
        (rows, head_dim): (usize, usize),
    ) -> Result<(), CudaError> {
        require("max_context", max_context, max_context.div_ceil(page_size) <= table_width, || {
            format!("at most {table_width} pages of {page_size}")
        })?;
        let fits = self.count <= MAX_GRID_YZ && i32::try_from(self.count * self.tokens).is_ok();
        require("splits", self.count, fits, || "at most 65535, covering less than 2^31 tokens".to_owned())?;
        let parts = self.parts(rows);
        let room = workspace.lse.len();
        require("rows of the workspace", room, room >= parts, || format!("at least {parts}"))?;
        let (values, needed) = (workspace.output.len(), parts * head_dim);
        require("values of the workspace", values, values >= needed, || format!("at least {needed}"))
    }
}

impl CudaDevice {
    /// Joins what the splits of `rows` rows of query heads have left in a workspace that has been checked.
    pub(super) fn merge_decode_splits(
        &self,
        kernel: &MergeSplits,
        workspace: &DecodeWorkspace,
        (rows, splits): (usize, usize),
        (output, lse): (&mut CudaViewMut<'_, u16>, &mut CudaViewMut<'_, f32>),
        sinks: Option<&CudaView<'_, f32>>,
    ) -> Result<(), CudaError> {
        let split_count = splits as i32;
        let mut launch = self.launch_builder(kernel.function(0))?;
        launch.arg(&workspace.output).arg(&workspace.lse).arg(output).arg(lse);
        push_optional(&mut launch, sinks);
        launch.arg(&split_count);
        let grid = Grid::new([rows, 1, 1], kernel.shape().head_dim);
        // SAFETY: the arguments are the kernel's, in order and type; the launch before has filled the workspace for all rows
        // and splits.
        unsafe { start(&mut launch, grid, "launching the merge of splits") }
    }
}
