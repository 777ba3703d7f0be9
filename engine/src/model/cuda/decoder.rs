//! A model on a CUDA device, and its forward pass.

use kernels::cpu::Workers;
use kernels::cuda::{
    AddBiasArgs, CudaDevice, CudaError, CudaSlice, CudaView, CudaViewMut, Floats, GatherRowsArgs, GroupedGemmArgs,
    HeadNormWeights, PrefillAttentionArgs, RmsNormArgs, RopeKvWriteArgs, RowGroups, RowNumbers, Rows, RowsMut,
    SiluMulArgs, from_bf16,
};

use super::experts::{ExpertWeights, router_width};
use super::kernels::{Kernels, MatrixSize, block_rows, logit_width, qkv_width};
use super::state::{CudaSizes, CudaState};
use super::weights::{DeviceFeedForward, DeviceLayer, DeviceLinear, DeviceWeights, bytes};
use super::{LOGIT_ROWS, check_supported};
use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::model::config::ModelConfig;
use crate::model::decoder::{Batch, inverse_frequencies};
use crate::model::plan::WeightPlan;

/// What launching a kernel comes to.
type Launched<T = ()> = std::result::Result<T, CudaError>;

/// A loaded model whose weights are on a CUDA device.
pub struct CudaDecoder {
    device: CudaDevice,
    config: ModelConfig,
    frequencies: Vec<f64>,
    kernels: Kernels,
    weights: DeviceWeights,
    parameters: usize,
    weight_bytes: usize,
}

/// The order of the rows of a matrix product: all of one group.
struct RowOrder {
    rows: usize,
    block_rows: usize,
    sorted_rows: CudaSlice<i32>,
    block_expert: CudaSlice<i32>,
    used_rows: CudaSlice<i32>,
}

impl RowOrder {
    fn new(device: &CudaDevice, rows: usize) -> Launched<Self> {
        let block_rows = block_rows(rows);
        let groups = RowGroups::new(&vec![0; rows], 1, block_rows)?;
        Ok(Self {
            rows,
            block_rows,
            used_rows: device.upload(&[groups.sorted_rows.len() as i32])?,
            sorted_rows: device.upload(&groups.sorted_rows)?,
            block_expert: device.upload(&groups.block_expert)?,
        })
    }
}

/// A batch as the kernels read it.
struct DeviceBatch {
    order: RowOrder,
    token_ids: CudaSlice<u32>,
    positions: CudaSlice<i32>,
    /// Where the keys and values of each token go.
    places: CudaSlice<i32>,
    block_table: CudaSlice<i32>,
    table_width: usize,
    /// Rows of the block table.
    slots: CudaSlice<i32>,
    query_starts: CudaSlice<i32>,
    context: CudaSlice<i32>,
}

fn as_i32(numbers: impl IntoIterator<Item = usize>) -> Vec<i32> {
    // Positions and places are below the tokens of a pool, which are refused from 2^31 on.
    numbers.into_iter().map(|number| number as i32).collect()
}

impl DeviceBatch {
    fn new(device: &CudaDevice, batch: Batch<'_>) -> Launched<Self> {
        let sequences = batch.sequences;
        let table_width = sequences.iter().map(|span| span.block_table.len()).max().unwrap_or(0).max(1);
        let mut block_table = Vec::with_capacity(sequences.len() * table_width);
        for span in sequences {
            block_table.extend(span.block_table.iter().map(|&page| page.cast_signed()));
            // Entries past a context are not read.
            block_table.resize(block_table.len().next_multiple_of(table_width), -1);
        }
        let mut starts = vec![0];
        for span in sequences {
            starts.push(starts[starts.len() - 1] + span.new);
        }
        Ok(Self {
            order: RowOrder::new(device, batch.token_ids.len())?,
            token_ids: device.upload(batch.token_ids)?,
            positions: device.upload(&as_i32(batch.positions.iter().copied()))?,
            places: device.upload(&as_i32(batch.slots.iter().copied()))?,
            block_table: device.upload(&block_table)?,
            table_width,
            slots: device.upload(&as_i32(0..sequences.len()))?,
            query_starts: device.upload(&as_i32(starts))?,
            context: device.upload(&as_i32(sequences.iter().map(|span| span.cached + span.new)))?,
        })
    }

