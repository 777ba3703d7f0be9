//! The products of a model on a device: their sizes, their blocks, and how long they take.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kernels::cuda::{
    CompiledAhead, CudaError, CudaGraph, CudaSlice, DeviceFacts, FloatsMut, GemmTile, GemmTiles, Program, to_bf16,
};

use super::decoder::CudaDecoder;
use super::kernels::MatrixSize;
use super::product_kernels::{MatrixFormat, MatrixRef, ProductKernels};
use super::weights::{DeviceFeedForward, DeviceWeights};
use super::{ELEMENT, LOGIT_ROWS, room};
use crate::error::Result;
use crate::model::config::ModelConfig;
use crate::tuning::{Size, Stopwatch, TileTable, candidates};

/// Products with matrices of one size and format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// What the matrices are kept in.
    pub format: MatrixFormat,
    /// Columns of the output.
    pub columns: usize,
    /// Elements of a row.
    pub depth: usize,
    /// Rows at most, however many tokens a step has.
    pub most_rows: usize,
}

/// The matrices of one size and format.
struct Matrices<'a> {
    weights: Vec<MatrixRef<'a>>,
    most_rows: usize,
    /// Whether the result is not rounded.
    is_f32: bool,
}

type AllMatrices<'a> = BTreeMap<(MatrixFormat, MatrixSize), Matrices<'a>>;

/// All matrices that every token is multiplied with.
fn matrices<'a>(weights: &'a DeviceWeights, config: &ModelConfig) -> AllMatrices<'a> {
    let mut all = AllMatrices::new();
    let mut add = |size, weight: MatrixRef<'a>, most_rows: usize, is_f32| {
        let empty = || Matrices { weights: Vec::new(), most_rows: 0, is_f32 };
        let of_size = all.entry((weight.format(), size)).or_insert_with(empty);
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
            add(linear.size, linear.weight.as_ref(), usize::MAX, false);
        }
        if let DeviceFeedForward::Sparse(experts) = &layer.feed_forward {
            let count = config.experts.as_ref().map_or(0, |experts| experts.count);
            add((count, config.hidden_size), MatrixRef::Bf16(&experts.router), usize::MAX, true);
        }
    }
    add((config.vocab_size, config.hidden_size), weights.head(), LOGIT_ROWS, true);
    all
}

/// Elements of input, rounded output and output in single precision that measuring products of up to `rows` rows needs.
fn elements(matrices: &AllMatrices<'_>, rows: usize) -> [usize; 3] {
    let most = |elements: &dyn Fn(&MatrixSize, &Matrices<'_>) -> usize| {
        let all = matrices.iter();
        all.map(|((_, size), of_size)| rows.min(of_size.most_rows) * elements(size, of_size)).max().unwrap_or(0)
    };
    [
        most(&|size, _| size.1),
        most(&|size, of_size| if of_size.is_f32 { 0 } else { size.0 }),
        most(&|size, of_size| if of_size.is_f32 { size.0 } else { 0 }),
    ]
}

impl CudaDecoder {
    /// The sizes of the products that every token goes through. Those with experts are not among them.
    #[must_use]
    pub fn products(&self) -> Vec<Product> {
        let product = |((format, (columns, depth)), of_size): (_, Matrices<'_>)| Product {
            format,
            columns,
            depth,
            most_rows: of_size.most_rows,
        };
        matrices(&self.weights, &self.config).into_iter().map(product).collect()
    }

    /// Loads what products need that have as many rows as `rows` lists for their most, as many tokens for those with experts.
    pub fn compile_products(&self, rows: impl Fn(usize) -> Vec<usize>) -> Result<()> {
        let sizes = |Product { format, columns, depth, most_rows }: Product| {
            rows(most_rows).into_iter().map(move |rows| (format, (rows, columns, depth)))
        };
        let sizes: Vec<_> = self.products().into_iter().flat_map(sizes).collect();
        let experts = self.kernels.experts.as_ref().map(|experts| (experts, rows(usize::MAX)));
        let mut programs = self.product_programs(&sizes)?;
        if let Some((experts, tokens)) = &experts {
            programs.extend(experts.programs_for(tokens)?);
        }
        let _ahead = self.device.compile_ahead(&programs, self.compilers).complete()?;
        let prepare = |(format, size)| self.kernels.products.prepare(&self.device, format, size);
        let prepared = sizes.into_iter().try_for_each(prepare).and_then(|()| match experts {
            None => Ok(()),
            Some((experts, tokens)) => experts.prepare(&self.device, &tokens),
        });
        prepared.map_err(|error| room::explain_kernels(&self.device, error))
    }

