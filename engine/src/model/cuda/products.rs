//! The products of a model on a device: their sizes, their blocks, and how long they take.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kernels::cuda::{CudaError, CudaSlice, DeviceFacts, FloatsMut, Gemm, GemmArgs, GemmTile, GemmTiles, to_bf16};

use super::decoder::CudaDecoder;
use super::kernels::MatrixSize;
use super::weights::{DeviceFeedForward, DeviceMatrix, DeviceWeights};
use super::{ELEMENT, LOGIT_ROWS, room};
use crate::error::Result;
use crate::model::config::ModelConfig;
use crate::tuning::{Size, Stopwatch, TileTable};

/// Products with matrices of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// Columns of the output.
    pub columns: usize,
    /// Elements of a row.
    pub depth: usize,
    /// Rows at most, however many tokens a step has.
    pub most_rows: usize,
}

/// The matrices of one size.
struct Matrices<'a> {
    weights: Vec<&'a CudaSlice<u16>>,
    most_rows: usize,
    /// Whether the result is not rounded.
    is_f32: bool,
}

/// All matrices in bf16 that every token is multiplied with, by their size.
fn matrices<'a>(weights: &'a DeviceWeights, config: &ModelConfig) -> BTreeMap<MatrixSize, Matrices<'a>> {
    let mut all: BTreeMap<MatrixSize, Matrices<'a>> = BTreeMap::new();
    let mut add = |size, weight, most_rows: usize, is_f32| {
        let of_size = all.entry(size).or_insert_with(|| Matrices { weights: Vec::new(), most_rows: 0, is_f32 });
        of_size.weights.push(weight);
        of_size.most_rows = of_size.most_rows.max(most_rows);
    };
    for layer in &weights.layers {
        let dense = match &layer.feed_forward {
            DeviceFeedForward::Dense(dense) => Some([&dense.gate_up, &dense.down]),
            DeviceFeedForward::Sparse(_) => None,
        };
        let attention = [&layer.query_key_value, &layer.attention_output];
        for linear in attention.into_iter().chain(dense.into_iter().flatten()) {
            if let DeviceMatrix::Bf16(weight) = &linear.weight {
                add(linear.size, weight, usize::MAX, false);
            }
        }
        if let DeviceFeedForward::Sparse(experts) = &layer.feed_forward {
            let count = config.experts.as_ref().map_or(0, |experts| experts.count);
            add((count, config.hidden_size), &experts.router, usize::MAX, true);
        }
    }
    let size = (config.vocab_size, config.hidden_size);
    match &weights.head {
        None => add(size, &weights.embedding, LOGIT_ROWS, true),
        Some(DeviceMatrix::Bf16(head)) => add(size, head, LOGIT_ROWS, true),
        Some(DeviceMatrix::Quantised(_)) => {}
    }
    all
}

/// Elements of input, rounded output and output in single precision that measuring products of up to `rows` rows needs.
fn elements(matrices: &BTreeMap<MatrixSize, Matrices<'_>>, rows: usize) -> [usize; 3] {
    let most = |elements: &dyn Fn(&MatrixSize, &Matrices<'_>) -> usize| {
        matrices.iter().map(|(size, of_size)| rows.min(of_size.most_rows) * elements(size, of_size)).max().unwrap_or(0)
    };
    [
        most(&|size, _| size.1),
        most(&|size, of_size| if of_size.is_f32 { 0 } else { size.0 }),
        most(&|size, of_size| if of_size.is_f32 { size.0 } else { 0 }),
    ]
}

impl CudaDecoder {
    /// The sizes of the products with matrices in bf16 that every token goes through.
    #[must_use]
    pub fn products(&self) -> Vec<Product> {
        let product = |((columns, depth), of_size): (MatrixSize, Matrices<'_>)| Product {
            columns,
            depth,
            most_rows: of_size.most_rows,
        };
        matrices(&self.weights, &self.config).into_iter().map(product).collect()
    }

    /// Compiles what products need that have as many rows as `rows` lists for their most.
    pub fn compile_products(&self, rows: impl Fn(usize) -> Vec<usize>) -> Result<()> {
        let sizes = |Product { columns, depth, most_rows }: Product| {
            rows(most_rows).into_iter().map(move |rows| (rows, columns, depth))
        };
        let sizes: Vec<_> = self.products().into_iter().flat_map(sizes).collect();
        let product = &self.kernels.product;
        self.device.compile_ahead(&product.programs(sizes.iter().copied())?, self.compilers)?;
        let prepare = |(rows, columns, depth)| product.prepare(&self.device, rows, columns, depth);
        sizes.into_iter().try_for_each(prepare).map_err(|error| room::explain_kernels(&self.device, error))
    }

