//! What a block of a matrix product computes, and in what steps.

use super::device::CudaDevice;
use super::error::{CudaError, require, require_supported};
use super::kernel::{Grid, Kernel, KernelShape, LazyKernel};
use super::nvrtc::{KernelSource, Program};

/// The sizes of a block of a matrix product. They decide how fast it is, and no bit of its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GemmTile {
    /// Rows of a block: a multiple of 16 for each of `warps_down` warps.
    pub rows: usize,
    /// Columns of a block: a multiple of 16 for each of `warps_across` warps.
    pub columns: usize,
    /// Elements of a row or column that a step multiplies: 32, 64 or 128.
    pub depth: usize,
    /// Steps that shared memory has room for, 2 to 8: all but one are copied ahead.
    pub stages: usize,
    /// Warps that share the rows of a block.
    pub warps_down: usize,
    /// Warps that share its columns.
    pub warps_across: usize,
}

/// Shared memory of a block at most: what every device from compute capability 8.0 on lets a block ask for, but for some
/// of 8.6 and 8.9, which have 99 KiB.
const MOST_SHARED: usize = 99 * 1024;

impl GemmTile {
    /// For up to 16 rows of few columns: blocks of one warp, so that there are enough of them.
    pub const NARROW: Self = Self { rows: 16, columns: 16, depth: 128, stages: 6, warps_down: 1, warps_across: 1 };
    /// For up to 16 rows. Steps are deep, since such a product waits for its weights.
    pub const FEW: Self = Self { rows: 16, columns: 32, depth: 128, stages: 4, warps_down: 1, warps_across: 2 };
    /// For some rows, or few blocks of many.
    pub const SOME: Self = Self { rows: 64, columns: 64, depth: 64, stages: 3, warps_down: 2, warps_across: 2 };
    /// For many rows.
    pub const MANY: Self = Self { rows: 128, columns: 128, depth: 32, stages: 4, warps_down: 2, warps_across: 4 };

    /// What is worth trying for a product of some size on some device: the four above, and others of like cost. All of them
    /// give the same bits, since each sum goes over a row in the same order.
    pub const CANDIDATES: [Self; 9] = [
        Self::NARROW,
        Self::FEW,
        Self { rows: 16, columns: 64, depth: 64, stages: 4, warps_down: 1, warps_across: 4 },
        Self { rows: 32, columns: 32, depth: 128, stages: 4, warps_down: 1, warps_across: 2 },
        Self { rows: 32, columns: 64, depth: 64, stages: 4, warps_down: 2, warps_across: 2 },
        Self::SOME,
        Self { rows: 64, columns: 128, depth: 32, stages: 4, warps_down: 2, warps_across: 4 },
        Self { rows: 128, columns: 64, depth: 32, stages: 4, warps_down: 4, warps_across: 2 },
        Self::MANY,
    ];

    /// Says what is wrong with sizes that the kernels do not support.
    pub fn check(&self) -> Result<(), CudaError> {
        let Self { rows, columns, depth, stages, warps_down, warps_across } = *self;
        for (what, warps) in [("warps_down", warps_down), ("warps_across", warps_across)] {
            require_supported(what, warps, matches!(warps, 1 | 2 | 4 | 8), "1, 2, 4 and 8")?;
        }
        require_supported("warps of a block", warps_down * warps_across, warps_down * warps_across <= 8, "1 to 8")?;
        let whole = |size: usize, warps: usize| (1..=256).contains(&size) && size.is_multiple_of(16 * warps);
        let tiles = "multiples of 16 for each warp, up to 256";
        require_supported("rows of a block", rows, whole(rows, warps_down), tiles)?;
        require_supported("columns of a block", columns, whole(columns, warps_across), tiles)?;
        let sums = rows * columns / self.threads();
        require_supported("sums of a thread", sums, sums <= 128, "up to 128")?;
        require_supported("depth of a step", depth, matches!(depth, 32 | 64 | 128), "32, 64 and 128")?;
        require_supported("stages", stages, (2..=8).contains(&stages), "2 to 8")?;
        let shared = self.shared_bytes();
        require_supported("bytes of shared memory", shared, shared <= MOST_SHARED, "up to 101376")
    }

