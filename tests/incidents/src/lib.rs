//! A stand-in for the settings of a serving engine, as small as the incidents allow; their tests share it.

mod draft;
mod rules;

pub use draft::draft_of;
use kitbag::{ConfigChoice, ConfigNamespaces};
use rules::{
    attn_tp, buffers_fit, capacity, chunk_fits, chunk_per_rank, either, extra_buffer, kv_dtype, launch_world, linear,
    max_world, moe_tp, page_size, prefill_buffer, running, topology, width,
};

/// How weights are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ConfigChoice)]
pub enum LoadFormat {
    /// Told by the files.
    Auto,
    /// Random values.
    Dummy,
    /// From another instance.
    Remote,
}

/// Number formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ConfigChoice)]
pub enum Dtype {
    /// 16 bits.
    Bf16,
    /// 8 bits.
    Fp8,
}

/// Attention kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ConfigChoice)]
pub enum Attention {
    /// One.
    Fa3,
    /// Another.
    Triton,
}

/// What the cache keeps beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ConfigChoice)]
pub enum Strategy {
    /// Nothing.
    NoBuffer,
    /// A buffer.
    ExtraBuffer,
}

/// The stand-in engine.
#[expect(clippy::struct_excessive_bools, reason = "a flat schema has as many switches as the program")]
#[derive(ConfigNamespaces)]
#[config(
    env = "INCIDENT",
    derived(
        exec.attention.for_prefill: Attention = either(exec.attention.prefill, exec.attention.base),
        exec.attention.for_decode: Attention = either(exec.attention.decode, exec.attention.base),
        memory.extra_buffer: bool = extra_buffer(memory.radix_cache, memory.strategy),
        parallel.attn_tp: usize = attn_tp(parallel.tp, parallel.attn_dp, parallel.attn_cp),
        parallel.moe_tp: usize = moe_tp(parallel.tp, parallel.ep, parallel.moe_dp),
        parallel.launch_world: usize = launch_world(parallel.join_offset, parallel.tp, parallel.pp),
        parallel.max_world: usize = max_world(parallel.max_ep, parallel.launch_world),
        /// Tokens prefilled at once on one rank of data-parallel attention.
        #[cases(parallel.tp = [8], parallel.attn_dp = [1, 2, 8])]
        schedule.chunk_per_rank: usize = chunk_per_rank(schedule.chunk, parallel.attn_dp),
        schedule.prefill_buffer: usize = prefill_buffer(schedule.chunk, schedule.max_prefill, parallel.pp),
        /// Tokens of a draft step at present.
        spec.width: usize = width(spec.steps),
        /// Tokens of a draft step that buffers must hold.
        at_launch spec.capacity: usize = capacity(spec.steps, spec.candidates),
    ),
    validate(
        chunk_fits(schedule.chunk, schedule.max_tokens),
        topology(parallel.tp, parallel.attn_dp, parallel.attn_cp, parallel.ep, parallel.moe_dp),
        buffers_fit(spec.width, spec.capacity),
    ),
    retired(parallel.world_size = "it meant two things; give parallel.tp and parallel.pp, or parallel.max_ep"),
)]
pub struct Engine {
    /// Weights.
    #[config(ns = "model", default = "tiny")]
    path: String,
    /// How the weights are read.
    #[config(ns = "model", default = LoadFormat::Auto)]
    load_format: LoadFormat,
    /// Number format of the weights; the checkpoint decides.
    #[config(ns = "model", default = Dtype::Bf16, load_time)]
    dtype: Dtype,
    /// Number format of the key-value cache; that of the weights unless set.
    #[config(ns = "model", auto = kv_dtype(model.dtype), load_time)]
    kv_dtype: Dtype,
    /// Version of the weights in use.
    #[config(ns = "model", default = "1", flag = "weight-version", hot)]
    version: String,

    /// Whether shared experts are fused with the others; the checkpoint decides.
    #[config(ns = "exec.moe", default = true, load_time)]
    fused: bool,
    /// Attention kernel where nothing else is said.
    #[config(ns = "exec.attention", default = Attention::Triton, resolution_only)]
    base: Attention,
    /// Attention kernel of prefill.
    #[config(ns = "exec.attention", resolution_only)]
    prefill: Option<Attention>,
    /// Attention kernel of decode.
    #[config(ns = "exec.attention", resolution_only)]
    decode: Option<Attention>,
    /// Kernel of linear attention; chosen by the machine unless set.
    #[config(ns = "exec.linear", auto = linear(facts))]
    kernel: Attention,

    /// Tokens in a page; chosen by the number format of the cache unless set.
    #[config(ns = "schedule", auto = page_size(model.kv_dtype), range = 1..=256, alias = "schedule.page")]
    page_size: usize,
    /// Tokens prefilled at once.
    #[config(ns = "schedule", default = 2048, range = 0..=65536, hot)]
    chunk: usize,
    /// Tokens prefilled in one batch.
    #[config(ns = "schedule", default = 16384, hot)]
    max_prefill: usize,
    /// Tokens that fit in the cache.
    #[config(ns = "schedule", default = 65536, range = 1.., load_time)]
    max_tokens: usize,
    /// Requests that run at once; by the number of CPUs unless set.
    #[config(ns = "schedule", auto = running(facts))]
    running: usize,
    /// Whether prefixes are cached in chunks; a model may forbid it.
    #[config(ns = "schedule", default = true, load_time)]
    chunked_prefix: bool,

    /// Keep prefixes.
    #[config(ns = "memory", default = true)]
    radix_cache: bool,
    /// What the cache keeps beside it.
    #[config(ns = "memory", default = Strategy::NoBuffer, hot)]
    strategy: Strategy,

    /// Width of tensor parallelism.
    #[config(ns = "parallel", default = 1, range = 1..=64)]
    tp: usize,
    /// Stages.
    #[config(ns = "parallel", default = 1, range = 1..=16)]
    pp: usize,
    /// Width of data-parallel attention.
    #[config(ns = "parallel", default = 1, range = 1..=64)]
    attn_dp: usize,
    /// Width of context-parallel attention.
    #[config(ns = "parallel", default = 1, range = 1..=64)]
    attn_cp: usize,
    /// Width of expert parallelism.
    #[config(ns = "parallel", default = 1, range = 1..=64)]
    ep: usize,
    /// Width of data-parallel experts.
    #[config(ns = "parallel", default = 1, range = 1..=64)]
    moe_dp: usize,
    /// Ranks that were there before this process joined.
    #[config(ns = "parallel", default = 0, range = 0..=64)]
    join_offset: usize,
    /// Ranks there may ever be.
    #[config(ns = "parallel")]
    max_ep: Option<usize>,

    /// How the draft's weights are read, if not as the target's.
    #[config(ns = "spec")]
    draft_load_format: Option<LoadFormat>,
    /// Number format of the draft's cache, if not the target's.
    #[config(ns = "spec")]
    draft_kv_dtype: Option<Dtype>,
    /// Steps of the draft.
    #[config(ns = "spec", default = 1, range = 1..=16, hot)]
    steps: usize,
    /// Steps that are tried while running.
    #[config(ns = "spec", default = "1")]
    candidates: Vec<usize>,

    /// Accept adapters.
    #[config(ns = "lora", default = false)]
    enabled: bool,
    /// Adapters loaded, in order.
    #[config(ns = "lora", default = "", hot)]
    adapters: Vec<String>,

    /// Port to listen on.
    #[config(ns = "serving", default = 30000)]
    port: u16,
    /// Parser of tool calls.
    #[config(ns = "serving", default = "auto", load_time)]
    parser: String,
}
