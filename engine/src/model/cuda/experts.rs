//! The feed-forward block of a layer with experts: choose, sort the rows by expert, a gated product, another product, sum.

use std::collections::BTreeSet;

use kernels::cuda::{
    CombineExperts, CombineExpertsArgs, CombineExpertsShape, CudaDevice, CudaError, CudaSlice, CudaView, Floats,
    GatedGemmShape, GroupRowsArgs, GroupRowsShape, GroupedGemmArgs, GroupedGemmShape, LazyKernel, Program,
    RouteExperts, RouteExpertsArgs, RouteExpertsShape, RowsMut,
};

use super::ELEMENT;
use super::decoder::rows;
use super::kernels::in_words_of_a_model;
use crate::model::config::{Experts, ModelConfig};

/// Rows of a block of the products with experts: few for the steps of decoding, more for prompts.
const BLOCK_ROWS: [usize; 2] = [16, 64];

/// The weights of a layer.
pub(super) struct ExpertWeights {
    /// `[experts, hidden_size]`
    pub(super) router: CudaSlice<u16>,
    /// `[experts, 2 * intermediate_size, hidden_size]`: an expert's gates above what they gate.
    pub(super) gate_up: CudaSlice<u16>,
    /// `[experts, hidden_size, intermediate_size]`
    pub(super) down: CudaSlice<u16>,
}

fn group_shape(experts: &Experts, block_rows: usize) -> GroupRowsShape {
    GroupRowsShape { experts: experts.count, block_rows }
}

/// What the kernels of experts are compiled for.
pub(super) struct ExpertShapes {
    experts: Experts,
    route: RouteExpertsShape,
    products: [BlockShapes; 2],
    combine: CombineExpertsShape,
}

/// What the kernels for blocks of a number of rows are compiled for.
#[derive(Clone, Copy)]
struct BlockShapes {
    group: GroupRowsShape,
    gate_up: GatedGemmShape,
    down: GroupedGemmShape,
}

impl BlockShapes {
    fn of(config: &ModelConfig, experts: &Experts, block_rows: usize) -> Self {
        let (hidden, inner) = (config.hidden_size, experts.intermediate_size);
        let product = |columns, depth, rows_per_input| GroupedGemmShape {
            block_rows,
            experts: experts.count,
            columns,
            depth,
            rows_per_input,
        };
        Self {
            group: group_shape(experts, block_rows),
            gate_up: GatedGemmShape(product(inner, hidden, experts.per_token)),
            down: product(hidden, inner, 1),
        }
    }
}

impl ExpertShapes {
    pub(super) fn of(config: &ModelConfig, experts: &Experts) -> Self {
        let chosen = experts.per_token;
        Self {
            experts: experts.clone(),
            route: RouteExpertsShape { experts: experts.count, chosen, renormalise: experts.renormalised },
            products: BLOCK_ROWS.map(|rows| BlockShapes::of(config, experts, rows)),
            combine: CombineExpertsShape { width: config.hidden_size, chosen },
        }
    }

    /// Says which size of a model's experts no kernel supports.
    pub(super) fn check(&self) -> Result<(), CudaError> {
        let Self { experts: _, route, products, combine } = self;
        let (hidden, inner) = ("hidden size", "intermediate size of an expert");
        let sizes = |columns, depth| {
            move |error| in_words_of_a_model(error, &[("columns", columns), ("depth", depth), ("width", columns)])
        };
        route.check()?;
        combine.check().map_err(sizes(hidden, inner))?;
        products.iter().try_for_each(|BlockShapes { group, gate_up, down }| {
            group.check()?;
            gate_up.0.check().map_err(sizes(inner, hidden))?;
            down.check().map_err(sizes(hidden, inner))
        })
    }

    /// What [`ExpertKernels::compile`] compiles.
    pub(super) fn programs(&self) -> Result<[Program; 2], CudaError> {
        let Self { experts: _, route, products: _, combine } = self;
        Ok([
            RouteExperts::program(*route, RouteExperts::SOURCE)?,
            CombineExperts::program(*combine, CombineExperts::SOURCE)?,
        ])
    }

    /// What products with experts are compiled from, in blocks of either size.
    pub(super) fn product_programs(&self) -> Result<Vec<Program>, CudaError> {
        let [few, many] = self.products.map(|shapes| BlockKernels::new(shapes).programs());
        Ok(few?.into_iter().chain(many?).collect())
    }
}

/// The kernels of experts. Those that come in two are compiled when a number of tokens first needs them; the first is for blocks of
/// few rows.
pub(super) struct ExpertKernels {
    experts: Experts,
    route: RouteExperts,
    products: [BlockKernels; 2],
    combine: CombineExperts,
}

