//! How many tokens and requests fit into the memory that is left?
//!
//! [`crate::memory`] asks for the tokens, for `schedule.max_total_tokens`. Fractions and requests will be the rule of
//! `schedule.mem_fraction_static` and `schedule.max_running_requests` once those exist.

use super::pages::floor_to_page;

/// Memory around the loading of a model, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Memory {
    /// Free before the weights were loaded.
    pub free_before: u64,
    /// Free after.
    pub free_after: u64,
    /// Kept for images and sound.
    pub multimodal: u64,
}

/// Nothing is left for keys and values.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum NoRoom {
    /// A larger fraction would leave some.
    #[error(
        "no memory is left for keys and values with --mem-fraction-static {fraction}: \
         {least:.3} is the least that leaves any"
    )]
    RaiseFraction {
        /// The fraction that was asked for.
        fraction: f64,
        /// The least workable one, in thousandths rounded up.
        least: f64,
    },
    /// No fraction would.
    #[error("the weights leave no memory for keys and values: take a smaller model or a larger device")]
    ModelTooLarge,
}

/// Bytes for keys and values: free after loading − free before loading · (1 − fraction) − what images and sound keep.
pub fn kv_bytes(memory: Memory, fraction: f64) -> Result<u64, NoRoom> {
    let Memory { free_before, free_after, multimodal } = memory;
    let kept = (free_before as f64 * (1.0 - fraction)).ceil() as u64;
    match free_after.checked_sub(kept.saturating_add(multimodal)) {
        Some(bytes) if bytes > 0 => Ok(bytes),
        _ => Err(no_room(memory, fraction)),
    }
}

fn no_room(Memory { free_before, free_after, multimodal }: Memory, fraction: f64) -> NoRoom {
    let usable = u128::from(free_after.saturating_sub(multimodal).min(free_before));
    let taken = u128::from(free_before) - usable;
    // The least number of thousandths that is more than the share taken.
    match (1000 * taken).checked_div(u128::from(free_before)) {
        Some(share) if share < 1000 => NoRoom::RaiseFraction { fraction, least: (share + 1) as f64 / 1000.0 },
        _ => NoRoom::ModelTooLarge,
    }
}

/// Bytes of one token's keys and values: heads · (key width + value width) · layers · bytes per element.
#[must_use]
pub fn bytes_per_token(kv_heads: u64, key_dim: u64, value_dim: u64, layers: u64, element_bytes: u64) -> u64 {
    kv_heads * (key_dim + value_dim) * layers * element_bytes
}

/// Tokens that fit into `bytes`, in whole pages. What the user allows (`max_total_tokens`) only lowers it.
///
/// # Panics
/// If a token has no bytes or a page no tokens.
#[must_use]
pub fn total_tokens(bytes: u64, bytes_per_token: u64, page_size: usize, user_limit: Option<usize>) -> usize {
    let fitting = usize::try_from(bytes / bytes_per_token).unwrap_or(usize::MAX);
    floor_to_page(user_limit.map_or(fitting, |limit| limit.min(fitting)), page_size)
}

/// What all stages of a pipeline can do: the least of what each can do.
#[must_use]
pub fn over_stages(of_each: &[usize]) -> usize {
    of_each.iter().copied().min().unwrap_or(0)
}

/// What bounds the number of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLimits {
    /// Tokens of the pool.
    pub total_tokens: usize,
    /// The longest sequence, in tokens.
    pub context_length: usize,
    /// What the user allows over all groups (`max_running_requests`).
    pub user_limit: Option<usize>,
    /// Groups that run attention on their own requests; 1 unless attention is data-parallel.
    pub attention_groups: usize,
    /// Requests for which there is recurrent state; `None` for a model without such layers.
    pub recurrent_slots: Option<usize>,
}

