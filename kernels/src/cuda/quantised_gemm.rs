//! Matrix products with weights of 8 or 4 bits, as weight files have them.

use cudarc::driver::{CudaSlice, CudaView, PushKernelArg};

use super::device::CudaDevice;
use super::error::{CudaError, require, require_size, require_supported};
use super::floats::FloatsMut;
use super::gemm_tile::{GemmTile, GemmTiles, TileKernels};
use super::kernel::{Kernel, KernelCode, KernelShape, push_optional, start};
use super::kernel_file::KernelKey;
use super::nvrtc::{KernelSource, Program};
use super::staging::Staging;
use super::target::Target;

/// How the 32 numbers of a block are stored: bytes as in GGUF files, where `d` and `m` are half-precision numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockFormat {
    /// `d`, then 32 signed bytes `q`: `d * q`.
    Q8_0,
    /// `d`, then 16 bytes with two numbers `q` of four bits each: `d * (q - 8)`.
    Q4_0,
    /// `d` and `m`, then 16 bytes with two numbers `q` of four bits each: `d * q + m`.
    Q4_1,
}

crate::named! {
    /// As weight files call it.
    BlockFormat {
        Q8_0 => "Q8_0",
        Q4_0 => "Q4_0",
        Q4_1 => "Q4_1",
    }
}

/// Numbers of a block.
const BLOCK: usize = 32;

impl BlockFormat {
    fn code_bits(self) -> usize {
        match self {
            Self::Q8_0 => 8,
            Self::Q4_0 | Self::Q4_1 => 4,
        }
    }

    /// The code that stands for zero, as the kernel has them: without sign.
    fn offset(self) -> usize {
        match self {
            Self::Q8_0 => 128,
            Self::Q4_0 => 8,
            Self::Q4_1 => 0,
        }
    }

    /// Half-precision numbers of a block.
    fn parts(self) -> usize {
        if self == Self::Q4_1 { 2 } else { 1 }
    }

    /// Bytes of a block.
    #[must_use]
    pub fn block_bytes(self) -> usize {
        2 * self.parts() + BLOCK * self.code_bits() / 8
    }
}

/// A matrix of quantised weights on the device: what a file has, sorted for the kernel. It takes as many bytes.
#[derive(Debug)]
pub struct QuantisedMatrix {
    format: BlockFormat,
    columns: usize,
    depth: usize,
    codes: CudaSlice<u16>,
    /// `[parts, depth / 32, stride]`.
    scales: CudaSlice<u16>,
    stride: usize,
}

impl QuantisedMatrix {
    /// Sorts and uploads `[columns, depth]` weights: a row for each column of the output. `depth` is a multiple of 32, and `staging`
    /// has room for a row: half as many values of 16 bits.
    pub fn upload(
        device: &CudaDevice,
        staging: &mut Staging<u16>,
        format: BlockFormat,
        (columns, depth): (usize, usize),
        bytes: &[u8],
    ) -> Result<Self, CudaError> {
        require_supported("depth", depth, depth > 0 && depth.is_multiple_of(BLOCK), "positive multiples of 32")?;
        let blocks = depth / BLOCK;
        let needed = columns.checked_mul(blocks).and_then(|blocks| blocks.checked_mul(format.block_bytes()));
        require("bytes of weights", bytes.len(), needed == Some(bytes.len()), || {
            format!("{columns} rows of {blocks} blocks of {} bytes", format.block_bytes())
        })?;
        let stride = columns.next_multiple_of(8);
        let row = BLOCK * format.code_bits() / 16 * blocks;
        let codes = staging.upload(device, (columns * row, row), |start, codes| {
            let bytes = &bytes[start / row * blocks * format.block_bytes()..];
            sort_codes(format, bytes, codes);
        })?;
        let scales = staging.copy(device, &sort_scales(format, (blocks, stride), bytes))?;
        Ok(Self { format, columns, depth, codes, scales, stride })
    }

    /// Bytes that such weights take on a device.
    #[must_use]
    pub fn bytes(format: BlockFormat, (columns, depth): (usize, usize)) -> usize {
        let scales = format.parts() * columns.next_multiple_of(8) * size_of::<u16>();
        depth / BLOCK * (columns * BLOCK * format.code_bits() / 8 + scales)
    }