/// What blocks of a number of rows need.
struct BlockKernels {
    group: LazyKernel<GroupRowsShape>,
    gate_up: LazyKernel<GatedGemmShape>,
    down: LazyKernel<GroupedGemmShape>,
}

impl BlockKernels {
    fn new(BlockShapes { group, gate_up, down }: BlockShapes) -> Self {
        Self { group: LazyKernel::new(group), gate_up: LazyKernel::new(gate_up), down: LazyKernel::new(down) }
    }

    fn programs(&self) -> Result<[Program; 3], CudaError> {
        let Self { group, gate_up, down } = self;
        Ok([group.program()?, gate_up.program()?, down.program()?])
    }

    fn prepare(&self, device: &CudaDevice) -> Result<(), CudaError> {
        let Self { group, gate_up, down } = self;
        group.get(device)?;
        gate_up.get(device)?;
        down.get(device).map(drop)
    }
}

impl ExpertKernels {
    /// Compiles all but the products.
    pub(super) fn compile(device: &CudaDevice, shapes: ExpertShapes) -> Result<Self, CudaError> {
        let ExpertShapes { experts, route, products, combine } = shapes;
        Ok(Self {
            experts,
            route: RouteExperts::compile(device, route)?,
            products: products.map(BlockKernels::new),
            combine: CombineExperts::compile(device, combine)?,
        })
    }

    /// The place of the blocks that so many tokens get: of many rows only where an expert gets more than a small block of them on
    /// average, since they would waste much.
    fn size(&self, tokens: usize) -> usize {
        usize::from(tokens * self.experts.per_token / self.experts.count > BLOCK_ROWS[0])
    }

    /// What products of steps with these numbers of tokens are compiled from.
    pub(super) fn programs_for(&self, tokens: &[usize]) -> Result<Vec<Program>, CudaError> {
        let sizes: BTreeSet<_> = tokens.iter().map(|&tokens| self.size(tokens)).collect();
        let programs = sizes.into_iter().map(|size| self.products[size].programs());
        Ok(programs.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    /// Loads what such steps need, as far as it is not loaded yet.
    pub(super) fn prepare(&self, device: &CudaDevice, tokens: &[usize]) -> Result<(), CudaError> {
        tokens.iter().try_for_each(|&tokens| self.products[self.size(tokens)].prepare(device))
    }
}

/// The numbers of a step, each with room for the longest.
pub(super) struct ExpertBuffers {
    /// `[tokens, experts]`
    pub(super) logits: CudaSlice<f32>,
    chosen: CudaSlice<i32>,
    weights: CudaSlice<f32>,
    sorted_rows: CudaSlice<i32>,
    block_expert: CudaSlice<i32>,
    used_rows: CudaSlice<i32>,
    activated: CudaSlice<u16>,
    products: CudaSlice<u16>,
}

/// How many elements of 16 bits and of 32 bits each of them has.
struct Elements {
    narrow: [usize; 2],
    wide: [usize; 5],
}

impl Elements {
    fn of(config: &ModelConfig, experts: &Experts, tokens: usize) -> Self {
        let (rows, inner) = (tokens * experts.per_token, experts.intermediate_size);
        let blocks = BLOCK_ROWS.map(|block_rows| group_shape(experts, block_rows).most_blocks(rows));
        let sorted = blocks.iter().zip(BLOCK_ROWS).map(|(blocks, block_rows)| blocks * block_rows).max();
        Self {
            narrow: [rows * inner, rows * config.hidden_size],
            wide: [tokens * experts.count, rows, rows, sorted.unwrap_or(0), blocks.into_iter().max().unwrap_or(0)],
        }
    }
}

/// Bytes of all of them.
pub(super) fn step_bytes(config: &ModelConfig, experts: &Experts, tokens: usize) -> usize {
    let Elements { narrow, wide } = Elements::of(config, experts, tokens);
    narrow.iter().sum::<usize>() * ELEMENT + wide.iter().sum::<usize>() * size_of::<i32>()
}

impl ExpertBuffers {
    pub(super) fn new(
        device: &CudaDevice,
        config: &ModelConfig,
        experts: &Experts,
        tokens: usize,
    ) -> Result<Self, CudaError> {
        let Elements { narrow, wide } = Elements::of(config, experts, tokens);
        let [activated, products] = narrow;
        let [logits, chosen, weights, sorted_rows, block_expert] = wide;
        Ok(Self {
            logits: device.zeros(logits)?,
            chosen: device.zeros(chosen)?,
            weights: device.zeros(weights)?,
            sorted_rows: device.zeros(sorted_rows)?,
            block_expert: device.zeros(block_expert)?,
            used_rows: device.zeros(1)?,
            activated: device.zeros(activated)?,
            products: device.zeros(products)?,
        })
    }
}

/// What a router has chosen for the tokens of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Routed {
    /// The layer.
    pub layer: usize,
    /// `[tokens]`: the position of each within its sequence.
    pub positions: Vec<i32>,
    /// `[tokens, experts]`
    pub logits: Vec<f32>,
    /// `[tokens, per_token]`: the chosen experts.
    pub experts: Vec<i32>,
    /// `[tokens, per_token]`: what their results are multiplied by.
    pub weights: Vec<f32>,
}

/// Sees what routers choose, and may change the experts and their weights. It is for tests: it waits for the device in every layer.
pub type RouterHook = Box<dyn Fn(&mut Routed) + Send + Sync>;

impl ExpertKernels {
    /// Chooses the experts of tokens by the router's logits that are in `buffers`.
    pub(super) fn route(
        &self,
        device: &CudaDevice,
        positions: CudaView<'_, i32>,
        buffers: &mut ExpertBuffers,
    ) -> Result<(), CudaError> {
        let (tokens, router) = (positions.len(), self.experts.count);
        let count = tokens * self.experts.per_token;
        device.route_experts(
            &self.route,
            RouteExpertsArgs {
                logits: Floats::F32(buffers.logits.slice(..tokens * router)),
                stride: router,
                positions,
                experts: buffers.chosen.slice_mut(..count),
                weights: buffers.weights.slice_mut(..count),
            },
        )
    }

