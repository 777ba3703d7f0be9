//! Functions behind derived values. Each says what follows from settings, and nothing else.

use std::collections::BTreeMap;

use kitbag::{ByteSize, ConfigChoice};

use crate::choices::{
    AttentionBackend, DisaggregationRole, EpJoinMode, LoadFormat, MambaRadixCacheStrategy,
    RemoteInstanceWeightLoaderBackend, StartupWeightLoadMode,
};

/// How shared experts run.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum SharedExperts {
    /// In the same kernel as routed ones.
    Fused,
    /// On their own.
    Separate,
}

/// Ranks that share the work of an attention head.
#[must_use]
pub fn attn_tp_size(tp: usize, attn_dp: usize, attn_cp: usize) -> usize {
    tp / attn_dp / attn_cp
}

/// Whether attention takes requests per rank: it does in a process that joins to widen the engine, too.
#[must_use]
pub fn attn_dp_enabled(attn_dp: usize, scale_joiner: bool) -> bool {
    attn_dp > 1 || scale_joiner
}

/// Ranks that take requests of their own.
#[must_use]
pub fn num_dp_ranks(dp: usize, attn_dp: usize) -> usize {
    dp * attn_dp
}

/// Width of decode context parallelism as attention sees it.
#[must_use]
pub fn attn_dcp_size(dcp: usize) -> usize {
    if dcp_enabled(dcp) { dcp } else { 1 }
}

/// Whether decode context parallelism is on.
#[must_use]
pub fn dcp_enabled(dcp: usize) -> bool {
    dcp > 1
}

/// Width of expert parallelism.
#[must_use]
pub fn moe_ep_size(ep: usize) -> usize {
    ep
}

/// Ranks that share one expert.
#[must_use]
pub fn moe_tp_size(tp: usize, ep: usize, moe_dp: usize) -> usize {
    tp / ep / moe_dp
}

/// Ranks at launch, those of the engine joined included.
#[must_use]
pub fn launch_world_size(join_offset: usize, tp: usize, pp: usize) -> usize {
    join_offset + tp * pp
}

/// Ranks there may ever be.
#[must_use]
pub fn max_world_size(max_ep: Option<usize>, launch_world: usize) -> usize {
    max_ep.unwrap_or(launch_world)
}

/// Whether state-space layers keep an extra buffer: only for the prefix cache.
#[must_use]
pub fn mamba_extra_buffer(disable_radix_cache: bool, strategy: MambaRadixCacheStrategy) -> bool {
    use MambaRadixCacheStrategy::{ExtraBuffer, ExtraBufferLazy};
    !disable_radix_cache && matches!(strategy, ExtraBuffer | ExtraBufferLazy)
}

/// Whether that buffer is filled lazily.
#[must_use]
pub fn mamba_extra_buffer_lazy(disable_radix_cache: bool, strategy: MambaRadixCacheStrategy) -> bool {
    !disable_radix_cache && strategy == MambaRadixCacheStrategy::ExtraBufferLazy
}

/// Whether this process joins a running engine.
#[must_use]
pub fn is_ep_joiner(mode: Option<EpJoinMode>) -> bool {
    mode.is_some()
}

/// Whether it joins to widen the engine.
#[must_use]
pub fn is_ep_scale_joiner(mode: Option<EpJoinMode>) -> bool {
    mode == Some(EpJoinMode::Scale)
}

/// Whether weights load while the engine starts.
#[must_use]
pub fn is_startup_weight_load_overlap(mode: StartupWeightLoadMode) -> bool {
    mode == StartupWeightLoadMode::Overlap
}

/// How shared experts run unless the model says otherwise.
#[must_use]
pub fn shared_experts(disable_fusion: bool) -> SharedExperts {
    if disable_fusion { SharedExperts::Separate } else { SharedExperts::Fused }
}

/// Draft tokens that buffers are built for: the width asked for, and one more than the most steps that adaptive
/// drafting may take.
#[must_use]
pub fn max_speculative_num_draft_tokens(
    draft_tokens: Option<usize>,
    adaptive: bool,
    candidate_steps: Option<&[usize]>,
) -> Option<usize> {
    let most = candidate_steps.filter(|_| adaptive).and_then(|steps| steps.iter().max());
    draft_tokens.max(most.map(|steps| steps + 1))
}

