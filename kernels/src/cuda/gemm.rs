//! Matrix products: rows of activations against rows of weights.

use cudarc::driver::{CudaView, PushKernelArg};

use super::device::CudaDevice;
use super::error::{CudaError, require, require_size, require_supported};
use super::floats::FloatsMut;
use super::gemm_tile::{GemmTile, GemmTiles, TileKernels};
use super::kernel::{Kernel, KernelCode, KernelShape, push_optional, start};
use super::kernel_file::KernelKey;
use super::nvrtc::{KernelSource, Program};
use super::target::Target;

/// The arguments of one launch, on the device.
#[derive(Debug)]
pub struct GemmArgs<'a> {
    /// `[rows, depth]`, bf16.
    pub input: CudaView<'a, u16>,
    /// `[columns, depth]`, bf16: a row of weights for each column of the output.
    pub weights: CudaView<'a, u16>,
    /// `[columns]`: added to every row before it is rounded.
    pub bias: Option<CudaView<'a, f32>>,
    /// Rows of the input and of the output, up to 2^30.
    pub rows: usize,
    /// Columns of the output: 1 to 2^27.
    pub columns: usize,
    /// Elements of a row of the input and of the weights: a multiple of 8, up to 2^27.
    pub depth: usize,
    /// `[rows, columns]`: sums in single precision, or rounded once.
    pub output: FloatsMut<'a>,
}

/// The kernel for one kind of block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GemmShape {
    /// The block.
    pub tile: GemmTile,
}

impl KernelCode for GemmShape {
    const SOURCE: KernelSource = KernelSource::embedded("gemm.cu", include_str!("../../cu/gemm.cu"));
    const FUNCTIONS: &'static [&'static str] = &["gemm"];
}

impl KernelShape for GemmShape {
    fn macros(&self) -> Result<Vec<(&'static str, usize)>, CudaError> {
        self.tile.macros()
    }

    fn shared_bytes(&self) -> usize {
        self.tile.shared_bytes()
    }
}

/// The kernel for the blocks of a table. It takes matrices of any size.
///
/// A block's kernel is compiled and loaded when it is first wanted, unless that has been asked for before. It belongs to the
/// device that it was first used with.
#[derive(Debug)]
pub struct Gemm(TileKernels<GemmShape>);

const MOST_ROWS: usize = 1 << 30;
const MOST_COLUMNS: usize = 1 << 27;

fn is_width(columns: usize) -> bool {
    (1..=MOST_COLUMNS).contains(&columns)
}

fn is_depth(depth: usize) -> bool {
    is_width(depth) && depth.is_multiple_of(8)
}

impl Gemm {
    /// The kernel's source.
    pub const SOURCE: KernelSource = GemmShape::SOURCE;

    /// Says what is wrong with a matrix of weights that the kernel does not support.
    pub fn check(columns: usize, depth: usize) -> Result<(), CudaError> {
        require_supported("columns", columns, is_width(columns), "1 to 134217728")?;
        require_supported("depth", depth, is_depth(depth), "positive multiples of 8 up to 134217728")
    }

    /// The kernel for the blocks of `tiles`; nothing is compiled yet.
    #[must_use]
    pub fn new(tiles: GemmTiles) -> Self {
        Self::of_source(tiles, &Self::SOURCE)
    }

    /// Compiles the kernel for every kind of block in `tiles`.
    pub fn compile(device: &CudaDevice, tiles: GemmTiles) -> Result<Self, CudaError> {
        Self::compile_source(device, tiles, &Self::SOURCE)
    }

    /// Compiles another text of the kernel, such as a deliberately broken one in a test of the checks.
    pub fn compile_source(device: &CudaDevice, tiles: GemmTiles, source: &KernelSource) -> Result<Self, CudaError> {
        let kernel = Self::of_source(tiles, source);
        kernel.compile_all(device)?;
        Ok(kernel)
    }

    fn of_source(tiles: GemmTiles, source: &KernelSource) -> Self {
        Self(TileKernels::new(tiles, source, |tile| GemmShape { tile }))
    }

