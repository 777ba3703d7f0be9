//! Written by `python3 tests/scale/generate.py`; edit that or `fields.tsv`, and run it again.

use std::path::PathBuf;

use kitbag::ConfigNamespaces;

use crate::choices::{
    DecoupledSpecRole, DisaggregationDecodeAllocationPolicy, DisaggregationDecodeRetractionBackup, DisaggregationRole,
    DisaggregationTransferBackend, EncoderTransferBackend,
};

/// Prefill, decode and encoding in engines of their own.
#[derive(ConfigNamespaces)]
#[config(ns = "disagg")]
pub struct Disagg {
    /// Inbound ZMQ address when drafter and verifier are separate engines.
    decoupled_spec_bind_endpoint: Option<String>,
    /// Peer inbound addresses, ordered by peer rank.
    decoupled_spec_connect_endpoints: Option<Vec<String>>,
    /// Rank of this engine among engines of the same spec role.
    decoupled_spec_rank: Option<usize>,
    /// Null / verifier / drafter half of split speculative decoding.
    #[config(default = DecoupledSpecRole::Null)]
    decoupled_spec_role: DecoupledSpecRole,
    /// Null, prefill-only or decode-only engine in a PD deployment.
    #[config(default = DisaggregationRole::Null, hot)]
    disaggregation_mode: DisaggregationRole,
    /// Moment at which decode-side KV is reserved for a request.
    #[config(default = DisaggregationDecodeAllocationPolicy::Early)]
    disaggregation_decode_allocation_policy: DisaggregationDecodeAllocationPolicy,
    /// Transport that moves KV between prefill and decode.
    #[config(default = DisaggregationTransferBackend::Mooncake)]
    disaggregation_transfer_backend: DisaggregationTransferBackend,
    /// Adler-32 over KV pages, verified on the decode side.
    #[config(default = false)]
    disaggregation_enable_kv_checksum: bool,
    /// Port of the prefill-side bootstrap service.
    #[config(default = 8998)]
    disaggregation_bootstrap_port: u16,
    /// `InfiniBand` NIC selection for KV transfer.
    disaggregation_ib_device: Option<String>,
    /// Keep a prefix cache on decode engines too.
    #[config(default = false)]
    disaggregation_decode_enable_radix_cache: bool,
    /// Asynchronously offload decode KV to host.
    #[config(default = false)]
    disaggregation_decode_enable_offload_kvcache: bool,
    /// Where KV of retracted decode requests is parked.
    #[config(hot)]
    disaggregation_decode_retraction_backup: Option<DisaggregationDecodeRetractionBackup>,
    /// Decode tokens reserved per newly admitted request.
    #[config(default = 512)]
    num_reserved_decode_tokens: usize,
    /// Extra request slots for transfers in flight on decode.
    disaggregation_decode_extra_slots: Option<usize>,
    /// Scheduler passes between transfer polls on decode.
    #[config(default = 1)]
    disaggregation_decode_polling_interval: usize,
    /// Allow flipping prefill/decode role at run time.
    #[config(default = false)]
    enable_pd_role_switch: bool,
    /// Prefill passes allowed before bootstrap completes.
    #[config(default = 0)]
    optimistic_prefill_attempts: usize,
    /// Run only the multimodal encoder.
    #[config(default = false)]
    encoder_only: bool,
    /// Load only the language weights of a VLM.
    #[config(default = false)]
    language_only: bool,
    /// Never build the vision tower at all.
    #[config(default = false)]
    language_model_only: bool,
    /// Transport for encoder output; auto depends on arch and TP.
    #[config(default = EncoderTransferBackend::Auto)]
    encoder_transfer_backend: EncoderTransferBackend,
    /// Addresses of encoder servers.
    #[config(default = "")]
    encoder_urls: Vec<String>,
    /// Port where encoders register with the language-only tokenizer.
    #[config(default = 8997)]
    encoder_bootstrap_port: u16,
    /// Bootstrap `URLs` this encoder announces itself to.
    #[config(default = "")]
    encoder_register_urls: Vec<String>,
    /// Send multi-image requests remote, single-image ones local.
    #[config(default = false)]
    enable_adaptive_dispatch_to_encoder: bool,
    /// Multiplex prefill and decode on one GPU via green contexts.
    #[config(default = false)]
    enable_pdmux: bool,
    /// Settings file for PD multiplexing.
    pdmux_config_path: Option<PathBuf>,
    /// Number of SM partitions for PD multiplexing.
    #[config(default = 8)]
    sm_group_num: usize,
    /// Device KV occupancy above which received KV lands in host pool.
    #[config(default = 1.0)]
    disaggregation_decode_host_receive_threshold: f64,
}
