//! How large are the buffers of a check that watches over keys and values?
//!
//! Such a check notes what is written to each slot of the pool and compares it when the slot is read. Its buffers are
//! made once, so they have room for the largest step. Nothing calls this yet. It will be sized from
//! `observability.kv_canary`, `exec.graph`, `spec.speculative_num_draft_tokens` and
//! `schedule.{max_prefill_tokens, chunked_prefill_size}`: what is built from these is handed this value.

/// What the size of the buffers follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CanaryInput {
    /// Slots of the pool, one for each token.
    pub pool_slots: usize,
    /// Rows for requests.
    pub request_rows: usize,
    /// The largest batch that is prepared in advance, in requests; `None`: none is.
    pub largest_graph_batch: Option<usize>,
    /// Tokens of a request that a step verifies; `None` without guessing ahead.
    pub draft_tokens: Option<usize>,
    /// The most prompt tokens of a step, of all requests.
    pub max_prefill_tokens: usize,
    /// The most prompt tokens of a request in a step; `None` if prompts are not cut.
    pub chunk: Option<usize>,
}

/// Room for the largest step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CanaryCapacities {
    /// Slots that are compared in a step. Three times the pool: requests that share a prefix read its slots once each.
    pub verified: usize,
    /// Requests that write in a step.
    pub writing_requests: usize,
    /// Tokens that are written in a step.
    pub written_tokens: usize,
}

/// A number from which no buffer follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a check of keys and values needs at least one of: {0}")]
pub struct NothingToCheck(&'static str);

impl CanaryInput {
    /// Slots: 3 · pool. Requests: the greater of the largest prepared batch and the rows. Tokens: the greater of
    /// requests · tokens of each in decode, and of what a prefill brings at most.
    ///
    /// ```
    /// use engine::sizing::canary::CanaryInput;
    ///
    /// let input = CanaryInput {
    ///     pool_slots: 1000,
    ///     request_rows: 8,
    ///     largest_graph_batch: Some(16),
    ///     draft_tokens: Some(4),
    ///     max_prefill_tokens: 512,
    ///     chunk: Some(128),
    /// };
    /// let capacities = input.capacities()?;
    /// assert_eq!((capacities.verified, capacities.writing_requests, capacities.written_tokens), (3000, 16, 128));
    /// # Ok::<(), engine::sizing::canary::NothingToCheck>(())
    /// ```
    pub fn capacities(self) -> Result<CanaryCapacities, NothingToCheck> {
        let Self { pool_slots, request_rows, largest_graph_batch, draft_tokens, max_prefill_tokens, chunk } = self;
        for (number, what) in [
            (pool_slots, "slots of the pool"),
            (request_rows, "rows for requests"),
            (max_prefill_tokens, "tokens of a prefill"),
        ] {
            if number == 0 {
                return Err(NothingToCheck(what));
            }
        }
        let writing_requests = request_rows.max(largest_graph_batch.unwrap_or(0));
        let tokens_of_each = draft_tokens.unwrap_or(0).max(1);
        let prefill = max_prefill_tokens.min(chunk.unwrap_or(usize::MAX));
        Ok(CanaryCapacities {
            verified: 3 * pool_slots,
            writing_requests,
            written_tokens: prefill.max(writing_requests * tokens_of_each),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INPUT: CanaryInput = CanaryInput {
        pool_slots: 100,
        request_rows: 4,
        largest_graph_batch: None,
        draft_tokens: None,
        max_prefill_tokens: 128,
        chunk: None,
    };

    #[test]
    fn capacities_by_hand() {
        // Rows, graph batch, draft tokens, prefill, chunk; requests, tokens.
        let table = [
            (4, None, None, 128, None, 4, 128),
            (4, Some(2), None, 128, None, 4, 128),
            (4, Some(200), None, 128, None, 200, 200),
            (4, None, Some(8), 16, None, 4, 32),
            (4, None, Some(0), 1, None, 4, 4),
            (4, None, None, 128, Some(64), 4, 64),
            (4, None, None, 128, Some(512), 4, 128),
            (4, Some(16), Some(8), 128, Some(64), 16, 128),
            (4, Some(16), Some(9), 128, Some(64), 16, 144),
            (4, None, None, 128, Some(0), 4, 4),
        ];
        for (request_rows, largest_graph_batch, draft_tokens, max_prefill_tokens, chunk, requests, tokens) in table {
            let input =
                CanaryInput { request_rows, largest_graph_batch, draft_tokens, max_prefill_tokens, chunk, ..INPUT };
            let expected = CanaryCapacities { verified: 300, writing_requests: requests, written_tokens: tokens };
            assert_eq!(input.capacities(), Ok(expected), "{input:?}");
        }
    }

    #[test]
    fn what_is_absent_is_named() {
        let table = [
            (CanaryInput { pool_slots: 0, ..INPUT }, "slots of the pool"),
            (CanaryInput { request_rows: 0, ..INPUT }, "rows for requests"),
            (CanaryInput { max_prefill_tokens: 0, ..INPUT }, "tokens of a prefill"),
        ];
        for (input, what) in table {
            let error = input.capacities().expect_err("nothing to check").to_string();
            assert_eq!(error, format!("a check of keys and values needs at least one of: {what}"));
        }
    }

    #[test]
    fn every_step_has_room() {
        for request_rows in 1..10 {
            for graph_batch in 0..10 {
                for draft_tokens in 0..5 {
                    for chunk in [None, Some(3), Some(40)] {
                        let input = CanaryInput {
                            request_rows,
                            largest_graph_batch: Some(graph_batch),
                            draft_tokens: Some(draft_tokens),
                            max_prefill_tokens: 20,
                            chunk,
                            ..INPUT
                        };
                        let room = input.capacities().expect("all are positive");
                        let decode = request_rows.max(graph_batch) * draft_tokens.max(1);
                        assert!(room.writing_requests >= request_rows && room.writing_requests >= graph_batch);
                        assert!(room.written_tokens >= decode && room.written_tokens >= chunk.unwrap_or(20).min(20));
                        assert!(room.verified > 0 && room.writing_requests > 0 && room.written_tokens > 0);
                    }
                }
            }
        }
    }
}