    /// A number in hexadecimal digits that is another one where the source, its headers, the compiler's options or the target
    /// are others.
    pub fn code_key(target: Target) -> Result<String, CudaError> {
        let program = Kernel::program(GemmShape { tile: GemmTile::SOME }, Self::SOURCE)?;
        Ok(KernelKey::of(&program, target).text().to_owned())
    }

    /// The blocks of products.
    #[must_use]
    pub fn tiles(&self) -> &GemmTiles {
        self.0.tiles()
    }

    /// What products of these rows, columns and depths are compiled from.
    pub fn programs(&self, sizes: impl IntoIterator<Item = (usize, usize, usize)>) -> Result<Vec<Program>, CudaError> {
        self.0.programs(sizes)
    }

    /// What products of any size are compiled from.
    pub fn all_programs(&self) -> Result<Vec<Program>, CudaError> {
        self.0.all_programs()
    }

    /// Compiles what is not compiled yet, for every kind of block.
    pub fn compile_all(&self, device: &CudaDevice) -> Result<(), CudaError> {
        self.0.compile_all(device)
    }

    /// Compiles the block that products of this size get, if it is not compiled yet.
    pub fn prepare(&self, device: &CudaDevice, rows: usize, columns: usize, depth: usize) -> Result<(), CudaError> {
        self.0.choose(device, (rows, columns, depth)).map(drop)
    }
}

/// Requires that `[rows, depth]` elements are there, where a kernel can copy 16 bytes of a row at a time.
fn require_matrix(what: &'static str, length: usize, rows: usize, depth: usize) -> Result<(), CudaError> {
    require(what, length, rows.checked_mul(depth) == Some(length), || format!("{rows} x {depth}"))
}

impl CudaDevice {
    /// Launches a matrix product. Which kind of block computes it follows from the numbers of rows and columns; a row has
    /// the same bits in all of them.
    pub fn gemm(&self, kernel: &Gemm, args: GemmArgs<'_>) -> Result<(), CudaError> {
        let GemmArgs { input, weights, bias, rows, columns, depth, mut output } = args;
        self.check_product((rows, columns, depth), &input, bias.as_ref(), &output)?;
        require_matrix("length of weights", weights.len(), columns, depth)?;
        require_size("the weights' address modulo 16", self.misalignment(&weights), 0)?;
        let (tile, kernel) = kernel.0.choose(self, (rows, columns, depth))?;
        let grid = tile.grid(rows, columns, kernel.shape().shared_bytes())?;
        if rows == 0 {
            return Ok(());
        }
        let sizes = [usize::from(output.is_f32()), rows, columns, depth].map(|size| size as i32);
        let mut launch = self.launch_builder(kernel.function(0))?;
        launch.arg(&input).arg(&weights);
        push_optional(&mut launch, bias.as_ref());
        output.push(&mut launch);
        launch.arg(&sizes[0]).arg(&sizes[1]).arg(&sizes[2]).arg(&sizes[3]);
        // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
        unsafe { start(&mut launch, grid, "launching a matrix product") }
    }

    /// Requires what a product of any kind of weights needs of its other arguments.
    pub(super) fn check_product(
        &self,
        (rows, columns, depth): (usize, usize, usize),
        input: &CudaView<'_, u16>,
        bias: Option<&CudaView<'_, f32>>,
        output: &FloatsMut<'_>,
    ) -> Result<(), CudaError> {
        require("rows", rows, rows <= MOST_ROWS, || "at most 1073741824".to_owned())?;
        require("columns", columns, is_width(columns), || "1 to 134217728".to_owned())?;
        require("depth", depth, is_depth(depth), || "a positive multiple of 8 up to 134217728".to_owned())?;
        require_matrix("length of input", input.len(), rows, depth)?;
        require_matrix("length of output", output.len(), rows, columns)?;
        if let Some(bias) = bias {
            require_size("length of bias", bias.len(), columns)?;
        }
        require_size("the input's address modulo 16", self.misalignment(input), 0)?;
        require_size("the output's address modulo 16", output.misalignment(self), 0)
    }
}
