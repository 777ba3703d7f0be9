//! A model on a CUDA device, and its forward pass.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

use kernels::cpu::Workers;
use kernels::cuda::{
    CompiledAhead, CudaDevice, CudaError, CudaSlice, CudaView, CudaViewMut, DecodeAttentionArgs, Floats, FloatsMut,
    GatherRowsArgs, HeadNormWeights, PrefillAttentionArgs, Program, RmsNormArgs, RopeKvWriteArgs, RowNumbers, Rows,
    RowsMut, SiluMulArgs,
};

use super::experts::{ExpertWeights, RouterHook};
use super::graphs::Launch;
use super::inputs::StepShape;
use super::kernels::{Kernels, qkv_width};
use super::product_kernels::MatrixRef;
use super::state::{CudaSizes, CudaState};
use super::weights::{DenseWeights, DeviceFeedForward, DeviceLayer, DeviceLinear, DeviceWeights, bytes, formats};
use super::{CudaChoices, DecodeKernel, LOGIT_ROWS, check_supported, room, state};
use crate::cancel::{Cancel, Never};
use crate::error::Result;
use crate::model::config::ModelConfig;
use crate::model::decoder::{Batch, inverse_frequencies};
use crate::model::plan::WeightPlan;

/// What launching a kernel comes to.
type Launched<T = ()> = std::result::Result<T, CudaError>;

/// A loaded model whose weights are on a CUDA device.
pub struct CudaDecoder {
    pub(super) device: CudaDevice,
    pub(super) config: ModelConfig,
    frequencies: Vec<f64>,
    pub(super) kernels: Kernels,
    pub(super) weights: DeviceWeights,
    pub(super) choices: CudaChoices,
    /// Threads that compile kernels.
    pub(super) compilers: NonZeroUsize,
    /// Shared with the states that are made for it.
    pub(super) identity: Arc<()>,
    /// The number of the table of blocks that products are computed in; 0 with the built-in ones.
    pub(super) tiles_id: u64,
    router_hook: Option<RouterHook>,
    /// What a state loads, for as many states as are made.
    _of_states: CompiledAhead,
    parameters: usize,
    weight_bytes: usize,
}