    fn tokens(&self) -> usize {
        self.order.rows
    }
}

pub(super) fn rows(values: CudaView<'_, u16>, stride: usize) -> Rows<'_> {
    Rows { values, stride }
}

pub(super) fn rows_mut(values: CudaViewMut<'_, u16>, stride: usize) -> RowsMut<'_> {
    RowsMut { values, stride }
}

impl CudaDecoder {
    /// Compiles the kernels of a checked plan's model and reads its weights onto a device.
    ///
    /// `page_size` is one that will be used: a model that the device cannot run is refused before its weights are read.
    pub fn load(plan: &WeightPlan<'_>, workers: &Workers, device: CudaDevice, page_size: usize) -> Result<Self> {
        let config = plan.config().clone();
        check_supported(&config, page_size)?;
        let weight_bytes = bytes(plan);
        let free = device.free_memory()?;
        if weight_bytes as u64 > free {
            return Err(Error::Setting(format!(
                "the weights take {} MiB in bf16, and the device has {} MiB free: use --device cpu or a smaller model",
                weight_bytes.div_ceil(1 << 20),
                free >> 20
            )));
        }
        Ok(Self {
            frequencies: inverse_frequencies(plan, workers),
            kernels: Kernels::compile(&device, &config)?,
            weights: DeviceWeights::load(plan, workers, &device)?,
            parameters: plan.parameters(),
            weight_bytes,
            config,
            device,
        })
    }

    /// The model's numbers.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The elements of all weights.
    #[must_use]
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// The bytes of all weights.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.weight_bytes
    }

    /// What a runner of these sizes needs besides.
    pub fn state(&self, sizes: CudaSizes) -> Result<CudaState> {
        CudaState::new(&self.device, &self.config, &self.frequencies, sizes)
    }

    /// Runs the tokens of `batch` through the model, adds their keys and values to `state`, and returns the wanted logits,
    /// `[logit_rows, vocab_size]`; nothing when it was cancelled, and then the keys and values of these tokens are not all there.
    ///
    /// `cancel` is asked before each layer. A kernel that fails is an error here or of a later call, and stays one: the device
    /// has to be opened again.
    pub fn forward(&self, state: &mut CudaState, batch: Batch<'_>, cancel: &dyn Cancel) -> Result<Option<Vec<f32>>> {
        let (tokens, room) = (batch.token_ids.len(), state.sizes.step_tokens);
        if tokens > room {
            return Err(Error::Request(format!("a step of {tokens} tokens, and there is room for {room}")));
        }
        let on_device = DeviceBatch::new(&self.device, batch)?;
        self.embed(state, &on_device)?;
        for index in 0..self.weights.layers.len() {
            if cancel.is_cancelled() {
                return Ok(None);
            }
            self.layer(state, &on_device, index)?;
        }
        self.normalise(state, tokens, &self.weights.final_norm, true)?;
        if cancel.is_cancelled() {
            return Ok(None);
        }
        let mut logits = Vec::with_capacity(batch.logit_rows.len() * self.config.vocab_size);
        for wanted in batch.logit_rows.chunks(LOGIT_ROWS.min(room)) {
            self.logits(state, tokens, wanted, &mut logits)?;
        }
        // Without logits nothing has waited for the kernels, and their failure would be told by another request.
        self.device.synchronize()?;
        Ok(Some(logits))
    }

    /// The embeddings of the tokens become the residual stream.
    fn embed(&self, state: &mut CudaState, batch: &DeviceBatch) -> Launched {
        let (width, tokens) = (self.config.hidden_size, batch.tokens());
        self.device.gather_rows(
            &self.kernels.gather,
            GatherRowsArgs {
                table: rows(self.weights.embedding.as_view(), width),
                table_rows: self.config.vocab_size,
                rows: RowNumbers::U32(batch.token_ids.slice(..tokens)),
                output: rows_mut(state.step.hidden.slice_mut(..tokens * width), width),
            },
        )
    }

    /// Normalises the residual stream, to which the last update is added first if there is one.
    fn normalise(&self, state: &mut CudaState, tokens: usize, weight: &CudaSlice<f32>, has_update: bool) -> Launched {
        let width = self.config.hidden_size;
        let elements = ..tokens * width;
        let step = &mut state.step;
        let (input, residual) = if has_update {
            (step.update.slice(elements), Some(rows_mut(step.hidden.slice_mut(elements), width)))
        } else {
            (step.hidden.slice(elements), None)
        };
        self.device.rms_norm(
            &self.kernels.norm,
            RmsNormArgs {
                input: rows(input, width),
                residual,
                weight: Floats::F32(weight.as_view()),
                epsilon: self.config.rms_norm_eps,
                rows: tokens,
                output: rows_mut(step.normed.slice_mut(elements), width),
            },
        )
    }

    fn layer(&self, state: &mut CudaState, batch: &DeviceBatch, index: usize) -> Launched {
        let layer = &self.weights.layers[index];
        let tokens = batch.tokens();
        self.normalise(state, tokens, &layer.attention_norm, index > 0)?;
        let step = &mut state.step;
        self.linear(&batch.order, &layer.query_key_value, &step.normed, &mut step.qkv)?;
        self.rotate_and_store(state, batch, (index, layer))?;
        self.attend(state, batch, index)?;
        let step = &mut state.step;
        self.linear(&batch.order, &layer.attention_output, &step.attended, &mut step.update)?;
        self.normalise(state, tokens, &layer.mlp_norm, true)?;
        match &layer.feed_forward {
            DeviceFeedForward::Dense { gate_up, down } => self.dense(state, batch, gate_up, down),
            DeviceFeedForward::Sparse(weights) => self.sparse(state, batch, weights),
        }
    }

    fn dense(
        &self,
        state: &mut CudaState,
        batch: &DeviceBatch,
        gate_up: &DeviceLinear,
        down: &DeviceLinear,
    ) -> Launched {
        let (tokens, inner) = (batch.tokens(), self.config.intermediate_size);
        let step = &mut state.step;
        self.linear(&batch.order, gate_up, &step.normed, &mut step.gate_up)?;
        self.device.silu_mul(
            &self.kernels.silu,
            SiluMulArgs {
                gate_up: rows(step.gate_up.slice(..tokens * 2 * inner), 2 * inner),
                rows: tokens,
                output: rows_mut(step.activated.slice_mut(..tokens * inner), inner),
            },
        )?;
        self.linear(&batch.order, down, &step.activated, &mut step.update)
    }

    fn sparse(&self, state: &mut CudaState, batch: &DeviceBatch, weights: &ExpertWeights) -> Launched {
        let (tokens, width) = (batch.tokens(), self.config.hidden_size);
        let step = &mut state.step;
        let (Some(kernels), Some(experts), Some(buffers)) =
            (&self.kernels.experts, &self.config.experts, &mut step.experts)
        else {
            unreachable!("a layer has experts where its model does");
        };
        let router = (&weights.router, (router_width(experts), width));
        self.product(&batch.order, router, &step.normed, &mut buffers.logits)?;
        kernels.forward(
            &self.device,
            weights,
            batch.positions.slice(..tokens),
            step.normed.slice(..tokens * width),
            buffers,
            rows_mut(step.update.slice_mut(..tokens * width), width),
        )
    }

    fn rotate_and_store(
        &self,
        state: &mut CudaState,
        batch: &DeviceBatch,
        (index, layer): (usize, &DeviceLayer),
    ) -> Launched {
        let config = &self.config;
        let (tokens, row_len, query_size) = (batch.tokens(), qkv_width(config), config.query_size());
        let pool = &mut state.layers[index];
        self.device.rope_kv_write(
            &state.rope,
            RopeKvWriteArgs {
                qkv: rows(state.step.qkv.slice(..tokens * row_len), row_len),
                norm: layer.query_key_norm.as_ref().map(|(query, key)| HeadNormWeights {
                    query: Floats::F32(query.as_view()),
                    key: Floats::F32(key.as_view()),
                    epsilon: config.rms_norm_eps,
                }),
                clip: config.clip_qkv,
                positions: batch.positions.slice(..tokens),
                turns: state.turns.as_view(),
                slots: batch.places.slice(..tokens),
                query: rows_mut(state.step.query.slice_mut(..tokens * query_size), query_size),
                keys: pool.keys.as_view_mut(),
                values: pool.values.as_view_mut(),
                layout: state.layout,
            },
        )
    }

    fn attend(&self, state: &mut CudaState, batch: &DeviceBatch, index: usize) -> Launched {
        let config = &self.config;
        let (tokens, query_size) = (batch.tokens(), config.query_size());
        let pool = &state.layers[index];
        self.device.paged_prefill_attention(
            &state.attention[&config.windows[index]],
            PrefillAttentionArgs {
                query: state.step.query.slice(..tokens * query_size),
                query_stride: query_size,
                tokens,
                keys: pool.keys.as_view(),
                values: pool.values.as_view(),
                layout: state.layout,
                block_table: batch.block_table.as_view(),
                table_width: batch.table_width,
                slots: batch.slots.as_view(),
                query_starts: batch.query_starts.as_view(),
                context: batch.context.as_view(),
                scale: 1.0 / (config.head_dim as f32).sqrt(),
                sinks: None,
                output: state.step.attended.slice_mut(..tokens * query_size),
                lse: None,
            },
        )
    }

    /// The products of the rows of `input`, with the bias where there is one.
    fn linear(
        &self,
        order: &RowOrder,
        linear: &DeviceLinear,
        input: &CudaSlice<u16>,
        output: &mut CudaSlice<u16>,
    ) -> Launched {
        let columns = linear.size.0;
        self.product(order, (&linear.weight, linear.size), input, output)?;
        let Some(bias) = &linear.bias else { return Ok(()) };
        self.device.add_bias(
            self.kernels.bias(columns),
            AddBiasArgs {
                values: rows_mut(output.slice_mut(..order.rows * columns), columns),
                rows: order.rows,
                bias: Floats::F32(bias.as_view()),
            },
        )
    }

    fn product(
        &self,
        order: &RowOrder,
        (weight, size): (&CudaSlice<u16>, MatrixSize),
        input: &CudaSlice<u16>,
        output: &mut CudaSlice<u16>,
    ) -> Launched {
        let (columns, depth) = size;
        self.device.grouped_gemm(
            self.kernels.product(size, order.block_rows),
            GroupedGemmArgs {
                input: input.slice(..order.rows * depth),
                weights: weight.as_view(),
                sorted_rows: order.sorted_rows.as_view(),
                block_expert: order.block_expert.as_view(),
                used_rows: order.used_rows.as_view(),
                rows: order.rows,
                output: output.slice_mut(..order.rows * columns),
            },
        )
    }

    /// Adds the logits of a few of the step's tokens to `logits`.
    fn logits(&self, state: &mut CudaState, tokens: usize, wanted: &[usize], logits: &mut Vec<f32>) -> Launched {
        let config = &self.config;
        let (width, columns, count) = (config.hidden_size, logit_width(config), wanted.len());
        let numbers = self.device.upload(&as_i32(wanted.iter().copied()))?;
        let step = &mut state.step;
        self.device.gather_rows(
            &self.kernels.gather,
            GatherRowsArgs {
                table: rows(step.normed.slice(..tokens * width), width),
                table_rows: tokens,
                rows: RowNumbers::I32(numbers.as_view()),
                output: rows_mut(step.wanted.slice_mut(..count * width), width),
            },
        )?;
        let head = self.weights.head.as_ref().unwrap_or(&self.weights.embedding);
        let order = RowOrder::new(&self.device, count)?;
        self.product(&order, (head, (columns, width)), &step.wanted, &mut step.logits)?;
        let bits = self.device.download(&step.logits.slice(..count * columns))?;
        for row in bits.chunks_exact(columns) {
            logits.extend(row[..config.vocab_size].iter().map(|&bits| from_bf16(bits)));
        }
        Ok(())
    }
}