    /// Threads of a block.
    fn threads(&self) -> usize {
        self.warps_down * self.warps_across * 32
    }

    /// Bytes of a block's stages, where weights are stored as bf16.
    pub(super) fn shared_bytes(&self) -> usize {
        (self.rows + self.columns) * self.depth * size_of::<u16>() * self.stages
    }

    /// The macros that the kernels expect.
    pub(super) fn macros(&self) -> Result<Vec<(&'static str, usize)>, CudaError> {
        self.check()?;
        Ok(vec![
            ("BLOCK_ROWS", self.rows),
            ("BLOCK_COLUMNS", self.columns),
            ("BLOCK_DEPTH", self.depth),
            ("STAGES", self.stages),
            ("WARPS_DOWN", self.warps_down),
            ("WARPS_ACROSS", self.warps_across),
        ])
    }

    /// The blocks of a product, whose stages take `shared_bytes`.
    pub(super) fn grid(&self, rows: usize, columns: usize, shared_bytes: usize) -> Result<Grid, CudaError> {
        let blocks = rows.div_ceil(self.rows) * columns.div_ceil(self.columns);
        require("blocks of the grid", blocks, i32::try_from(blocks).is_ok(), || "less than 2^31".to_owned())?;
        Ok(Grid { blocks: [blocks, 1, 1], threads: self.threads(), shared_bytes })
    }
}

/// Which block a product gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileRule {
    /// Up to this many rows.
    pub rows: usize,
    /// Up to this many columns.
    pub columns: usize,
    /// Up to this many elements of the result.
    pub elements: usize,
    /// The block.
    pub tile: GemmTile,
}

impl TileRule {
    fn holds(&self, rows: usize, columns: usize) -> bool {
        rows <= self.rows && columns <= self.columns && rows.saturating_mul(columns) <= self.elements
    }
}

/// The block of one product, as it was measured to be best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TunedTile {
    /// Columns of the output.
    pub columns: usize,
    /// Elements of a row of weights.
    pub depth: usize,
    /// Up to this many rows, and above those of the next smaller entry of the same columns and depth.
    pub rows: usize,
    /// The block.
    pub tile: GemmTile,
}

impl TunedTile {
    fn place(&self) -> (usize, usize, usize) {
        (self.columns, self.depth, self.rows)
    }
}

/// A table of blocks: a product gets the one that was measured for its size, or else that of the first rule that holds
/// for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GemmTiles {
    /// Ordered by columns, depth and rows.
    tuned: Vec<TunedTile>,
    rules: Vec<TileRule>,
    otherwise: GemmTile,
}

impl Default for GemmTiles {
    /// Large blocks only where there are so many of them that every part of a large GPU has one.
    fn default() -> Self {
        const ANY: usize = usize::MAX;
        let large = GemmTile::MANY.rows * GemmTile::MANY.columns;
        let rules = vec![
            TileRule { rows: 16, columns: 4096, elements: ANY, tile: GemmTile::NARROW },
            TileRule { rows: 16, columns: ANY, elements: ANY, tile: GemmTile::FEW },
            TileRule { rows: 64, columns: ANY, elements: ANY, tile: GemmTile::SOME },
            TileRule { rows: ANY, columns: ANY, elements: 128 * large, tile: GemmTile::SOME },
        ];
        Self { tuned: Vec::new(), rules, otherwise: GemmTile::MANY }
    }
}

impl GemmTiles {
    /// The block of `tile` for every product.
    #[must_use]
    pub fn only(tile: GemmTile) -> Self {
        Self { tuned: Vec::new(), rules: Vec::new(), otherwise: tile }
    }

