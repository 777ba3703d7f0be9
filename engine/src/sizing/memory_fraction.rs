//! How much of a device may weights and keys and values take?
//!
//! The rest is kept for activations and prepared batches. Nothing calls this yet. It will be the rule of
//! `schedule.mem_fraction_static`, from `schedule.chunked_prefill_size`, `schedule.max_prefill_tokens`,
//! `schedule.max_running_requests`, the sizes of parallelism and the prepared batches.

use super::{GIB, MIB};
use crate::byte_text;

/// Activations are reserved for at least this many tokens.
const LEAST_TOKENS: usize = 2048;
/// The fraction of a device that does not say how much memory it has.
pub const FRACTION_OF_UNKNOWN: f64 = 0.95;

/// Whose tokens go through the model at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Prompts, in chunks of at most this many tokens.
    Chunked(usize),
    /// Prompts that are never cut, of at most this many tokens together (`max_prefill_tokens`).
    Whole(usize),
    /// Only decode, because prefill happens elsewhere.
    DecodeOnly {
        /// The most requests that run at the same time.
        running_requests: usize,
        /// Tokens of each that are verified at once; 1 without speculation.
        draft_tokens: usize,
    },
}

impl Step {
    /// Tokens whose activations are reserved: those of the step, and 2048 at least.
    #[must_use]
    pub fn activation_tokens(self) -> usize {
        let tokens = match self {
            Self::Chunked(tokens) | Self::Whole(tokens) => tokens,
            Self::DecodeOnly { running_requests, draft_tokens } => running_requests.max(1) * draft_tokens.max(1),
        };
        tokens.max(LEAST_TOKENS)
    }
}

/// What batches that are prepared in advance take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Graphs {
    /// The largest prepared decode batch, in requests; 0 without.
    pub decode_batch: usize,
    /// Groups that run attention on their own requests; `None` unless attention is data-parallel.
    pub attention_groups: Option<usize>,
    /// Prepared prefill sizes; 0 without.
    pub prefill_buckets: usize,
    /// Whether the model has latent attention.
    pub has_latent_attention: bool,
    /// Whether prefill is prepared in pieces around an exchange of experts' tokens by `DeepEP`.
    pub breaks_at_deepep: bool,
}

impl Graphs {
    /// Bytes to keep for them, from MiB: 2 for each request of the decode batch; with data-parallel attention 3 more
    /// for each request of each group, and half as much again when the batch is over 300; for prefill 8 for each
    /// bucket, or 1536 in all with latent attention; 1024 when prefill breaks at `DeepEP`.
    ///
    /// The specification can be read as if the share of data-parallel attention stood in the place of the first one; it
    /// is added here, which keeps more.
    #[must_use]
    pub fn bytes(self) -> u64 {
        let batch = self.decode_batch as u64;
        let padding = self.attention_groups.map_or(0, |groups| {
            let usual = 3 * batch * groups as u64 * MIB;
            if batch > 300 { usual * 3 / 2 } else { usual }
        });
        let prefill = match self.prefill_buckets {
            0 => 0,
            _ if self.has_latent_attention => 1536 * MIB,
            buckets => 8 * MIB * buckets as u64,
        };
        let pieces = if self.breaks_at_deepep { 1024 * MIB } else { 0 };
        2 * batch * MIB + padding + prefill + pieces
    }
}

/// What is reserved on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserve {
    /// What goes through the model at once.
    pub step: Step,
    /// Devices that share each layer.
    pub tensor_parallel: usize,
    /// Groups of layers, one after the other.
    pub pipeline_parallel: usize,
    /// Batches prepared in advance.
    pub graphs: Graphs,
    /// Whether experts' tokens are exchanged by `DeepEP`.
    pub uses_deepep: bool,
}

impl Reserve {
    /// Bytes to keep on a device of `device_bytes`.
    ///
    /// In MiB: 512 + 1.5 · tokens + tensor · pipeline / 8 · 1024 + prepared batches; 10 GiB at least on devices over 60
    /// GiB; then 2 GiB more with `DeepEP`.
    #[must_use]
    pub fn bytes(self, device_bytes: u64) -> u64 {
        let activations = self.step.activation_tokens() as u64 * MIB * 3 / 2;
        let exchange = (self.tensor_parallel * self.pipeline_parallel) as u64 * 128 * MIB;
        let sum = 512 * MIB + activations + exchange + self.graphs.bytes();
        let least = if device_bytes > 60 * GIB { 10 * GIB } else { 0 };
        sum.max(least) + if self.uses_deepep { 2 * GIB } else { 0 }
    }
}