    /// Has products computed in the blocks of a table, and in built-in ones where it has none. No bit of a result changes.
    ///
    /// States that were made before are not for this model any more: steps that they have captured have kernels that are gone.
    pub fn use_table(&mut self, table: &TileTable) {
        self.kernels.product = Gemm::new(GemmTiles::tuned(table.tiles()));
        self.tiles_id = table.id();
        self.identity = Arc::default();
    }

    /// The blocks of products.
    #[must_use]
    pub fn tiles(&self) -> &GemmTiles {
        self.kernels.product.tiles()
    }

    pub(crate) fn device_facts(&self) -> Result<DeviceFacts> {
        Ok(self.device.facts()?)
    }

    pub(crate) fn free_memory(&self) -> std::result::Result<u64, CudaError> {
        self.device.free_memory()
    }

    /// The number of the code of products.
    pub(crate) fn product_code(&self) -> Result<String> {
        Ok(Gemm::code_key(self.device.target())?)
    }

    /// Bytes that [`stopwatch`](Self::stopwatch) takes.
    pub(crate) fn measuring_bytes(&self, rows: usize) -> usize {
        let [input, rounded, exact] = elements(&matrices(&self.weights, &self.config), rows);
        (input + rounded) * ELEMENT + exact * size_of::<f32>()
    }

    /// What measures products of up to so many rows with the model's own weights.
    pub(crate) fn stopwatch(&self, rows: usize) -> std::result::Result<ProductStopwatch<'_>, CudaError> {
        let matrices = matrices(&self.weights, &self.config);
        let [input, rounded, exact] = elements(&matrices, rows);
        // Numbers of either sign and many exponents: multiplying zeros takes less power, and a GPU runs faster with it.
        let number = |index: usize| to_bf16((index.wrapping_mul(2_654_435_761) % 2003) as f32 / 1001.0 - 1.0);
        Ok(ProductStopwatch {
            input: self.device.upload(&(0..input).map(number).collect::<Vec<_>>())?,
            rounded: self.device.zeros(rounded)?,
            exact: self.device.zeros(exact)?,
            model: self,
            matrices,
            kernels: Vec::new(),
            start: Instant::now(),
        })
    }
}

/// Measures the products of a model on its device.
pub(crate) struct ProductStopwatch<'a> {
    model: &'a CudaDecoder,
    matrices: BTreeMap<MatrixSize, Matrices<'a>>,
    input: CudaSlice<u16>,
    rounded: CudaSlice<u16>,
    exact: CudaSlice<f32>,
    /// Those that there are none for are nothing.
    kernels: Vec<(GemmTile, Option<Gemm>)>,
    start: Instant,
}

impl ProductStopwatch<'_> {
    /// The place of the kernel for a kind of block, which is compiled when it is first asked for.
    fn kernel(&mut self, tile: GemmTile) -> std::result::Result<usize, CudaError> {
        if let Some(place) = self.kernels.iter().position(|(of, _)| *of == tile) {
            return Ok(place);
        }
        let kernel = match Gemm::compile(&self.model.device, GemmTiles::only(tile)) {
            Ok(kernel) => Some(kernel),
            Err(CudaError::NotPrebuilt { .. }) => None,
            Err(other) => return Err(other),
        };
        self.kernels.push((tile, kernel));
        Ok(self.kernels.len() - 1)
    }
}

impl Stopwatch for ProductStopwatch<'_> {
    type Error = CudaError;

    /// The mean of some launches, each with another layer's weights, since a step finds none of them in a cache either.
    fn measure(&mut self, size: Size, tile: GemmTile) -> std::result::Result<Option<Duration>, CudaError> {
        const LAUNCHES: std::ops::RangeInclusive<usize> = 4..=8;
        let place = self.kernel(tile)?;
        let Some(kernel) = &self.kernels[place].1 else { return Ok(None) };
        let Size { columns, depth, rows } = size;
        let Matrices { weights, is_f32, .. } = &self.matrices[&(columns, depth)];
        let launches = weights.len().clamp(*LAUNCHES.start(), *LAUNCHES.end());
        let (input, device) = (&self.input, &self.model.device);
        let (rounded, exact) = (&mut self.rounded, &mut self.exact);
        let taken = device.time(|| {
            weights.iter().cycle().take(launches).try_for_each(|weights| {
                let output = if *is_f32 {
                    FloatsMut::F32(exact.slice_mut(..rows * columns))
                } else {
                    FloatsMut::Bf16(rounded.slice_mut(..rows * columns))
                };
                let args = GemmArgs {
                    input: input.slice(..rows * depth),
                    weights: weights.as_view(),
                    bias: None,
                    rows,
                    columns,
                    depth,
                    output,
                };
                device.gemm(kernel, args)
            })
        })?;
        Ok(Some(taken / launches as u32))
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}
