//! Written by `python3 tests/scale/generate.py`; edit that or `fields.tsv`, and run it again.

use kitbag::{ByteSize, ConfigNamespaces};

use crate::choices::AttentionBackend;
use crate::derived;
use crate::derived::SharedExperts;

/// An inference engine.
#[derive(ConfigNamespaces)]
#[config(
    env = "SCALE",
    derived(
        /// Attention takes requests per rank.
        #[cases(parallel.tp_size = [8], parallel.attn_dp_size = [1, 2, 8])]
        plan.attn_dp_enabled: bool = derived::attn_dp_enabled(parallel.attn_dp_size, exec.moe.is_ep_scale_joiner),
        /// State-space layers keep an extra buffer for the prefix cache.
        plan.enable_mamba_extra_buffer: bool =
            derived::mamba_extra_buffer(memory.disable_radix_cache, exec.mamba.mamba_radix_cache_strategy),
        /// That buffer is filled lazily.
        plan.enable_mamba_extra_buffer_lazy: bool =
            derived::mamba_extra_buffer_lazy(memory.disable_radix_cache, exec.mamba.mamba_radix_cache_strategy),
        /// How shared experts run unless the model says otherwise.
        plan.shared_experts: SharedExperts = derived::shared_experts(exec.moe.disable_shared_experts_fusion),
        /// Tokens that a prefill buffer holds.
        #[cases(schedule.chunked_prefill_size =
            [-1, 0, 1024, 8192], schedule.enable_dynamic_chunking = [false, true])]
        #[cases(parallel.pp_size = [1, 4], schedule.max_prefill_tokens = [0, 2048, 16384])]
        plan.max_prefill_buffer_tokens: usize = derived::max_prefill_buffer_tokens(
            schedule.chunked_prefill_size,
            schedule.enable_dynamic_chunking,
            schedule.max_prefill_tokens,
            parallel.pp_size
        ),
        /// Tokens whose activations are reserved before graphs are captured.
        plan.activation_tokens: usize = derived::activation_tokens(
            disagg.disaggregation_mode,
            schedule.max_running_requests,
            exec.graph.cuda_graph_max_bs_decode,
            spec.speculative_num_draft_tokens,
            schedule.chunked_prefill_size,
            schedule.max_prefill_tokens
        ),
        /// Memory reserved for activations, before the device is known.
        plan.activation_reserve: ByteSize =
            derived::activation_reserve(plan.activation_tokens, parallel.tp_size, parallel.pp_size),
        /// The draft's weights come or go by the transfer engine.
        plan.draft_transfer_engine_enabled: bool = derived::draft_transfer_engine_enabled(
            spec.speculative_draft_load_format,
            model.remote_instance_weight_loader_start_seed_via_transfer_engine,
            model.load_format,
            model.remote_instance_weight_loader_backend,
            model.modelexpress_config
        ),
        /// Attention kernels of prefill.
        plan.prefill_attention: Option<AttentionBackend> =
            derived::attention(exec.kernel.attention_backend, exec.kernel.prefill_attention_backend),
        /// Attention kernels of decode.
        plan.decode_attention: Option<AttentionBackend> =
            derived::attention(exec.kernel.attention_backend, exec.kernel.decode_attention_backend),
    )
)]
pub struct Args {
    /// Devices, and how the process treats them.
    #[config(nested)]
    device: crate::device::Device,
    /// Prefill, decode and encoding in engines of their own.
    #[config(nested)]
    disagg: crate::disagg::Disagg,
    /// How work runs.
    #[config(nested)]
    exec: crate::exec::Exec,
    /// Low-rank adapters.
    #[config(nested)]
    lora: crate::lora::Lora,
    /// The cache of keys and values.
    #[config(nested)]
    memory: crate::memory::Memory,
    /// Images, audio and video.
    #[config(nested)]
    mm: crate::mm::Mm,
    /// The model and how its weights are loaded.
    #[config(nested)]
    model: crate::model::Model,
    /// Logs, metrics, traces and dumps.
    #[config(nested)]
    observability: crate::observability::Observability,
    /// Widths of all kinds of parallelism, and node layout.
    #[config(nested)]
    parallel: crate::parallel::Parallel,
    /// How requests are admitted and batched.
    #[config(nested)]
    schedule: crate::schedule::Schedule,
    /// The service and its tokenizers.
    #[config(nested)]
    serving: crate::serving::Serving,
    /// Speculative decoding.
    #[config(nested)]
    spec: crate::spec::Spec,
}