    fn product_programs(
        &self,
        sizes: &[(MatrixFormat, (usize, usize, usize))],
    ) -> std::result::Result<Vec<Program>, CudaError> {
        let formats: BTreeSet<_> = sizes.iter().map(|(format, _)| *format).collect();
        let of_format = |wanted| sizes.iter().filter(move |(format, _)| *format == wanted).map(|(_, size)| *size);
        let programs = formats.into_iter().map(|format| self.kernels.products.programs(format, of_format(format)));
        Ok(programs.collect::<std::result::Result<Vec<_>, _>>()?.concat())
    }

    /// Has products computed in the blocks of a table, and in built-in ones where it has none. No bit of a result changes.
    ///
    /// States that were made before are not for this model any more: steps that they have captured have kernels that are gone.
    pub fn use_table(&mut self, table: &TileTable) {
        let formats = self.kernels.products.formats();
        self.kernels.products = ProductKernels::new(&formats, |format| GemmTiles::tuned(table.tiles(format)));
        self.tiles_id = table.id();
        self.identity = Arc::default();
    }

    /// The blocks of products with matrices of a format; nothing if the model keeps none so. Every model has blocks for bf16.
    #[must_use]
    pub fn tiles(&self, format: MatrixFormat) -> Option<&GemmTiles> {
        self.kernels.products.tiles(format)
    }

    /// Whether its products are computed in the blocks of a table.
    pub(crate) fn has_table(&self) -> bool {
        self.tiles_id != 0
    }

    pub(crate) fn device_facts(&self) -> Result<DeviceFacts> {
        Ok(self.device.facts()?)
    }

    pub(crate) fn free_memory(&self) -> std::result::Result<u64, CudaError> {
        self.device.free_memory()
    }

    /// A number of the code of products.
    pub(crate) fn product_code(&self) -> Result<String> {
        Ok(self.kernels.products.code(self.device.target())?)
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
        let start = Instant::now();
        Ok(ProductStopwatch {
            input: self.device.upload(&(0..input).map(number).collect::<Vec<_>>())?,
            rounded: self.device.zeros(rounded)?,
            exact: self.device.zeros(exact)?,
            graphs: Vec::new(),
            model: self,
            matrices,
            kernels: Vec::new(),
            ahead: CompiledAhead::default(),
            failures: Vec::new(),
            not_prebuilt: 0,
            start,
        })
    }
}

/// Measures the products of a model on its device.
pub(crate) struct ProductStopwatch<'a> {
    /// The launches of the size that is measured, captured.
    graphs: Vec<((Size, GemmTile), CudaGraph)>,
    model: &'a CudaDecoder,
    matrices: AllMatrices<'a>,
    input: CudaSlice<u16>,
    rounded: CudaSlice<u16>,
    exact: CudaSlice<f32>,
    /// Those that there are none for are nothing.
    kernels: Vec<((MatrixFormat, GemmTile), Option<ProductKernels>)>,
    ahead: CompiledAhead,
    failures: Vec<CudaError>,
    /// Kernels that are not among the prebuilt ones, where nothing can compile them.
    not_prebuilt: usize,
    start: Instant,
}

/// What has blocks of one kind has them for products of any size.
const ANY_SIZE: (usize, usize, usize) = (1, 8, 8);

/// The kernel of products with one format, in blocks of one kind.
fn only(format: MatrixFormat, tile: GemmTile) -> ProductKernels {
    let formats = match format {
        MatrixFormat::Bf16 => BTreeSet::new(),
        MatrixFormat::Blocks(format) => BTreeSet::from([format]),
    };
    ProductKernels::new(&formats, |_| GemmTiles::only(tile))
}