/// Tokens that a prefill buffer holds: a chunk, or what a chunk may grow to when its size follows the pipeline.
#[must_use]
pub fn max_prefill_buffer_tokens(chunk: Option<i64>, dynamic: bool, max_prefill: usize, pp: usize) -> usize {
    let base = chunk.and_then(|chunk| usize::try_from(chunk).ok()).unwrap_or(0);
    if !dynamic || pp == 1 || base == 0 {
        return base;
    }
    // A quarter more, rounded up.
    base.max(max_prefill).max((base * 5).div_ceil(4))
}

/// The attention kernels of one phase: its own choice, or the common one.
#[must_use]
pub fn attention(common: Option<AttentionBackend>, own: Option<AttentionBackend>) -> Option<AttentionBackend> {
    own.or(common)
}

/// Whether weights come from a running engine, or go to one, by the transfer engine: in an engine that offers its own,
/// and in one that loads them over that backend, or over `ModelExpress` with that transport.
#[must_use]
pub fn transfer_engine_enabled(
    is_seed: bool,
    format: LoadFormat,
    backend: RemoteInstanceWeightLoaderBackend,
    modelexpress: Option<&BTreeMap<String, String>>,
) -> bool {
    use RemoteInstanceWeightLoaderBackend::{Modelexpress, Nccl, TransferEngine};
    let transport = || modelexpress.and_then(|config| config.get("transport")).map(String::as_str);
    let takes = match backend {
        TransferEngine => true,
        Modelexpress => transport() == Some("transfer_engine"),
        Nccl => false,
    };
    is_seed || format == LoadFormat::RemoteInstance && takes
}

/// The same for the draft, which may be loaded in a format of its own.
#[must_use]
pub fn draft_transfer_engine_enabled(
    draft_format: Option<LoadFormat>,
    is_seed: bool,
    format: LoadFormat,
    backend: RemoteInstanceWeightLoaderBackend,
    modelexpress: Option<&BTreeMap<String, String>>,
) -> bool {
    transfer_engine_enabled(is_seed, draft_format.unwrap_or(format), backend, modelexpress)
}

/// Tokens that go through the model at once at most: a chunk or a whole prefill, or where prefill happens elsewhere the
/// tokens that all running requests verify.
#[must_use]
pub fn activation_tokens(
    role: DisaggregationRole,
    running: Option<usize>,
    decode_batch: Option<usize>,
    draft_tokens: Option<usize>,
    chunk: Option<i64>,
    max_prefill: usize,
) -> usize {
    let chunk = chunk.and_then(|chunk| usize::try_from(chunk).ok()).filter(|chunk| *chunk > 0);
    let tokens = match role {
        DisaggregationRole::Decode => running.or(decode_batch).unwrap_or(1).saturating_mul(draft_tokens.unwrap_or(1)),
        DisaggregationRole::Null | DisaggregationRole::Prefill => chunk.unwrap_or(max_prefill),
    };
    tokens.max(2048)
}

const MIB: u64 = 1 << 20;

/// Memory for the activations of so many tokens, and for communication between devices.
#[must_use]
pub fn activation_reserve(tokens: usize, tp: usize, pp: usize) -> ByteSize {
    // 512 MiB, 1.5 MiB for each token, and 1 GiB for each eight devices.
    let (tokens, devices) = (tokens as u64, tp.saturating_mul(pp) as u64);
    let parts = [512 * MIB, tokens.saturating_mul(MIB + MIB / 2), devices.saturating_mul(128 * MIB)];
    ByteSize(parts.into_iter().fold(0, u64::saturating_add))
}

/// What is reserved on a device once its memory is known: 10 GiB at least on one of more than 60 GiB.
#[must_use]
pub fn activation_reserve_on(reserve: ByteSize, device: Option<ByteSize>) -> ByteSize {
    let is_large = device.is_some_and(|device| device.0 > 60 * 1024 * MIB);
    if is_large { ByteSize(reserve.0.max(10 * 1024 * MIB)) } else { reserve }
}
