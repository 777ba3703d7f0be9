//! Rules of the stand-in engine.

use kitbag::Facts;

use crate::{Attention, Dtype, Strategy};

pub(crate) fn either(own: Option<Attention>, base: Attention) -> Attention {
    own.unwrap_or(base)
}

pub(crate) fn linear(facts: &Facts) -> Attention {
    if facts.cpus() >= 64 { Attention::Fa3 } else { Attention::Triton }
}

pub(crate) fn running(facts: &Facts) -> usize {
    8 * facts.cpus()
}

pub(crate) fn kv_dtype(dtype: Dtype) -> Dtype {
    dtype
}

pub(crate) fn page_size(kv_dtype: Dtype) -> usize {
    match kv_dtype {
        Dtype::Bf16 => 16,
        Dtype::Fp8 => 32,
    }
}

pub(crate) fn chunk_per_rank(chunk: usize, attn_dp: usize) -> usize {
    chunk / attn_dp
}

pub(crate) fn extra_buffer(radix_cache: bool, strategy: Strategy) -> bool {
    radix_cache && strategy == Strategy::ExtraBuffer
}

pub(crate) fn prefill_buffer(chunk: usize, max_prefill: usize, pp: usize) -> usize {
    if pp > 1 && chunk > 0 { chunk.max(max_prefill).max((chunk * 5).div_ceil(4)) } else { chunk }
}

pub(crate) fn attn_tp(tp: usize, attn_dp: usize, attn_cp: usize) -> usize {
    tp / attn_dp / attn_cp
}

pub(crate) fn moe_tp(tp: usize, ep: usize, moe_dp: usize) -> usize {
    tp / ep / moe_dp
}

pub(crate) fn launch_world(join_offset: usize, tp: usize, pp: usize) -> usize {
    join_offset + tp * pp
}

pub(crate) fn max_world(max_ep: Option<usize>, launch_world: usize) -> usize {
    max_ep.unwrap_or(launch_world)
}

pub(crate) fn width(steps: usize) -> usize {
    steps + 1
}

pub(crate) fn capacity(steps: usize, candidates: &[usize]) -> usize {
    candidates.iter().copied().fold(steps, usize::max) + 1
}

pub(crate) fn chunk_fits(chunk: usize, max_tokens: usize) -> Result<(), String> {
    if chunk <= max_tokens { Ok(()) } else { Err("a chunk is larger than the cache".to_owned()) }
}

pub(crate) fn buffers_fit(width: usize, capacity: usize) -> Result<(), String> {
    if width <= capacity { Ok(()) } else { Err(format!("buffers hold {capacity} draft tokens")) }
}

/// Every violation at once, each with its numbers.
pub(crate) fn topology(tp: usize, attn_dp: usize, attn_cp: usize, ep: usize, moe_dp: usize) -> Result<(), String> {
    let mut wrong = Vec::new();
    if !tp.is_multiple_of(attn_dp * attn_cp) {
        wrong.push(format!("{tp} ranks are no multiple of {attn_dp} x {attn_cp} attention ranks"));
    }
    if !tp.is_multiple_of(ep * moe_dp) {
        wrong.push(format!("{tp} ranks are no multiple of {ep} x {moe_dp} expert ranks"));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}