/// Requests that may run at the same time: total tokens / context length · 512 as an integer between 2048 and 4096;
/// then at most half the tokens, the user's limit for one group, and the slots for recurrent state.
///
/// # Panics
/// If the context length or the number of groups is 0.
#[must_use]
pub fn max_requests(limits: RequestLimits) -> usize {
    let RequestLimits { total_tokens, context_length, user_limit, attention_groups, recurrent_slots } = limits;
    let by_context = (total_tokens as u128 * 512 / context_length as u128).clamp(2048, 4096) as usize;
    let by_user = user_limit.map_or(usize::MAX, |limit| limit / attention_groups);
    by_context.min(total_tokens / 2).min(by_user).min(recurrent_slots.unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sizing::GIB;

    #[test]
    fn bytes_by_hand() {
        let memory = Memory { free_before: 80 * GIB, free_after: 64 * GIB, multimodal: 0 };
        // 64 − 80 · 0.25
        assert_eq!(kv_bytes(memory, 0.75), Ok(44 * GIB));
        assert_eq!(kv_bytes(memory, 1.0), Ok(64 * GIB));
        assert_eq!(kv_bytes(Memory { free_before: 8, free_after: 1, multimodal: 0 }, 1.0), Ok(1));
        assert_eq!(kv_bytes(Memory { multimodal: 4 * GIB, ..memory }, 0.75), Ok(40 * GIB));
    }

    #[test]
    fn the_least_fraction_leaves_something_and_a_thousandth_less_does_not() {
        // 16 of 80 GiB are weights: 0.2 leaves nothing at all, 0.201 is the first that does.
        let memory = Memory { free_before: 80 * GIB, free_after: 64 * GIB, multimodal: 0 };
        let error = kv_bytes(memory, 0.1).unwrap_err();
        assert_eq!(error, NoRoom::RaiseFraction { fraction: 0.1, least: 0.201 });
        assert!(error.to_string().ends_with("0.201 is the least that leaves any"), "{error}");
        assert!(kv_bytes(memory, 0.201).is_ok());
        assert!(kv_bytes(memory, 0.2).is_err());
        for weights in 0..80 {
            for multimodal in 0..80 - weights {
                let memory =
                    Memory { free_before: 80 * GIB, free_after: (80 - weights) * GIB, multimodal: multimodal * GIB };
                let NoRoom::RaiseFraction { least, .. } = kv_bytes(memory, 0.0).unwrap_err() else {
                    panic!("{memory:?} has room")
                };
                assert!(kv_bytes(memory, least).is_ok(), "{memory:?} {least}");
                assert!(kv_bytes(memory, least - 0.001).is_err(), "{memory:?} {least}");
            }
        }
        for memory in [
            Memory { free_before: 8, free_after: 0, multimodal: 0 },
            Memory { free_before: 8, free_after: 4, multimodal: 4 },
            Memory { free_before: 0, free_after: 0, multimodal: 0 },
        ] {
            assert_eq!(kv_bytes(memory, 1.0), Err(NoRoom::ModelTooLarge));
        }
    }

    #[test]
    fn tokens_by_hand() {
        // 8 heads · (128 + 128) · 32 layers · 2 bytes: 128 KiB
        let each = bytes_per_token(8, 128, 128, 32, 2);
        assert_eq!(each, 131_072);
        // 44 GiB / 128 KiB
        assert_eq!(total_tokens(44 * GIB, each, 1, None), 360_448);
        assert_eq!(total_tokens(44 * GIB + 131_071, each, 1, None), 360_448);
        assert_eq!(total_tokens(100 * each, each, 16, None), 96);
        assert_eq!(total_tokens(100 * each, each, 16, Some(50)), 48);
        assert_eq!(total_tokens(100 * each, each, 16, Some(1000)), 96, "the user only lowers it");
        assert_eq!((over_stages(&[96, 80, 112]), over_stages(&[])), (80, 0));
    }

    #[test]
    fn requests_by_hand() {
        let limits = RequestLimits {
            total_tokens: 360_448,
            context_length: 131_072,
            user_limit: None,
            attention_groups: 1,
            recurrent_slots: None,
        };
        let table = [
            // 2.75 · 512 = 1408, raised to 2048
            (limits, 2048),
            // 5.5 · 512
            (RequestLimits { context_length: 65_536, ..limits }, 2816),
            // 44 · 512, lowered to 4096
            (RequestLimits { context_length: 8192, ..limits }, 4096),
            // half of the tokens
            (RequestLimits { total_tokens: 1000, ..limits }, 500),
            (RequestLimits { user_limit: Some(100), ..limits }, 100),
            (RequestLimits { user_limit: Some(100), attention_groups: 8, ..limits }, 12),
            (RequestLimits { user_limit: Some(9999), ..limits }, 2048),
            (RequestLimits { recurrent_slots: Some(64), ..limits }, 64),
        ];
        for (limits, requests) in table {
            assert_eq!(max_requests(limits), requests, "{limits:?}");
        }
    }

    #[test]
    fn more_memory_is_never_fewer_tokens_or_requests() {
        let memory = |free_after| Memory { free_before: 1000, free_after, multimodal: 0 };
        for free in 500..1000 {
            for fraction in [0.6, 0.8, 1.0] {
                let bytes = |free| kv_bytes(memory(free), fraction).unwrap_or(0);
                assert!(bytes(free) <= bytes(free + 1));
            }
        }
        for tokens in (0..2_000_000).step_by(4999) {
            let requests = |total_tokens| {
                max_requests(RequestLimits {
                    total_tokens,
                    context_length: 65_536,
                    user_limit: Some(3000),
                    attention_groups: 1,
                    recurrent_slots: None,
                })
            };
            assert!(requests(tokens) <= requests(tokens + 4999));
        }
    }
}
