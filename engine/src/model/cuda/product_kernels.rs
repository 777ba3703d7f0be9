//! The product of rows with a matrix, in whatever elements that is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kernels::cuda::{
    BlockFormat, CudaDevice, CudaError, CudaSlice, CudaView, FloatsMut, Gemm, GemmArgs, GemmTiles, Program,
    QuantisedGemm, QuantisedGemmArgs, QuantisedMatrix, Target,
};

use super::kernels::MatrixSize;

/// What the elements of a matrix on a device are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MatrixFormat {
    /// Numbers in bf16.
    Bf16,
    /// Blocks, as weight files have them.
    Blocks(BlockFormat),
}

kernels::named! {
    /// As weight files call it.
    MatrixFormat {
        Bf16 => "BF16",
        Blocks(BlockFormat::Q8_0) => "Q8_0",
        Blocks(BlockFormat::Q4_0) => "Q4_0",
        Blocks(BlockFormat::Q4_1) => "Q4_1",
    }
}

impl MatrixFormat {
    /// The format that is called so.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

impl fmt::Display for MatrixFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A matrix on a device.
#[derive(Clone, Copy)]
pub(super) enum MatrixRef<'a> {
    Bf16(&'a CudaSlice<u16>),
    Quantised(&'a QuantisedMatrix),
}

impl MatrixRef<'_> {
    pub(super) fn format(self) -> MatrixFormat {
        match self {
            Self::Bf16(_) => MatrixFormat::Bf16,
            Self::Quantised(matrix) => MatrixFormat::Blocks(matrix.format()),
        }
    }
}

/// The kernels of products, for the formats of a model's matrices. Each is compiled when a size first needs it.
pub(super) struct ProductKernels {
    bf16: Gemm,
    quantised: BTreeMap<BlockFormat, QuantisedGemm>,
}

impl ProductKernels {
    /// For matrices in bf16 and in blocks of `formats`, in the blocks that `tiles` has for each.
    pub(super) fn new(formats: &BTreeSet<BlockFormat>, tiles: impl Fn(MatrixFormat) -> GemmTiles) -> Self {
        let quantised = |&format| (format, QuantisedGemm::new(format, tiles(MatrixFormat::Blocks(format))));
        Self { bf16: Gemm::new(tiles(MatrixFormat::Bf16)), quantised: formats.iter().map(quantised).collect() }
    }

    /// The blocks of elements that there are kernels for.
    pub(super) fn formats(&self) -> BTreeSet<BlockFormat> {
        self.quantised.keys().copied().collect()
    }

    /// The blocks that products with matrices of a format are computed in, if there are kernels for it.
    pub(super) fn tiles(&self, format: MatrixFormat) -> Option<&GemmTiles> {
        match format {
            MatrixFormat::Bf16 => Some(self.bf16.tiles()),
            MatrixFormat::Blocks(format) => self.quantised.get(&format).map(QuantisedGemm::tiles),
        }
    }

    /// What products of these rows, columns and depths are compiled from.
    pub(super) fn programs(
        &self,
        format: MatrixFormat,
        sizes: impl IntoIterator<Item = (usize, usize, usize)>,
    ) -> Result<Vec<Program>, CudaError> {
        match format {
            MatrixFormat::Bf16 => self.bf16.programs(sizes),
            MatrixFormat::Blocks(format) => self.quantised[&format].programs(sizes),
        }
    }

    /// What all of them are compiled from.
    pub(super) fn all_programs(&self) -> Result<Vec<Program>, CudaError> {
        let mut programs = self.bf16.all_programs()?;
        for kernel in self.quantised.values() {
            programs.extend(kernel.all_programs()?);
        }
        Ok(programs)
    }

    /// Loads what a product of this size needs, if that is not loaded yet.
    pub(super) fn prepare(
        &self,
        device: &CudaDevice,
        format: MatrixFormat,
        (rows, columns, depth): (usize, usize, usize),
    ) -> Result<(), CudaError> {
        match format {
            MatrixFormat::Bf16 => self.bf16.prepare(device, rows, columns, depth),
            MatrixFormat::Blocks(format) => self.quantised[&format].prepare(device, rows, columns, depth),
        }
    }

    /// A number of the code of all of them.
    pub(super) fn code(&self, target: Target) -> Result<String, CudaError> {
        let quantised = self.quantised.keys().map(|&format| QuantisedGemm::code_key(format, target));
        let keys: Vec<_> = std::iter::once(Gemm::code_key(target)).chain(quantised).collect::<Result<_, _>>()?;
        Ok(keys.join(" "))
    }

    /// Launches the products of `rows` rows with a matrix, with the bias where there is one. What a matrix is kept in changes no bit
    /// of it.
    pub(super) fn launch(
        &self,
        device: &CudaDevice,
        rows: usize,
        (weights, (columns, depth)): (MatrixRef<'_>, MatrixSize),
        bias: Option<CudaView<'_, f32>>,
        input: &CudaSlice<u16>,
        output: FloatsMut<'_>,
    ) -> Result<(), CudaError> {
        let input = input.slice(..rows * depth);
        match weights {
            MatrixRef::Bf16(weights) => {
                let weights = weights.as_view();
                device.gemm(&self.bf16, GemmArgs { input, weights, bias, rows, columns, depth, output })
            }
            MatrixRef::Quantised(weights) => {
                let kernel = &self.quantised[&weights.format()];
                device.quantised_gemm(kernel, QuantisedGemmArgs { input, weights, bias, rows, output })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_found_by_their_names() {
        for format in MatrixFormat::ALL {
            assert_eq!(MatrixFormat::named(&format.to_string()), Some(format));
        }
        assert_eq!(MatrixFormat::named("Q5_0"), None);
    }
}