pub(super) fn rows(values: CudaView<'_, u16>, stride: usize) -> Rows<'_> {
    Rows { values, stride }
}

pub(super) fn rows_mut(values: CudaViewMut<'_, u16>, stride: usize) -> RowsMut<'_> {
    RowsMut { values, stride }
}

impl CudaDecoder {
    /// Compiles the kernels of a checked plan's model, as many at once as there are `workers`, and reads its weights onto a device.
    ///
    /// A model that the device cannot run with such pages is refused before its weights are read.
    pub fn load(plan: &WeightPlan<'_>, workers: &Workers, device: CudaDevice, choices: CudaChoices) -> Result<Self> {
        let config = plan.config().clone();
        check_supported(&config, choices.page_size)?;
        let weight_bytes = bytes(plan);
        room::require_weights(&device, weight_bytes as u64)?;
        let compilers = NonZeroUsize::new(workers.threads()).unwrap_or(NonZeroUsize::MIN);
        let formats = formats(plan);
        // With those of a state, which comes next: they take longest.
        let mut programs = Kernels::programs(&config)?;
        let of_states = state::programs(&config, (choices.page_size, choices.decode))?;
        programs.extend_from_slice(&of_states);
        let _ahead = device.compile_ahead(&programs, compilers).complete()?;
        let of_states = device.compile_ahead(&of_states, compilers).complete()?;
        let kernels =
            Kernels::compile(&device, &config, &formats).map_err(|error| room::explain_kernels(&device, error))?;
        let weights = DeviceWeights::load(plan, workers, &device)
            .map_err(|error| room::explain_weights(&device, error, weight_bytes as u64))?;
        Ok(Self {
            frequencies: inverse_frequencies(plan, workers),
            kernels,
            weights,
            parameters: plan.parameters(),
            choices,
            compilers,
            identity: Arc::default(),
            tiles_id: 0,
            router_hook: None,
            _of_states: of_states,
            weight_bytes,
            config,
            device,
        })
    }

    /// The same with a look at what its routers choose, which cannot be captured; see [`RouterHook`].
    #[must_use]
    pub fn with_router_hook(self, hook: RouterHook) -> Self {
        let choices = CudaChoices { graphs: false, ..self.choices };
        Self { router_hook: Some(hook), choices, ..self }
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

    /// What has been loaded on its device so far, each once.
    #[must_use]
    pub fn loaded_programs(&self) -> Vec<Program> {
        self.device.loaded_programs()
    }

    /// The attention of single tokens.
    #[must_use]
    pub fn decode_kernel(&self) -> DecodeKernel {
        self.choices.decode
    }

    /// What a runner of these sizes needs besides.
    pub fn state(&self, sizes: CudaSizes) -> Result<CudaState> {
        let identity = Arc::clone(&self.identity);
        check_supported(&self.config, sizes.page_size)?;
        let programs = state::programs(&self.config, (sizes.page_size, self.choices.decode))?;
        let _ahead = self.device.compile_ahead(&programs, self.compilers).complete()?;
        let state = CudaState::new(&self.device, &self.config, &self.frequencies, sizes, self.choices, identity)?;
        Ok(state.with_tiles(self.tiles_id))
    }

    /// Runs the tokens of `batch` through the model, adds their keys and values to `state`, and returns the wanted logits,
    /// `[logit_rows, vocab_size]`; nothing when it was cancelled, and then the keys and values of these tokens are not all there.
    ///
    /// `cancel` is asked before each layer. A kernel that fails is [`Error::DeviceLost`](crate::error::Error::DeviceLost) here and from
    /// then on. One that there is no memory to load is [`NoRoom::Code`](super::NoRoom::Code), and other steps may go on.
    ///
    /// # Panics
    /// If the state is another model's.
    pub fn forward(&self, state: &mut CudaState, batch: Batch<'_>, cancel: &dyn Cancel) -> Result<Option<Vec<f32>>> {
        assert!(Arc::ptr_eq(&self.identity, &state.model), "a state is used with the model that it was made for");
        self.run(state, batch, cancel).map_err(|error| room::explain_step(&self.device, error))
    }

    fn run(&self, state: &mut CudaState, batch: Batch<'_>, cancel: &dyn Cancel) -> Result<Option<Vec<f32>>> {
        let (sizes, shape) = (state.sizes, StepShape::of(batch));
        if let Some(prepared) = state.graphs.prepared(shape) {
            return self.decode(state, batch, prepared, cancel);
        }
        state.inputs.set(&self.device, sizes, (batch, shape), batch.logit_rows)?;
        if !self.hidden_states(state, shape, cancel)? {
            return Ok(None);
        }
        let wanted = batch.logit_rows.len();
        let together = LOGIT_ROWS.min(sizes.step_tokens);
        let mut logits = Vec::with_capacity(wanted * self.config.vocab_size);
        for start in (0..wanted).step_by(together) {
            let rows = start..wanted.min(start + together);
            self.logits(state, shape.tokens, &rows)?;
            logits.extend_from_slice(self.read_logits(state, rows.len())?);
        }
        // Without logits nothing has waited for the kernels, and their failure would be told by another request.
        self.device.synchronize()?;
        Ok(Some(logits))
    }

    /// A step of single tokens in a prepared shape: as it has been captured, or like other steps while it is not. Everything that
    /// differs from step to step is in the inputs.
    fn decode(
        &self,
        state: &mut CudaState,
        batch: Batch<'_>,
        shape: StepShape,
        cancel: &dyn Cancel,
    ) -> Result<Option<Vec<f32>>> {
        if cancel.is_cancelled() {
            return Ok(None);
        }
        let all: Vec<usize> = (0..shape.tokens).collect();
        state.inputs.set(&self.device, state.sizes, (batch, shape), &all)?;
        let mut graph = match state.graphs.next(shape) {
            Launch::Kernels => None,
            Launch::Graph(graph) => Some(graph),
            Launch::Capture => match self.device.capture(|| self.launch_decode(state, shape)) {
                Ok(graph) => Some(graph),
                Err(error) => {
                    state.graphs.give_up(&error);
                    None
                }
            },
        };
        match &mut graph {
            Some(graph) => self.device.launch_graph(graph)?,
            None => self.launch_decode(state, shape)?,
        }
        state.graphs.keep(shape, graph);
        let last = batch.logit_rows.iter().max();
        let of_all = self.read_logits(state, last.map_or(0, |last| last + 1))?;
        let width = self.config.vocab_size;
        let mut logits = Vec::with_capacity(batch.logit_rows.len() * width);
        for row in batch.logit_rows {
            logits.extend_from_slice(&of_all[row * width..][..width]);
        }
        Ok(Some(logits))
    }

    fn launch_decode(&self, state: &mut CudaState, shape: StepShape) -> Launched {
        self.hidden_states(state, shape, &Never)?;
        self.logits(state, shape.tokens, &(0..shape.tokens))
    }

    /// Launches everything up to the last normalisation for the step that the inputs have; false when it was cancelled.
    ///
    /// Nothing here allocates, or waits for the device, and what is launched depends on `shape` alone.
    fn hidden_states(&self, state: &mut CudaState, shape: StepShape, cancel: &dyn Cancel) -> Launched<bool> {
        self.embed(state, shape.tokens)?;
        for index in 0..self.weights.layers.len() {
            if cancel.is_cancelled() {
                return Ok(false);
            }
            self.layer(state, shape, index)?;
        }
        self.normalise(state, shape.tokens, &self.weights.final_norm, true)?;
        Ok(!cancel.is_cancelled())
    }

    /// The embeddings of the tokens become the residual stream.
    fn embed(&self, state: &mut CudaState, tokens: usize) -> Launched {
        let width = self.config.hidden_size;
        self.device.gather_rows(
            &self.kernels.gather,
            GatherRowsArgs {
                table: rows(self.weights.embedding.as_view(), width),
                table_rows: self.config.vocab_size,
                rows: RowNumbers::I32(state.inputs.token_ids()),
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

    fn layer(&self, state: &mut CudaState, shape: StepShape, index: usize) -> Launched {
        let layer = &self.weights.layers[index];
        let tokens = shape.tokens;
        self.normalise(state, tokens, &layer.attention_norm, index > 0)?;
        let step = &mut state.step;
        self.linear(tokens, &layer.query_key_value, &step.normed, &mut step.qkv)?;
        self.rotate_and_store(state, tokens, (index, layer))?;
        if shape.is_decode && self.choices.decode != DecodeKernel::Paged {
            self.attend_split(state, shape, index)?;
        } else {
            self.attend(state, shape, index)?;
        }
        let step = &mut state.step;
        self.linear(tokens, &layer.attention_output, &step.attended, &mut step.update)?;
        self.normalise(state, tokens, &layer.mlp_norm, true)?;
        match &layer.feed_forward {
            DeviceFeedForward::Dense(weights) => self.dense(state, tokens, weights),
            DeviceFeedForward::Sparse(weights) => self.sparse(state, tokens, (index, weights)),
        }
    }

    fn dense(&self, state: &mut CudaState, tokens: usize, weights: &DenseWeights) -> Launched {
        let inner = self.config.intermediate_size;
        let step = &mut state.step;
        self.linear(tokens, &weights.gate_up, &step.normed, &mut step.gate_up)?;
        self.device.silu_mul(
            &self.kernels.silu,
            SiluMulArgs {
                gate_up: rows(step.gate_up.slice(..tokens * 2 * inner), 2 * inner),
                rows: tokens,
                output: rows_mut(step.activated.slice_mut(..tokens * inner), inner),
            },
        )?;
        self.linear(tokens, &weights.down, &step.activated, &mut step.update)
    }

    fn sparse(&self, state: &mut CudaState, tokens: usize, (index, weights): (usize, &ExpertWeights)) -> Launched {
        let width = self.config.hidden_size;
        let CudaState { step, inputs, .. } = state;
        let (Some(kernels), Some(experts), Some(buffers)) =
            (&self.kernels.experts, &self.config.experts, &mut step.experts)
        else {
            unreachable!("a layer has experts where its model does");
        };
        let router = (MatrixRef::Bf16(&weights.router), (experts.count, width));
        let output = FloatsMut::F32(buffers.logits.slice_mut(..tokens * experts.count));
        self.kernels.products.launch(&self.device, tokens, router, None, &step.normed, output)?;
        kernels.route(&self.device, inputs.positions(), buffers)?;
        if let Some(hook) = &self.router_hook {
            kernels.show(&self.device, index, &inputs.positions(), buffers, hook)?;
        }
        kernels.forward(
            &self.device,
            weights,
            tokens,
            step.normed.slice(..tokens * width),
            buffers,
            rows_mut(step.update.slice_mut(..tokens * width), width),
        )
    }

    fn rotate_and_store(
        &self,
        state: &mut CudaState,
        tokens: usize,
        (index, layer): (usize, &DeviceLayer),
    ) -> Launched {
        let config = &self.config;
        let (row_len, query_size) = (qkv_width(config), config.query_size());
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
                positions: state.inputs.positions(),
                turns: state.turns.as_view(),
                slots: state.inputs.places(),
                query: rows_mut(state.step.query.slice_mut(..tokens * query_size), query_size),
                keys: pool.keys.as_view_mut(),
                values: pool.values.as_view_mut(),
                layout: state.layout,
            },
        )
    }

    fn attend(&self, state: &mut CudaState, shape: StepShape, index: usize) -> Launched {
        let config = &self.config;
        let (tokens, query_size) = (shape.tokens, config.query_size());
        let CudaState { layers, layout, attention, inputs, step, .. } = state;
        self.device.paged_prefill_attention(
            &attention[&config.windows[index]].prefill,
            PrefillAttentionArgs {
                query: step.query.slice(..tokens * query_size),
                query_stride: query_size,
                tokens,
                keys: layers[index].keys.as_view(),
                values: layers[index].values.as_view(),
                layout: *layout,
                block_table: inputs.block_table(),
                table_width: inputs.table_width(),
                slots: inputs.slots(),
                query_starts: inputs.query_starts(),
                context: inputs.context(),
                scale: score_scale(config),
                sinks: None,
                output: step.attended.slice_mut(..tokens * query_size),
                lse: None,
            },
        )
    }

    /// The attention of a step in which every sequence has one token, by the kernel that is made for it.
    fn attend_split(&self, state: &mut CudaState, shape: StepShape, index: usize) -> Launched {
        let config = &self.config;
        let (sequences, query_size) = (shape.sequences, config.query_size());
        let CudaState { layers, layout, attention, splits, inputs, step, .. } = state;
        let (Some(kernel), Some(splits)) = (&attention[&config.windows[index]].decode, splits) else {
            unreachable!("a state has the kernel that its model was loaded with");
        };
        self.device.paged_decode_attention(
            kernel,
            DecodeAttentionArgs {
                query: step.query.slice(..sequences * query_size),
                keys: layers[index].keys.as_view(),
                values: layers[index].values.as_view(),
                layout: *layout,
                block_table: inputs.block_table(),
                table_width: inputs.table_width(),
                slots: inputs.slots(),
                context: inputs.context(),
                max_context: shape.max_context,
                scale: score_scale(config),
                sinks: None,
                output: step.attended.slice_mut(..sequences * query_size),
                lse: splits.lse.slice_mut(..sequences * config.heads),
                workspace: &mut splits.workspace,
            },
        )
    }

    /// The products of the rows of `input`, with the bias where there is one.
    fn linear(
        &self,
        rows: usize,
        linear: &DeviceLinear,
        input: &CudaSlice<u16>,
        output: &mut CudaSlice<u16>,
    ) -> Launched {
        let output = FloatsMut::Bf16(output.slice_mut(..rows * linear.size.0));
        let matrix = (linear.weight.as_ref(), linear.size);
        let bias = linear.bias.as_ref().map(CudaSlice::as_view);
        self.kernels.products.launch(&self.device, rows, matrix, bias, input, output)
    }

    /// Launches the logits of those of the step's tokens that are `wanted` among the ones which the inputs name.
    fn logits(&self, state: &mut CudaState, tokens: usize, wanted: &Range<usize>) -> Launched {
        let (config, count) = (&self.config, wanted.len());
        let (width, columns) = (config.hidden_size, config.vocab_size);
        let CudaState { step, inputs, .. } = state;
        self.device.gather_rows(
            &self.kernels.gather,
            GatherRowsArgs {
                table: rows(step.normed.slice(..tokens * width), width),
                table_rows: tokens,
                rows: RowNumbers::I32(inputs.wanted(wanted)),
                output: rows_mut(step.wanted.slice_mut(..count * width), width),
            },
        )?;
        let output = FloatsMut::F32(step.logits.slice_mut(..count * columns));
        let head = (self.weights.head(), (columns, width));
        self.kernels.products.launch(&self.device, count, head, None, &step.wanted, output)
    }

    /// Waits for the step and gives the logits of its first `count` tokens.
    fn read_logits<'a>(&self, state: &'a mut CudaState, count: usize) -> Launched<&'a [f32]> {
        state.logits.read(&self.device, &state.step.logits.slice(..count * self.config.vocab_size))
    }
}

/// What attention multiplies scores by.
fn score_scale(config: &ModelConfig) -> f32 {
    1.0 / (config.head_dim as f32).sqrt()
}