    /// How the weights are stored.
    #[must_use]
    pub fn format(&self) -> BlockFormat {
        self.format
    }

    /// Rows of weights, which are the columns of a product.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Elements of a row.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.depth
    }
}

/// The codes of blocks in the order in which the lanes of a warp want them, two bytes at a time.
fn sort_codes(format: BlockFormat, bytes: &[u8], codes: &mut [u16]) {
    // A byte without sign is a signed one and 128, whose bits differ in the highest.
    let flip = if format == BlockFormat::Q8_0 { 0x80 } else { 0 };
    let of_block = BLOCK * format.code_bits() / 16;
    for (block, codes) in bytes.chunks_exact(format.block_bytes()).zip(codes.chunks_exact_mut(of_block)) {
        let block_codes = &block[2 * format.parts()..];
        for (sixteen, codes) in block_codes.as_chunks::<16>().0.iter().zip(codes.chunks_exact_mut(8)) {
            for (lane, pair) in codes.chunks_exact_mut(2).enumerate() {
                for (code, first) in pair.iter_mut().zip([2 * lane, 2 * lane + 8]) {
                    *code = u16::from_le_bytes([sixteen[first] ^ flip, sixteen[first + 1] ^ flip]);
                }
            }
        }
    }
}

/// The scales of blocks, and their minima below them, by column.
fn sort_scales(format: BlockFormat, (blocks, stride): (usize, usize), bytes: &[u8]) -> Vec<u16> {
    let parts = format.parts();
    let mut scales = vec![0; parts * blocks * stride];
    for (number, block) in bytes.chunks_exact(format.block_bytes()).enumerate() {
        let (column, row) = (number / blocks, number % blocks);
        for (part, number) in block[..2 * parts].as_chunks().0.iter().enumerate() {
            scales[(part * blocks + row) * stride + column] = u16::from_le_bytes(*number);
        }
    }
    scales
}

/// The arguments of one launch, on the device.
#[derive(Debug)]
pub struct QuantisedGemmArgs<'a> {
    /// `[rows, depth]`, bf16.
    pub input: CudaView<'a, u16>,
    /// `[columns, depth]`.
    pub weights: &'a QuantisedMatrix,
    /// `[columns]`: added to every row before it is rounded.
    pub bias: Option<CudaView<'a, f32>>,
    /// Rows of the input and of the output, up to 2^30.
    pub rows: usize,
    /// `[rows, columns]`: sums in single precision, or rounded once.
    pub output: FloatsMut<'a>,
}

/// The kernel for one kind of block and one format of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuantisedGemmShape {
    /// The block.
    pub tile: GemmTile,
    /// The weights.
    pub format: BlockFormat,
}

impl KernelCode for QuantisedGemmShape {
    const SOURCE: KernelSource =
        KernelSource::embedded("quantised_gemm.cu", include_str!("../../cu/quantised_gemm.cu"));
    const FUNCTIONS: &'static [&'static str] = &["quantised_gemm"];
}

impl KernelShape for QuantisedGemmShape {
    fn macros(&self) -> Result<Vec<(&'static str, usize)>, CudaError> {
        let mut macros = self.tile.macros()?;
        macros.extend([
            ("CODE_BITS", self.format.code_bits()),
            ("OFFSET", self.format.offset()),
            ("MINIMA", self.format.parts() - 1),
        ]);
        Ok(macros)
    }

    /// The size of the kernel's stages: input, codes, and a scale or a scale and a minimum of each block.
    fn shared_bytes(&self) -> usize {
        let GemmTile { rows, columns, depth, stages, .. } = self.tile;
        let weights = depth * self.format.code_bits() / 8 + depth / BLOCK * self.format.parts() * size_of::<u16>();
        stages * (rows * depth * size_of::<u16>() + columns * weights)
    }
}

/// The kernel for one format of weights and the blocks of a table. It takes matrices of any size, and is compiled as
/// [`Gemm`](super::Gemm) is.
#[derive(Debug)]
pub struct QuantisedGemm {
    kernels: TileKernels<QuantisedGemmShape>,
    format: BlockFormat,
}