    /// The default table but for products that have been measured.
    #[must_use]
    pub fn tuned(tuned: impl IntoIterator<Item = TunedTile>) -> Self {
        let mut tuned: Vec<_> = tuned.into_iter().collect();
        tuned.sort_by_key(TunedTile::place);
        Self { tuned, ..Self::default() }
    }

    /// The block for a product.
    #[must_use]
    pub fn choose(&self, rows: usize, columns: usize, depth: usize) -> GemmTile {
        let at = self.tuned.partition_point(|tuned| tuned.place() < (columns, depth, rows));
        match self.tuned.get(at) {
            Some(tuned) if (tuned.columns, tuned.depth) == (columns, depth) => tuned.tile,
            _ => self.rules.iter().find(|rule| rule.holds(rows, columns)).map_or(self.otherwise, |rule| rule.tile),
        }
    }

    /// Every block of the table, once.
    pub(super) fn kinds(&self) -> Vec<GemmTile> {
        let mut kinds = Vec::new();
        let tuned = self.tuned.iter().map(|tuned| tuned.tile);
        for tile in self.rules.iter().map(|rule| rule.tile).chain([self.otherwise]).chain(tuned) {
            if !kinds.contains(&tile) {
                kinds.push(tile);
            }
        }
        kinds
    }
}

/// A kernel for every block of a table, each of which is compiled when it is first wanted.
#[derive(Debug)]
pub(super) struct TileKernels<S> {
    tiles: GemmTiles,
    kernels: Vec<(GemmTile, LazyKernel<S>)>,
}

impl<S: KernelShape> TileKernels<S> {
    /// The kernels that `shape` makes of each block.
    pub(super) fn new(tiles: GemmTiles, source: &KernelSource, shape: impl Fn(GemmTile) -> S) -> Self {
        let kernel = |tile| (tile, LazyKernel::of_source(shape(tile), source.clone()));
        let kernels = tiles.kinds().into_iter().map(kernel).collect();
        Self { tiles, kernels }
    }

    /// The blocks.
    pub(super) fn tiles(&self) -> &GemmTiles {
        &self.tiles
    }

    /// What those of the blocks that products of these sizes get are compiled from, each once.
    pub(super) fn programs(
        &self,
        sizes: impl IntoIterator<Item = (usize, usize, usize)>,
    ) -> Result<Vec<Program>, CudaError> {
        let mut wanted = Vec::new();
        for (rows, columns, depth) in sizes {
            let tile = self.tiles.choose(rows, columns, depth);
            if !wanted.contains(&tile) {
                wanted.push(tile);
            }
        }
        let wanted = self.kernels.iter().filter(|(tile, _)| wanted.contains(tile));
        wanted.map(|(_, kernel)| kernel.program()).collect()
    }

    /// What those of all blocks are compiled from.
    pub(super) fn all_programs(&self) -> Result<Vec<Program>, CudaError> {
        self.kernels.iter().map(|(_, kernel)| kernel.program()).collect()
    }

    /// Compiles those of all blocks.
    pub(super) fn compile_all(&self, device: &CudaDevice) -> Result<(), CudaError> {
        self.kernels.iter().try_for_each(|(_, kernel)| kernel.get(device).map(drop))
    }