impl ProductStopwatch<'_> {
    /// The programs that were compiled, some of which the model may load now, why blocks could not be measured, and for how many
    /// there was no kernel.
    pub(crate) fn finish(self) -> (CompiledAhead, Vec<CudaError>, usize) {
        (self.ahead, self.failures, self.not_prebuilt)
    }

    /// The blocks to compile next: all that the first of these sizes lacks, and of the others as many as are compiled at once.
    fn missing(&self, sizes: &[Size]) -> Vec<(MatrixFormat, GemmTile)> {
        let mut missing = Vec::new();
        for (at, &size) in sizes.iter().enumerate() {
            for block in candidates(size).into_iter().map(|tile| (size.format, tile)) {
                if at > 0 && (missing.is_empty() || missing.len() >= self.model.compilers.get()) {
                    return missing;
                }
                if !missing.contains(&block) && !self.kernels.iter().any(|(of, _)| *of == block) {
                    missing.push(block);
                }
            }
        }
        missing
    }

    /// Loads the kernel for a format and a kind of block.
    fn load(&mut self, (format, tile): (MatrixFormat, GemmTile)) -> std::result::Result<(), CudaError> {
        let kernel = only(format, tile);
        let kernel = match kernel.prepare(&self.model.device, format, ANY_SIZE) {
            Ok(()) => Some(kernel),
            // Kernels that were built elsewhere are those of the built-in blocks.
            Err(CudaError::NotPrebuilt { .. }) => {
                self.not_prebuilt += 1;
                None
            }
            Err(error) => self.failed(error)?,
        };
        self.kernels.push(((format, tile), kernel));
        Ok(())
    }

    /// Notes why blocks are not measured, unless nothing can be from now on.
    fn failed<T>(&mut self, error: CudaError) -> std::result::Result<Option<T>, CudaError> {
        if error.is_lasting() {
            return Err(error);
        }
        self.failures.push(error);
        Ok(None)
    }

    /// The mean of some launches, each with another layer's weights, since a step finds none of them in a cache either. They are
    /// captured, where steps are: launched one by one, the shortest would wait for the host.
    fn time(&mut self, size: Size, tile: GemmTile) -> std::result::Result<Option<Duration>, CudaError> {
        const LAUNCHES: std::ops::RangeInclusive<usize> = 4..=8;
        let Size { format, columns, depth, rows } = size;
        let kernel = self.kernels.iter().find(|(of, _)| *of == (format, tile));
        let Some((_, Some(kernel))) = kernel else { return Ok(None) };
        let Matrices { weights, is_f32, .. } = &self.matrices[&(format, (columns, depth))];
        let launches = weights.len().clamp(*LAUNCHES.start(), *LAUNCHES.end());
        let device = &self.model.device;
        let (input, rounded, exact) = (&self.input, &mut self.rounded, &mut self.exact);
        let launch = || {
            weights.iter().cycle().take(launches).try_for_each(|&weights| {
                let output = if *is_f32 {
                    FloatsMut::F32(exact.slice_mut(..rows * columns))
                } else {
                    FloatsMut::Bf16(rounded.slice_mut(..rows * columns))
                };
                kernel.launch(device, rows, (weights, (columns, depth)), None, input, output)
            })
        };
        let taken = if self.model.choices.graphs {
            let place = match self.graphs.iter().position(|(of, _)| *of == (size, tile)) {
                Some(place) => place,
                None => {
                    self.graphs.push(((size, tile), device.capture(launch)?));
                    self.graphs.len() - 1
                }
            };
            device.time(|| device.launch_graph(&mut self.graphs[place].1))?
        } else {
            device.time(launch)?
        };
        Ok(Some(taken / launches as u32))
    }
}

impl Stopwatch for ProductStopwatch<'_> {
    type Error = CudaError;

    /// Compiles several kernels at once, and loads them.
    fn prepare(&mut self, sizes: &[Size]) -> std::result::Result<(), CudaError> {
        self.graphs.clear();
        let blocks = self.missing(sizes);
        let mut programs = Vec::new();
        for &(format, tile) in &blocks {
            programs.extend(only(format, tile).programs(format, [ANY_SIZE])?);
        }
        // Of one that cannot be compiled is told when it is loaded.
        self.ahead.extend(self.model.device.compile_ahead(&programs, self.model.compilers));
        blocks.into_iter().try_for_each(|block| self.load(block))
    }

    fn measure(&mut self, size: Size, tile: GemmTile) -> std::result::Result<Option<Duration>, CudaError> {
        self.time(size, tile).or_else(|error| self.failed(error))
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}