impl QuantisedGemm {
    /// The kernel's source.
    pub const SOURCE: KernelSource = QuantisedGemmShape::SOURCE;

    /// The kernel for the blocks of `tiles`; nothing is compiled yet.
    #[must_use]
    pub fn new(format: BlockFormat, tiles: GemmTiles) -> Self {
        Self::of_source(format, tiles, &Self::SOURCE)
    }

    /// Compiles the kernel for every kind of block in `tiles`.
    pub fn compile(device: &CudaDevice, format: BlockFormat, tiles: GemmTiles) -> Result<Self, CudaError> {
        Self::compile_source(device, format, tiles, &Self::SOURCE)
    }

    /// Compiles another text of the kernel, such as a deliberately broken one in a test of the checks.
    pub fn compile_source(
        device: &CudaDevice,
        format: BlockFormat,
        tiles: GemmTiles,
        source: &KernelSource,
    ) -> Result<Self, CudaError> {
        let kernel = Self::of_source(format, tiles, source);
        kernel.kernels.compile_all(device)?;
        Ok(kernel)
    }

    fn of_source(format: BlockFormat, tiles: GemmTiles, source: &KernelSource) -> Self {
        Self { kernels: TileKernels::new(tiles, source, |tile| QuantisedGemmShape { tile, format }), format }
    }

    /// As [`Gemm::code_key`](super::Gemm::code_key).
    pub fn code_key(format: BlockFormat, target: Target) -> Result<String, CudaError> {
        let program = Kernel::program(QuantisedGemmShape { tile: GemmTile::SOME, format }, Self::SOURCE)?;
        Ok(KernelKey::of(&program, target).text().to_owned())
    }

    /// The blocks of products.
    #[must_use]
    pub fn tiles(&self) -> &GemmTiles {
        self.kernels.tiles()
    }

    /// What products of these rows, columns and depths are compiled from.
    pub fn programs(&self, sizes: impl IntoIterator<Item = (usize, usize, usize)>) -> Result<Vec<Program>, CudaError> {
        self.kernels.programs(sizes)
    }

    /// What products of any size are compiled from.
    pub fn all_programs(&self) -> Result<Vec<Program>, CudaError> {
        self.kernels.all_programs()
    }

    /// Compiles the block that products of this size get, if it is not compiled yet.
    pub fn prepare(&self, device: &CudaDevice, rows: usize, columns: usize, depth: usize) -> Result<(), CudaError> {
        self.kernels.choose(device, (rows, columns, depth)).map(drop)
    }
}

impl CudaDevice {
    /// Launches a matrix product with quantised weights. Which kind of block computes it follows from the numbers of rows
    /// and columns; a row has the same bits in all of them.
    pub fn quantised_gemm(&self, kernel: &QuantisedGemm, args: QuantisedGemmArgs<'_>) -> Result<(), CudaError> {
        let QuantisedGemmArgs { input, weights, bias, rows, mut output } = args;
        let &QuantisedMatrix { format, columns, depth, stride, .. } = weights;
        self.check_product((rows, columns, depth), &input, bias.as_ref(), &output)?;
        // No two formats have blocks of the same size.
        require_size("bytes of a block of weights", format.block_bytes(), kernel.format.block_bytes())?;
        let (tile, kernel) = kernel.kernels.choose(self, (rows, columns, depth))?;
        let grid = tile.grid(rows, columns, kernel.shape().shared_bytes())?;
        if rows == 0 {
            return Ok(());
        }
        let sizes = [stride, usize::from(output.is_f32()), rows, columns, depth].map(|size| size as i32);
        let mut launch = self.launch_builder(kernel.function(0))?;
        launch.arg(&input).arg(&weights.codes).arg(&weights.scales).arg(&sizes[0]);
        push_optional(&mut launch, bias.as_ref());
        output.push(&mut launch);
        launch.arg(&sizes[1]).arg(&sizes[2]).arg(&sizes[3]).arg(&sizes[4]);
        // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
        unsafe { start(&mut launch, grid, "launching a product with quantised weights") }
    }
}
