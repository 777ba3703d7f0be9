//! What a model on a device needs besides its weights, by the sizes of its runner.

use std::collections::BTreeMap;
use std::sync::Arc;

use kernels::cuda::{
    AttentionRules, CudaDevice, CudaError, CudaSlice, DecodeAttention, DecodeAttentionShape, DecodeWorkspace, KvLayout,
    PrefillAttention, PrefillAttentionShape, Program, Readback, RopeKvWrite, RopeKvWriteShape, Staging, rope_turns,
};

use super::experts::{self, ExpertBuffers};
use super::graphs::{DecodeGraphs, GraphUse};
use super::inputs::{self, StepInputs};
use super::kernels::{attention_shape, experts_in_use, qkv_width, rope_shape};
use super::room::Room;
use super::{CudaChoices, DecodeKernel, ELEMENT, LOGIT_ROWS};
use crate::error::Result;
use crate::model::attention::split_shape;
use crate::model::config::ModelConfig;

/// The sizes of a runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaSizes {
    /// Tokens per page, a power of two.
    pub page_size: usize,
    /// Pages for the keys and values of all sequences.
    pub pages: usize,
    /// The most tokens of a step.
    pub step_tokens: usize,
    /// The most sequences of a step.
    pub sequences: usize,
    /// The longest sequence.
    pub context_length: usize,
}

/// Pools of keys and values, room for the numbers of a step, and the kernels that know the size of a page.
pub struct CudaState {
    pub(super) layers: Vec<PoolLayer>,
    pub(super) layout: KvLayout,
    pub(super) rope: RopeKvWrite,
    /// By sliding window.
    pub(super) attention: BTreeMap<Option<usize>, Attention>,
    /// Where contexts are divided.
    pub(super) splits: Option<Splits>,
    /// Cosines and sines of all positions.
    pub(super) turns: CudaSlice<f32>,
    pub(super) inputs: StepInputs,
    pub(super) step: StepBuffers,
    /// Those of the step, on the host.
    pub(super) logits: Readback<f32>,
    pub(super) graphs: DecodeGraphs,
    /// Tells models apart: captured steps have the addresses of one's weights.
    pub(super) model: Arc<()>,
    pub(super) sizes: CudaSizes,
    bytes: usize,
}

/// The keys and values of a layer.
pub(super) struct PoolLayer {
    pub(super) keys: CudaSlice<u16>,
    pub(super) values: CudaSlice<u16>,
}

/// The kernels of attention with one window.
pub(super) struct Attention {
    pub(super) prefill: PrefillAttention,
    /// For single tokens, where these have a kernel of their own.
    pub(super) decode: Option<DecodeAttention>,
}

/// What a kernel that divides contexts writes besides its result.
pub(super) struct Splits {
    pub(super) workspace: DecodeWorkspace,
    /// `[sequences, heads]`
    pub(super) lse: CudaSlice<f32>,
}

/// The numbers of a step, each with room for the longest.
pub(super) struct StepBuffers {
    /// The residual stream.
    pub(super) hidden: CudaSlice<u16>,
    pub(super) normed: CudaSlice<u16>,
    pub(super) qkv: CudaSlice<u16>,
    pub(super) query: CudaSlice<u16>,
    pub(super) attended: CudaSlice<u16>,
    /// What is added to the residual stream next.
    pub(super) update: CudaSlice<u16>,
    pub(super) gate_up: CudaSlice<u16>,
    pub(super) activated: CudaSlice<u16>,
    pub(super) wanted: CudaSlice<u16>,
    pub(super) logits: CudaSlice<f32>,
    pub(super) experts: Option<ExpertBuffers>,
}

/// Elements of each of these that are kept in 16 bits.
fn step_elements(config: &ModelConfig, tokens: usize) -> [usize; 9] {
    let (hidden, inner) = (tokens * config.hidden_size, tokens * config.intermediate_size);
    let query = tokens * config.query_size();
    let wanted = LOGIT_ROWS.min(tokens) * config.hidden_size;
    [hidden, hidden, tokens * qkv_width(config), query, query, hidden, 2 * inner, inner, wanted]
}

