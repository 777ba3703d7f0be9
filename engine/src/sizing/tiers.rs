//! What suits a device of this size, if the user does not say?
//!
//! Nothing calls this yet. It will be the rule of `schedule.chunked_prefill_size` and of the largest decode batch that
//! is prepared in advance (`exec.graph.cuda_graph_max_bs_decode`), once there are facts about devices.

use super::GIB;

/// Defaults that follow from the size of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tier {
    /// The most prompt tokens that go through the model at once.
    pub chunk_tokens: usize,
    /// The largest decode batch that is prepared in advance, in requests.
    pub graph_batch: usize,
}

/// The tier of a device with `device_bytes` of memory, one of `tensor_parallel` that share each layer.
///
/// In GiB, the first line that holds, where `a | b` is `a` below four devices and `b` from four on:
///
/// | memory | chunk | batch |
/// |---|---|---|
/// | unknown | 4096 | 160 |
/// | below 20 | 2048 | 8 |
/// | below 35 | 4096 | 48 \| 160 |
/// | below 60 | 4096 | 32 \| 160 |
/// | below 160 | 8192 | 256 \| 512 |
/// | others | 16384 | 512 |
///
/// The batch below 35 GiB is larger than that below 60 GiB; the specification has it so, and so a larger device is not
/// in every number the larger tier.
#[must_use]
pub fn tier(device_bytes: Option<u64>, tensor_parallel: usize) -> Tier {
    let few_or_many = |few, many| if tensor_parallel < 4 { few } else { many };
    let (chunk_tokens, graph_batch) = match device_bytes {
        None => (4096, 160),
        Some(bytes) if bytes < 20 * GIB => (2048, 8),
        Some(bytes) if bytes < 35 * GIB => (4096, few_or_many(48, 160)),
        Some(bytes) if bytes < 60 * GIB => (4096, few_or_many(32, 160)),
        Some(bytes) if bytes < 160 * GIB => (8192, few_or_many(256, 512)),
        Some(_) => (16_384, 512),
    };
    Tier { chunk_tokens, graph_batch }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tier_at_both_of_its_ends() {
        // First and last GiB of the tier; chunk; batch with 1, 3, 4 and 8 devices.
        let table: [(u64, u64, usize, [usize; 4]); 6] = [
            (1, 19, 2048, [8, 8, 8, 8]),
            (20, 34, 4096, [48, 48, 160, 160]),
            (35, 59, 4096, [32, 32, 160, 160]),
            (60, 89, 8192, [256, 256, 512, 512]),
            (90, 159, 8192, [256, 256, 512, 512]),
            (160, 1000, 16_384, [512, 512, 512, 512]),
        ];
        for (first, last, chunk_tokens, batches) in table {
            for (parallel, graph_batch) in [1, 3, 4, 8].into_iter().zip(batches) {
                for bytes in [first * GIB, (last + 1) * GIB - 1] {
                    assert_eq!(tier(Some(bytes), parallel), Tier { chunk_tokens, graph_batch }, "{bytes} {parallel}");
                }
            }
        }
        assert_eq!(tier(None, 1), Tier { chunk_tokens: 4096, graph_batch: 160 });
        assert_eq!(tier(None, 8), tier(None, 1));
    }

    #[test]
    fn chunks_grow_with_memory_and_batches_with_devices() {
        for gib in 1..300 {
            for parallel in 1..16 {
                let (here, larger) = (tier(Some(gib * GIB), parallel), tier(Some((gib + 1) * GIB), parallel));
                assert!(here.chunk_tokens <= larger.chunk_tokens);
                assert!(here.graph_batch <= tier(Some(gib * GIB), parallel + 1).graph_batch);
            }
        }
    }
}