/// A device has no room beside the reserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the device has {} of memory, and {} are kept for activations: \
     lower --chunked-prefill-size or prepare smaller batches",
    byte_text::down(*device_bytes), byte_text::up(*reserve_bytes)
)]
pub struct DeviceTooSmall {
    /// What the device has.
    pub device_bytes: u64,
    /// What would be reserved.
    pub reserve_bytes: u64,
}

/// The fraction of a device for weights and keys and values: (memory − reserve) / memory, to three digits; 0.95 when
/// the memory is not known.
pub fn memory_fraction(device_bytes: Option<u64>, reserve: Reserve) -> Result<f64, DeviceTooSmall> {
    let Some(device_bytes) = device_bytes else {
        return Ok(FRACTION_OF_UNKNOWN);
    };
    let reserve_bytes = reserve.bytes(device_bytes);
    match device_bytes.checked_sub(reserve_bytes) {
        Some(rest) if rest > 0 => {
            let (rest, whole) = (u128::from(rest), u128::from(device_bytes));
            Ok(((2000 * rest + whole) / (2 * whole)) as f64 / 1000.0)
        }
        _ => Err(DeviceTooSmall { device_bytes, reserve_bytes }),
    }
}

/// The fraction for a model that sees images: 0.95 of `fraction`, times a factor for the size of its vision part, which
/// is held between 0.8 and 1.05 (1 for 24 layers of width 1024, smaller for larger ones).
#[must_use]
pub fn fraction_with_vision(fraction: f64, factor: f64) -> f64 {
    fraction * 0.95 * factor.clamp(0.8, 1.05)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Reserve = Reserve {
        step: Step::Chunked(2048),
        tensor_parallel: 1,
        pipeline_parallel: 1,
        graphs: Graphs {
            decode_batch: 0,
            attention_groups: None,
            prefill_buckets: 0,
            has_latent_attention: false,
            breaks_at_deepep: false,
        },
        uses_deepep: false,
    };

    fn graphs(decode_batch: usize) -> Graphs {
        Graphs { decode_batch, ..Graphs::default() }
    }

    #[test]
    fn a_step_counts_2048_tokens_at_least() {
        let decode = |running_requests, draft_tokens| Step::DecodeOnly { running_requests, draft_tokens };
        let table = [
            (Step::Chunked(8192), 8192),
            (Step::Chunked(512), 2048),
            (Step::Whole(16_384), 16_384),
            (Step::Whole(1024), 2048),
            (decode(32, 1), 2048),
            (decode(0, 0), 2048),
            (decode(1024, 4), 4096),
            (decode(0, 2049), 2049),
            (decode(2049, 0), 2049),
        ];
        for (step, tokens) in table {
            assert_eq!(step.activation_tokens(), tokens, "{step:?}");
        }
    }

    #[test]
    fn prepared_batches_by_hand() {
        let table = [
            (graphs(0), 0),
            (graphs(256), 512),
            // 2 · 256 + 3 · 256 · 8
            (Graphs { attention_groups: Some(8), ..graphs(256) }, 512 + 6144),
            (Graphs { attention_groups: Some(8), ..graphs(300) }, 600 + 7200),
            // 2 · 301 + 1.5 · 3 · 301 · 8
            (Graphs { attention_groups: Some(8), ..graphs(301) }, 602 + 10_836),
            // 2 · 512 + 1.5 · 3 · 512 · 8
            (Graphs { attention_groups: Some(8), ..graphs(512) }, 1024 + 18_432),
            (Graphs { prefill_buckets: 58, ..graphs(8) }, 16 + 464),
            (Graphs { prefill_buckets: 58, has_latent_attention: true, ..graphs(8) }, 16 + 1536),
            (Graphs { has_latent_attention: true, ..graphs(8) }, 16),
            (Graphs { breaks_at_deepep: true, ..graphs(8) }, 16 + 1024),
        ];
        for (graphs, mib) in table {
            assert_eq!(graphs.bytes(), mib * MIB, "{graphs:?}");
        }
    }

    #[test]
    fn fractions_by_hand() {
        let of = |gib: u64, chunk, parallel, batch| {
            let reserve =
                Reserve { step: Step::Chunked(chunk), tensor_parallel: parallel, graphs: graphs(batch), ..PLAIN };
            (reserve.bytes(gib * GIB) / MIB, memory_fraction(Some(gib * GIB), reserve).unwrap().to_string())
        };
        let expect = |mib, fraction: &str| (mib, fraction.to_owned());
        // 512 + 3072 + 128 + 16 of 16384: 0.7724…
        assert_eq!(of(16, 2048, 1, 8), expect(3728, "0.772"));
        // 512 + 12288 + 128 + 512 of 81920: 0.8359…
        assert_eq!(of(80, 8192, 1, 256), expect(13_440, "0.836"));
        // 512 + 12288 + 1024 + 1024 of 144384: 0.8971…
        assert_eq!(of(141, 8192, 8, 512), expect(14_848, "0.897"));
        // 512 + 24576 + 1024 + 1024 of 196608: 0.8619…
        assert_eq!(of(192, 16_384, 8, 512), expect(27_136, "0.862"));
        // 10240 of 81920, although 3728 would do; not so at 60 GiB, 3728 of 61440: 0.9393…
        assert_eq!(of(80, 2048, 1, 8), expect(10_240, "0.875"));
        assert_eq!(of(60, 2048, 1, 8), expect(3728, "0.939"));
        // 10240 of 62464: 0.8360…
        assert_eq!(of(61, 2048, 1, 8), expect(10_240, "0.836"));
        let deepep = Reserve { uses_deepep: true, ..PLAIN };
        assert_eq!(memory_fraction(Some(80 * GIB), deepep).unwrap().to_string(), "0.85");
        assert_eq!(memory_fraction(None, deepep).unwrap().to_string(), "0.95");
    }

    #[test]
    fn pipeline_and_tensor_parallelism_count_alike() {
        let two = |tensor_parallel, pipeline_parallel| Reserve { tensor_parallel, pipeline_parallel, ..PLAIN };
        // 512 + 3072 + 16 / 8 · 1024
        assert_eq!(two(8, 2).bytes(16 * GIB), 5632 * MIB);
        assert_eq!(two(2, 8).bytes(16 * GIB), 5632 * MIB);
    }

    #[test]
    fn no_room_is_said_with_numbers() {
        let error = memory_fraction(Some(3 * GIB), PLAIN).unwrap_err();
        assert!(error.to_string().starts_with("the device has 3072 MiB of memory, and 3712 MiB are kept"), "{error}");
        assert!(memory_fraction(Some(3712 * MIB), PLAIN).is_err());
        assert!(memory_fraction(Some(3713 * MIB), PLAIN).is_ok());
    }

    #[test]
    fn vision_is_held_between_its_ends() {
        for (factor, expected) in [(1.0, 0.76), (0.1, 0.608), (9.0, 0.798)] {
            assert!((fraction_with_vision(0.8, factor) - expected).abs() < 1e-9, "{factor}");
        }
    }

    #[test]
    fn more_tokens_and_devices_never_raise_the_fraction() {
        let fraction = |chunk, parallel, batch| {
            let reserve =
                Reserve { step: Step::Chunked(chunk), tensor_parallel: parallel, graphs: graphs(batch), ..PLAIN };
            memory_fraction(Some(80 * GIB), reserve).unwrap()
        };
        for chunk in (0..16_384).step_by(512) {
            for parallel in 1..=8 {
                for batch in [0, 8, 256, 300, 301, 512] {
                    let here = fraction(chunk, parallel, batch);
                    assert!(here >= fraction(chunk + 512, parallel, batch));
                    assert!(here >= fraction(chunk, parallel + 1, batch));
                    assert!(here >= fraction(chunk, parallel, batch + 1));
                }
            }
        }
    }
}