/// Logits of a step that there is room for.
fn logit_elements(config: &ModelConfig, tokens: usize) -> usize {
    LOGIT_ROWS.min(tokens) * config.vocab_size
}

/// Bytes of the numbers of a step.
pub(super) fn step_bytes(config: &ModelConfig, sizes: CudaSizes, decode: DecodeKernel) -> usize {
    let tokens = sizes.step_tokens;
    let of_experts = experts_in_use(config).map_or(0, |experts| experts::step_bytes(config, experts, tokens));
    let of_splits = match decode {
        DecodeKernel::Paged => 0,
        DecodeKernel::SplitKv { tokens } => split_bytes(config, sizes, tokens),
    };
    let of_logits = logit_elements(config, tokens) * size_of::<f32>();
    let of_step = step_elements(config, tokens).iter().sum::<usize>() * ELEMENT;
    of_step + of_logits + inputs::bytes(sizes) + of_experts + of_splits
}

/// Bytes of [`Splits`].
fn split_bytes(config: &ModelConfig, sizes: CudaSizes, split_tokens: usize) -> usize {
    let shape = split_shape(config, sizes.page_size, split_tokens);
    let rows = sizes.sequences * config.heads;
    (shape.workspace_elements(sizes.sequences, sizes.context_length) + rows) * size_of::<f32>()
}

/// Bytes of the cosines and sines of all positions.
pub(super) fn turns_bytes(config: &ModelConfig, context_length: usize) -> usize {
    context_length * config.head_dim * size_of::<f32>()
}

impl StepBuffers {
    fn new(device: &CudaDevice, config: &ModelConfig, tokens: usize) -> Result<Self> {
        let [hidden, normed, qkv, query, attended, update, gate_up, activated, wanted] =
            step_elements(config, tokens).map(|elements| device.zeros(elements));
        Ok(Self {
            hidden: hidden?,
            normed: normed?,
            qkv: qkv?,
            query: query?,
            attended: attended?,
            update: update?,
            gate_up: gate_up?,
            activated: activated?,
            wanted: wanted?,
            logits: device.zeros(logit_elements(config, tokens))?,
            experts: match experts_in_use(config) {
                Some(experts) => Some(ExpertBuffers::new(device, config, experts, tokens)?),
                None => None,
            },
        })
    }
}

impl Splits {
    fn new(device: &CudaDevice, config: &ModelConfig, sizes: CudaSizes, split_tokens: usize) -> Result<Self> {
        let shape = split_shape(config, sizes.page_size, split_tokens);
        Ok(Self {
            workspace: DecodeWorkspace::new(device, &shape, sizes.sequences, sizes.context_length)?,
            lse: device.zeros(sizes.sequences * config.heads)?,
        })
    }
}

/// Puts many numbers on the device.
fn upload(device: &CudaDevice, numbers: &[f32]) -> std::result::Result<CudaSlice<f32>, CudaError> {
    const PART: usize = 1 << 20;
    Staging::new(device, PART.min(numbers.len()))?.copy(device, numbers)
}

/// What the kernels that know the size of a page are compiled for: rotation with the write of keys and values, and attention
/// by sliding window.
struct Shapes {
    rope: RopeKvWriteShape,
    attention: BTreeMap<Option<usize>, AttentionShapes>,
}

/// What the kernels of attention with one window are compiled for.
struct AttentionShapes {
    rules: AttentionRules,
    prefill: PrefillAttentionShape,
    decode: Option<DecodeAttentionShape>,
}

impl Shapes {
    fn of(config: &ModelConfig, (page_size, decode): (usize, DecodeKernel)) -> Self {
        let attention = |&window: &Option<usize>| {
            let shapes = AttentionShapes {
                rules: AttentionRules { window, ..AttentionRules::default() },
                prefill: attention_shape(config, page_size),
                decode: match decode {
                    DecodeKernel::Paged => None,
                    DecodeKernel::SplitKv { tokens } => Some(split_shape(config, page_size, tokens)),
                },
            };
            (window, shapes)
        };
        Self { rope: rope_shape(config, page_size), attention: config.windows.iter().map(attention).collect() }
    }
}