    /// Shows `hook` what has been chosen, and takes what it makes of that.
    pub(super) fn show(
        &self,
        device: &CudaDevice,
        layer: usize,
        positions: &CudaView<'_, i32>,
        buffers: &mut ExpertBuffers,
        hook: &RouterHook,
    ) -> Result<(), CudaError> {
        let (tokens, router) = (positions.len(), self.experts.count);
        let count = tokens * self.experts.per_token;
        let mut routed = Routed {
            layer,
            positions: device.download(positions)?,
            logits: device.download(&buffers.logits.slice(..tokens * router))?,
            experts: device.download(&buffers.chosen.slice(..count))?,
            weights: device.download(&buffers.weights.slice(..count))?,
        };
        hook(&mut routed);
        device.overwrite(&mut buffers.chosen, &routed.experts)?;
        device.overwrite(&mut buffers.weights, &routed.weights)
    }

    /// Lets every token of `input`, `[tokens, hidden_size]`, through the experts that were chosen for it.
    pub(super) fn forward(
        &self,
        device: &CudaDevice,
        weights: &ExpertWeights,
        tokens: usize,
        input: CudaView<'_, u16>,
        buffers: &mut ExpertBuffers,
        output: RowsMut<'_>,
    ) -> Result<(), CudaError> {
        let experts = &self.experts;
        let width = self.combine.shape().width;
        let (inner, chosen) = (experts.intermediate_size, experts.per_token);
        let count = tokens * chosen;
        let size = self.size(tokens);
        let kernels = &self.products[size];
        let blocks = group_shape(experts, BLOCK_ROWS[size]).most_blocks(count);
        let sorted = blocks * BLOCK_ROWS[size];
        device.group_rows(
            kernels.group.get(device)?,
            GroupRowsArgs {
                expert_of_row: buffers.chosen.slice(..count),
                sorted_rows: buffers.sorted_rows.slice_mut(..sorted),
                block_expert: buffers.block_expert.slice_mut(..blocks),
                used_rows: buffers.used_rows.slice_mut(..1),
            },
        )?;
        device.gated_gemm(
            kernels.gate_up.get(device)?,
            GroupedGemmArgs {
                input,
                weights: weights.gate_up.as_view(),
                sorted_rows: buffers.sorted_rows.slice(..sorted),
                block_expert: buffers.block_expert.slice(..blocks),
                used_rows: buffers.used_rows.slice(..1),
                rows: count,
                output: buffers.activated.slice_mut(..count * inner),
            },
        )?;
        device.grouped_gemm(
            kernels.down.get(device)?,
            GroupedGemmArgs {
                input: buffers.activated.slice(..count * inner),
                weights: weights.down.as_view(),
                sorted_rows: buffers.sorted_rows.slice(..sorted),
                block_expert: buffers.block_expert.slice(..blocks),
                used_rows: buffers.used_rows.slice(..1),
                rows: count,
                output: buffers.products.slice_mut(..count * width),
            },
        )?;
        device.combine_experts(
            &self.combine,
            CombineExpertsArgs {
                rows: rows(buffers.products.slice(..count * width), width),
                weights: buffers.weights.slice(..count),
                tokens,
                output,
            },
        )
    }
}