    /// The block of a product, and the kernel for it, which is compiled now if it has not been.
    pub(super) fn choose(
        &self,
        device: &CudaDevice,
        (rows, columns, depth): (usize, usize, usize),
    ) -> Result<(GemmTile, &Kernel<S>), CudaError> {
        let wanted = self.tiles.choose(rows, columns, depth);
        let (tile, kernel) =
            self.kernels.iter().find(|(tile, _)| *tile == wanted).expect("every block of the table is there");
        Ok((*tile, kernel.get(device)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_sizes_say_what_is_supported() {
        let good = GemmTile::SOME;
        for tile in GemmTile::CANDIDATES {
            tile.check().unwrap();
        }
        let tiles = "multiples of 16 for each warp, up to 256";
        let bad = [
            (GemmTile { rows: 48, ..good }, format!("rows of a block is 48; supported: {tiles}")),
            (GemmTile { columns: 512, ..good }, format!("columns of a block is 512; supported: {tiles}")),
            (GemmTile { columns: 0, ..good }, format!("columns of a block is 0; supported: {tiles}")),
            (GemmTile { depth: 48, ..good }, "depth of a step is 48; supported: 32, 64 and 128".to_owned()),
            (GemmTile { stages: 1, ..good }, "stages is 1; supported: 2 to 8".to_owned()),
            (GemmTile { warps_down: 3, ..good }, "warps_down is 3; supported: 1, 2, 4 and 8".to_owned()),
            (GemmTile { warps_down: 8, ..good }, "warps of a block is 16; supported: 1 to 8".to_owned()),
            (GemmTile { rows: 128, columns: 256, ..good }, "sums of a thread is 256; supported: up to 128".to_owned()),
            (
                GemmTile { depth: 128, stages: 4, ..good },
                "bytes of shared memory is 131072; supported: up to 101376".to_owned(),
            ),
        ];
        for (tile, message) in bad {
            assert_eq!(tile.check().unwrap_err().to_string(), message);
        }
    }
    #[test]
    fn the_first_rule_that_holds_decides() {
        let tiles = GemmTiles::default();
        for ((rows, columns), tile) in [
            ((1, 8), GemmTile::NARROW),
            ((16, 4096), GemmTile::NARROW),
            ((16, 4097), GemmTile::FEW),
            ((17, 8), GemmTile::SOME),
            ((64, 200_000), GemmTile::SOME),
            ((65, 4096), GemmTile::SOME),
            ((512, 4096), GemmTile::SOME),
            ((513, 4096), GemmTile::MANY),
            ((usize::MAX, usize::MAX), GemmTile::MANY),
        ] {
            assert_eq!(tiles.choose(rows, columns, 64), tile, "{rows} x {columns}");
        }
        assert_eq!(tiles.kinds(), [GemmTile::NARROW, GemmTile::FEW, GemmTile::SOME, GemmTile::MANY]);
        assert_eq!(GemmTiles::only(GemmTile::FEW).choose(1000, 1000, 8), GemmTile::FEW);
    }

    #[test]
    fn what_was_measured_holds_for_its_product_up_to_its_rows() {
        let [.., third, fourth, _, _, _, _, _] = GemmTile::CANDIDATES;
        let tuned = |columns, depth, rows, tile| TunedTile { columns, depth, rows, tile };
        let tiles = GemmTiles::tuned([
            tuned(96, 64, 32, fourth),
            tuned(96, 64, 1, third),
            tuned(96, 128, 8, GemmTile::MANY),
            tuned(104, 8, 8, GemmTile::MANY),
        ]);
        let default = GemmTiles::default();
        for ((rows, columns, depth), tile) in [
            ((0, 96, 64), third),
            ((1, 96, 64), third),
            ((2, 96, 64), fourth),
            ((32, 96, 64), fourth),
            ((33, 96, 64), default.choose(33, 96, 64)),
            ((8, 96, 128), GemmTile::MANY),
            ((9, 96, 128), default.choose(9, 96, 128)),
            ((1, 96, 72), default.choose(1, 96, 72)),
            ((1, 95, 64), default.choose(1, 95, 64)),
            ((1, 105, 64), default.choose(1, 105, 64)),
        ] {
            assert_eq!(tiles.choose(rows, columns, depth), tile, "{rows} x {columns} x {depth}");
        }
        for tile in default.kinds().into_iter().chain([third, fourth]) {
            assert!(tiles.kinds().contains(&tile), "{tile:?}");
        }
    }
}