/// What [`compile`] compiles.
pub(super) fn programs(
    config: &ModelConfig,
    choices: (usize, DecodeKernel),
) -> std::result::Result<Vec<Program>, CudaError> {
    let Shapes { rope, attention } = Shapes::of(config, choices);
    let mut programs = vec![RopeKvWrite::program(rope, RopeKvWrite::SOURCE)?];
    for AttentionShapes { rules, prefill, decode } in attention.into_values() {
        programs.push(PrefillAttention::program(prefill, rules, PrefillAttention::SOURCE)?);
        if let Some(decode) = decode {
            // What merges splits is the same for every window.
            let decode = DecodeAttention::programs(decode, rules)?;
            let others: Vec<_> = decode.into_iter().filter(|program| !programs.contains(program)).collect();
            programs.extend(others);
        }
    }
    Ok(programs)
}

/// Compiles the kernels that know the size of a page.
pub(super) fn compile(
    device: &CudaDevice,
    config: &ModelConfig,
    choices: (usize, DecodeKernel),
) -> Result<(RopeKvWrite, BTreeMap<Option<usize>, Attention>)> {
    let Shapes { rope, attention } = Shapes::of(config, choices);
    let mut kernels = BTreeMap::new();
    for (window, AttentionShapes { rules, prefill, decode }) in attention {
        let prefill = PrefillAttention::compile(device, prefill, rules)?;
        let decode = decode.map(|shape| DecodeAttention::compile(device, shape, rules)).transpose()?;
        kernels.insert(window, Attention { prefill, decode });
    }
    Ok((RopeKvWrite::compile(device, rope)?, kernels))
}

impl CudaState {
    /// How an element of a key or a value is kept.
    pub const ELEMENT: &str = "bfloat16";

    /// Takes the memory and compiles the kernels; `frequencies` are the radians that pairs of elements turn per position.
    pub(super) fn new(
        device: &CudaDevice,
        config: &ModelConfig,
        frequencies: &[f64],
        sizes: CudaSizes,
        choices: CudaChoices,
        model: Arc<()>,
    ) -> Result<Self> {
        let room = Room { config, sizes, decode: choices.decode };
        room.require(device)?;
        // What was free may have been taken by another program since.
        let built = Self::build(device, (config, frequencies), sizes, choices, model);
        built.map_err(|error| room.explain(device, error))
    }

    fn build(
        device: &CudaDevice,
        (config, frequencies): (&ModelConfig, &[f64]),
        sizes: CudaSizes,
        choices: CudaChoices,
        model: Arc<()>,
    ) -> Result<Self> {
        let decode = choices.decode;
        let shape = attention_shape(config, sizes.page_size);
        let layout = KvLayout::token_major(shape.kv(), sizes.pages);
        let pool = || device.zeros(sizes.pages * layout.page_stride);
        let mut layers = Vec::new();
        for _ in 0..config.layers {
            layers.push(PoolLayer { keys: pool()?, values: pool()? });
        }
        let (rope, attention) = compile(device, config, (sizes.page_size, decode))?;
        Ok(Self {
            layers,
            layout,
            rope,
            attention,
            splits: match decode {
                DecodeKernel::Paged => None,
                DecodeKernel::SplitKv { tokens } => Some(Splits::new(device, config, sizes, tokens)?),
            },
            inputs: StepInputs::new(device, sizes)?,
            turns: upload(device, &rope_turns(frequencies, config.rope.amplitude(), sizes.context_length))?,
            step: StepBuffers::new(device, config, sizes.step_tokens)?,
            logits: device.readback(logit_elements(config, sizes.step_tokens))?,
            graphs: DecodeGraphs::new(sizes, choices),
            model,
            sizes,
            bytes: Room { config, sizes, decode }.pools() as usize,
        })
    }

    /// The same for a model whose products are computed in the blocks of the table of this number.
    pub(super) fn with_tiles(mut self, id: u64) -> Self {
        self.graphs.set_tiles(id);
        self
    }

    /// What became of capturing the steps of single tokens.
    #[must_use]
    pub fn graph_use(&self) -> &GraphUse {
        self.graphs.report()
    }

    /// Bytes of all keys and values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
