//! The problems that products with one matrix, quantised or not, must solve, on whatever device.

use kernels::cuda::check::{Bias, GemmProblem, Noise, ProductSize, QuantisedGemmProblem, WeightFormat};
use kernels::cuda::{BlockFormat, CudaDevice, Gemm, GemmTile, GemmTiles, QuantisedGemm};

use crate::cases::assert_near;

/// Every kind of block that the table of blocks has, and one of each depth, with warps in a column.
pub const DENSE_TILES: [GemmTile; 5] = [
    GemmTile::NARROW,
    GemmTile::FEW,
    GemmTile::SOME,
    GemmTile::MANY,
    GemmTile { rows: 64, columns: 16, depth: 32, stages: 2, warps_down: 4, warps_across: 1 },
];

/// These, and all that a product may be given where it is measured.
pub fn measured_tiles() -> impl Iterator<Item = GemmTile> {
    let others = GemmTile::CANDIDATES.into_iter().filter(|tile| !DENSE_TILES.contains(tile));
    DENSE_TILES.into_iter().chain(others)
}

/// Every format of quantised weights.
pub const FORMATS: [BlockFormat; BlockFormat::ALL.len()] = BlockFormat::ALL;

/// Rows, columns and depth: less than a block, whole blocks and parts of blocks in each direction, an odd number of
/// columns, one step and more than there are stages, more rows of blocks than are worked on together, and no row.
const SIZES: [(usize, usize, usize); 10] = [
    (1, 8, 8),
    (1, 1, 64),
    (16, 64, 128),
    (15, 33, 104),
    (17, 31, 320),
    (65, 130, 72),
    (130, 129, 1032),
    (3, 200, 1000),
    (1100, 24, 8),
    (0, 8, 8),
];

fn check(device: &CudaDevice, kernel: &Gemm, size: ProductSize, (bias, format): (Bias, WeightFormat), seed: u64) {
    println!("{size:?}, bias {bias:?}, {format:?}, seed {seed}");
    let problem = GemmProblem::random(size, bias, seed);
    let found = problem.run(device, kernel, format).unwrap();
    assert_near(&problem.compare(&found, format));
    assert!(found.guards_intact, "wrote outside its result");
}

/// Products in blocks of one kind, with a bias and without, rounded and not.
///
/// # Panics
///
/// If a result is wrong or the device fails.
pub fn dense(device: &CudaDevice, tile: GemmTile) {
    println!("{tile:?}");
    let kernel = Gemm::compile(device, GemmTiles::only(tile)).unwrap();
    for (index, (rows, columns, depth)) in SIZES.into_iter().enumerate() {
        let bias = [Bias::None, Bias::Random][(index + tile.stages) % 2];
        let format = [WeightFormat::Bf16, WeightFormat::F32][(index / 2 + tile.depth / 64) % 2];
        check(device, &kernel, ProductSize { rows, columns, depth }, (bias, format), index as u64);
    }
}

/// A product of a size drawn at random, in the block that `kernel` chooses.
///
/// # Panics
///
/// If a result is wrong or the device fails.
pub fn random_dense(device: &CudaDevice, kernel: &Gemm, seed: u64) {
    let mut noise = Noise::new(seed);
    let most = [1, 16, 70, 200][noise.below(4)];
    let size =
        ProductSize { rows: noise.below(most + 1), columns: 1 + noise.below(300), depth: 8 * (1 + noise.below(100)) };
    let bias = [Bias::None, Bias::Random][noise.below(2)];
    let format = [WeightFormat::Bf16, WeightFormat::F32][noise.below(2)];
    check(device, kernel, size, (bias, format), seed);
}

/// Products with quantised weights in blocks of one kind: one block of weights and many, rows of codes that are less than
/// a step, columns that fill no eight of them, and no row.
///
/// # Panics
///
/// If a result is wrong or the device fails.
pub fn quantised(device: &CudaDevice, format: BlockFormat, tile: GemmTile) {
    println!("{format:?}, {tile:?}");
    let kernel = QuantisedGemm::compile(device, format, GemmTiles::only(tile)).unwrap();
    let sizes = [(1, 8, 32), (1, 1, 64), (16, 64, 128), (17, 33, 96), (70, 130, 416), (3, 200, 1024), (0, 8, 32)];
    for (index, (rows, columns, depth)) in sizes.into_iter().enumerate() {
        let bias = [Bias::None, Bias::Random][(index + tile.stages) % 2];
        let result = [WeightFormat::Bf16, WeightFormat::F32][(index / 2 + tile.depth / 64) % 2];
        let size = ProductSize { rows, columns, depth };
        println!("{size:?}, bias {bias:?}, {result:?}, seed {index}");
        let problem = QuantisedGemmProblem::random(format, size, bias, index as u64);
        let found = problem.run(device, &kernel, result).unwrap();
        assert_near(&problem.compare(&found, result));
        assert!(found.guards_intact, "wrote outside its result");
    }
}
