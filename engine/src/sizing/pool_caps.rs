//! How is the memory for keys and values divided between layers of different kinds?
//!
//! A layer that looks at the whole sequence keeps every token. One that looks back over a window only could let go of
//! what has left it, and a recurrent layer keeps one state for each request. So each kind has a pool of its own.
//! Nothing calls this yet: the engine's one pool keeps every token for every layer. It will divide by
//! `schedule.{swa_full_tokens_ratio, max_running_requests, max_mamba_cache_size, mamba_full_memory_ratio}`, with
//! `schedule.{page_size, chunked_prefill_size, disable_overlap_schedule}`, `memory.disable_radix_cache` and
//! `disagg.disaggregation_mode`.

use super::pages::{ceil_to_page, floor_to_page};

/// Window tokens for each full token, unless the user says otherwise.
pub const WINDOW_RATIO: f64 = 0.8;
/// Bytes for recurrent states for each byte of keys and values, unless the user says otherwise.
pub const RECURRENT_RATIO: f64 = 0.9;
/// Decode steps after which a request lets go of what has left the window.
pub const EVICTION_INTERVAL: usize = 128;

/// Bytes of one token, over all layers of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBytes {
    /// In layers that look at the whole sequence.
    pub full: u64,
    /// In layers that look back over a window.
    pub window: u64,
    /// In the layers of a draft, which look at the whole sequence.
    pub draft: u64,
}

/// Tokens of each pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pools {
    /// For layers that look at the whole sequence, and for the draft's.
    pub full_tokens: usize,
    /// For layers that look back over a window.
    pub window_tokens: usize,
}

/// A pool would be too small for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PoolTooSmall {
    /// The window and a page do not fit.
    #[error(
        "{tokens} tokens for layers with a window of {window} are too few, more than window and page \
         ({page} tokens) are needed: raise --swa-full-tokens-ratio or --mem-fraction-static"
    )]
    Window {
        /// Tokens that there are.
        tokens: usize,
        /// The window, in tokens.
        window: usize,
        /// Tokens of a page.
        page: usize,
    },
    /// Not one page fits.
    #[error("not one page of {page} tokens fits: raise --mem-fraction-static")]
    Page {
        /// Tokens of a page.
        page: usize,
    },
}

/// Divides by a ratio: for each token of the full pool, `ratio` tokens of the window pool, both in whole pages. Without
/// full layers the ratio does not matter, and all is for the window pool.
///
/// ```
/// use engine::sizing::pool_caps::{Pools, TokenBytes, by_ratio};
///
/// let bytes = TokenBytes { full: 100, window: 200, draft: 0 };
/// // A full token takes 100, and half a window token 100 more.
/// assert_eq!(by_ratio(100_000, bytes, 0.5, 64, 16)?, Pools { full_tokens: 496, window_tokens: 240 });
/// # Ok::<(), engine::sizing::pool_caps::PoolTooSmall>(())
/// ```
///
/// # Panics
/// If a token has no bytes, a page no tokens, or the ratio is not positive.
pub fn by_ratio(bytes: u64, token: TokenBytes, ratio: f64, window: usize, page: usize) -> Result<Pools, PoolTooSmall> {
    assert!(ratio > 0.0, "a ratio of {ratio} leaves nothing for the window");
    let pools = if token.full == 0 {
        let tokens = floor_to_page(tokens_in(bytes, token.window + token.draft), page);
        Pools { full_tokens: 0, window_tokens: tokens }
    } else {
        let of_each = token.full as f64 + ratio * token.window as f64 + token.draft as f64;
        let full_tokens = floor_to_page((bytes as f64 / of_each) as usize, page);
        let window_tokens =
            if token.window == 0 { 0 } else { floor_to_page((full_tokens as f64 * ratio) as usize, page) };
        Pools { full_tokens, window_tokens }
    };
    checked(pools, token, window, page)
}

fn checked(pools: Pools, token: TokenBytes, window: usize, page: usize) -> Result<Pools, PoolTooSmall> {
    if token.full > 0 && pools.full_tokens == 0 {
        Err(PoolTooSmall::Page { page })
    } else if token.window > 0 && pools.window_tokens <= window + page {
        Err(PoolTooSmall::Window { tokens: pools.window_tokens, window, page })
    } else {
        Ok(pools)
    }
}

fn tokens_in(bytes: u64, of_each: u64) -> usize {
    usize::try_from(bytes / of_each).unwrap_or(usize::MAX)
}

/// What a request may come to hold in the window pool, and how many there are.
///
/// The bound holds if a request lets go of what has left its window after each piece of its prompt, and in decode every
/// [`eviction_interval`](Self::eviction_interval) steps, in whole pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowDemand {
    /// The window, in tokens.
    pub window: usize,
    /// Tokens of a page.
    pub page: usize,
    /// Decode steps between letting go; [`EVICTION_INTERVAL`] in general.
    pub eviction_interval: usize,
    /// Tokens that a decode step may append to a request: 1 without guessing ahead.
    pub draft_tokens: usize,
    /// Tokens that a decode step allocates for a request beyond its length: a page, or what
    /// [`super::speculation`] says.
    pub decode_allocation: usize,
    /// Requests that run at the same time, for each group that runs attention on its own requests.
    pub requests: usize,
    /// What comes on top.
    pub on_top: OnTop,
}

/// What the window pool holds besides running requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnTop {
    /// Pieces of prompts that are under way.
    Chunks {
        /// Tokens of a piece, over all requests.
        chunk: usize,
        /// Whether the next step is prepared while this one runs: then two are under way.
        overlap: bool,
    },
    /// Requests that arrive from elsewhere with their prompt done.
    Arriving {
        /// How many at the same time.
        requests: usize,
    },
}

impl WindowDemand {
    /// What one request holds at most: its window, what it appends until it lets go, a page for the cut, and what the
    /// next step allocates.
    #[must_use]
    pub fn of_a_request(self) -> usize {
        self.window + self.eviction_interval * self.draft_tokens + self.page + self.decode_allocation
    }

    /// What all hold at most, in whole pages: the requests, and either the pieces under way and a page, or a window and
    /// a page for each that arrives.
    ///
    /// ```
    /// use engine::sizing::pool_caps::{EVICTION_INTERVAL, OnTop, WindowDemand};
    ///
    /// let demand = WindowDemand {
    ///     window: 512,
    ///     page: 16,
    ///     eviction_interval: EVICTION_INTERVAL,
    ///     draft_tokens: 1,
    ///     decode_allocation: 16,
    ///     requests: 4,
    ///     on_top: OnTop::Chunks { chunk: 2048, overlap: true },
    /// };
    /// assert_eq!(demand.of_a_request(), 672);
    /// assert_eq!(demand.cap(), 4 * 672 + 2 * 2048 + 16);
    /// ```
    ///
    /// # Panics
    /// If a page has no tokens.
    #[must_use]
    pub fn cap(self) -> usize {
        let on_top = match self.on_top {
            OnTop::Chunks { chunk, overlap } => (1 + usize::from(overlap)) * chunk + self.page,
            OnTop::Arriving { requests } => requests * (self.window + self.page),
        };
        ceil_to_page(self.requests * self.of_a_request() + on_top, self.page)
    }
}

/// Whether what the window pool holds is bounded by [`WindowDemand`], so that the pool can be cut to it.
///
/// The number of requests has to be known. No prefix may stay after its request is done. Prompts have to come in
/// pieces, or from elsewhere. And there have to be layers of both kinds: what one pool does not need is for the other.
#[must_use]
pub fn is_bounded(
    requests: Option<usize>,
    keeps_prefixes: bool,
    cuts_prompts: bool,
    prompts_come_from_elsewhere: bool,
    token: TokenBytes,
) -> bool {
    let in_pieces = cuts_prompts || prompts_come_from_elsewhere;
    requests.is_some() && !keeps_prefixes && in_pieces && token.full > 0 && token.window > 0
}

/// Gives the window pool `cap` tokens and the full pool all the rest. `None` if the cap alone takes everything: then the
/// ratio decides, and the user is told.
///
/// ```
/// use engine::sizing::pool_caps::{Pools, TokenBytes, by_cap};
///
/// let bytes = TokenBytes { full: 100, window: 200, draft: 0 };
/// assert_eq!(by_cap(100_000, bytes, 104, 4), Some(Pools { full_tokens: 792, window_tokens: 104 }));
/// assert_eq!(by_cap(20_000, bytes, 104, 4), None);
/// ```
///
/// # Panics
/// If a full token has no bytes or a page no tokens.
#[must_use]
pub fn by_cap(bytes: u64, token: TokenBytes, cap: usize, page: usize) -> Option<Pools> {
    let rest = bytes.checked_sub(cap as u64 * token.window)?;
    let full_tokens = floor_to_page(tokens_in(rest, token.full + token.draft), page);
    (full_tokens > 0).then_some(Pools { full_tokens, window_tokens: cap })
}

/// Recurrent states that there is room for: as many as the user says, or those for which `ratio` bytes go for each byte
/// of keys and values. A request takes one, and as many more as it keeps to go back to.
///
/// ```
/// use engine::sizing::pool_caps::{RECURRENT_RATIO, recurrent_slots};
///
/// // 900 of 1900 bytes are for states.
/// assert_eq!(recurrent_slots(1900, 100, None, RECURRENT_RATIO), 9);
/// assert_eq!(recurrent_slots(1900, 100, Some(4), RECURRENT_RATIO), 4);
/// ```
///
/// # Panics
/// If a state has no bytes.
#[must_use]
pub fn recurrent_slots(bytes: u64, state_bytes: u64, user: Option<usize>, ratio: f64) -> usize {
    user.unwrap_or_else(|| tokens_in((bytes as f64 * ratio / (1.0 + ratio)).round() as u64, state_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::Random;
    use crate::sizing::speculation::Draft;

    const SMALL: WindowDemand = WindowDemand {
        window: 8,
        page: 4,
        eviction_interval: 4,
        draft_tokens: 1,
        decode_allocation: 4,
        requests: 2,
        on_top: OnTop::Chunks { chunk: 4, overlap: false },
    };

    #[test]
    fn caps_by_hand() {
        let draft = Draft { steps: 3, topk: 2, tokens: 5 };
        let one_by_one = WindowDemand { page: 1, decode_allocation: 1, requests: 10, window: 4, ..SMALL };
        let table = [
            // 8 + 4 + 4 + 4 = 20; 2 · 20 + 2 · 16 + 4
            (WindowDemand { on_top: OnTop::Chunks { chunk: 16, overlap: true }, ..SMALL }, 20, 76),
            // 8 + 4 · 5 + 4 + max((3 + 4 → 8) · 2, 5 → 8) = 48; 2 · 48 + 4 + 4
            (WindowDemand { draft_tokens: 5, decode_allocation: draft.allocation_length(4), ..SMALL }, 48, 104),
            // 8 + 4 · 5 + 1 + 2 · 6 = 41; 2 · 41 + 2 · 4 + 1
            (
                WindowDemand {
                    page: 1,
                    draft_tokens: 5,
                    decode_allocation: draft.overlapped_allocation_length(1),
                    on_top: OnTop::Chunks { chunk: 4, overlap: true },
                    ..SMALL
                },
                41,
                91,
            ),
            // 4 + 4 + 1 + 1 = 10
            (WindowDemand { on_top: OnTop::Arriving { requests: 0 }, ..one_by_one }, 10, 100),
            (WindowDemand { on_top: OnTop::Arriving { requests: 2 }, ..one_by_one }, 10, 110),
            // 10 + 4 + 4 + 4 = 22; 2 · 22 + 4 + 4 = 52
            (WindowDemand { window: 10, ..SMALL }, 22, 52),
            // 2 · 22 + 5 + 4 = 53, in whole pages
            (WindowDemand { window: 10, on_top: OnTop::Chunks { chunk: 5, overlap: false }, ..SMALL }, 22, 56),
        ];
        for (demand, of_a_request, cap) in table {
            assert_eq!((demand.of_a_request(), demand.cap()), (of_a_request, cap), "{demand:?}");
        }
    }

    #[test]
    fn the_bound_needs_all_of_its_conditions() {
        let both = TokenBytes { full: 1, window: 1, draft: 0 };
        let mut bounded = 0;
        for requests in [None, Some(4)] {
            for keeps_prefixes in [false, true] {
                for cuts in [false, true] {
                    for elsewhere in [false, true] {
                        for token in [both, TokenBytes { full: 0, ..both }, TokenBytes { window: 0, ..both }] {
                            let holds = is_bounded(requests, keeps_prefixes, cuts, elsewhere, token);
                            assert!(!holds || (requests.is_some() && !keeps_prefixes && token == both));
                            bounded += usize::from(holds);
                        }
                    }
                }
            }
        }
        assert_eq!(bounded, 3, "prompts in pieces, from elsewhere, or both");
    }

    #[test]
    fn ratios_by_hand() {
        let token = |full, window, draft| TokenBytes { full, window, draft };
        // Bytes, bytes of a token, ratio, page; full and window tokens.
        let table = [
            // 1 + 0.5 · 2 of each: 500, and half of it
            (1000, token(1, 2, 0), 0.5, 1, 500, 250),
            (1000, token(1, 2, 0), 0.5, 16, 496, 240),
            // 1 + 0.8 · 1, and 1 for the draft: 1000 / 2.8 = 357, and 285
            (1000, token(1, 1, 1), WINDOW_RATIO, 1, 357, 285),
            // No full layer: the ratio is nothing to it.
            (1000, token(0, 2, 0), 0.1, 16, 0, 496),
            // No window layer: one pool.
            (1000, token(2, 0, 0), 0.1, 16, 496, 0),
        ];
        for (bytes, token, ratio, page, full_tokens, window_tokens) in table {
            let pools = by_ratio(bytes, token, ratio, 8, page);
            assert_eq!(pools, Ok(Pools { full_tokens, window_tokens }), "{bytes} {token:?} {ratio} {page}");
        }
    }

    #[test]
    #[should_panic(expected = "a ratio of 0 leaves nothing for the window")]
    fn a_ratio_is_positive() {
        let _ = by_ratio(1000, TokenBytes { full: 1, window: 1, draft: 0 }, 0.0, 1, 1);
    }

    #[test]
    fn a_pool_below_window_and_page_is_refused() {
        let token = TokenBytes { full: 1, window: 1, draft: 0 };
        // 64 tokens each.
        assert!(by_ratio(128, token, 1.0, 40, 16).is_ok());
        let error = by_ratio(128, token, 1.0, 48, 16).expect_err("64 is not more than 48 + 16");
        assert_eq!(error, PoolTooSmall::Window { tokens: 64, window: 48, page: 16 });
        assert!(error.to_string().contains("--swa-full-tokens-ratio"), "{error}");
        assert_eq!(by_ratio(10, token, 1.0, 1, 16), Err(PoolTooSmall::Page { page: 16 }));
    }

    #[test]
    fn beside_the_window_there_is_room_for_a_page_or_no_pool() {
        let token = TokenBytes { full: 2, window: 1, draft: 0 };
        // 16 for the window, 8 for a page of full tokens.
        assert_eq!(by_cap(24, token, 16, 4), Some(Pools { full_tokens: 4, window_tokens: 16 }));
        assert_eq!(by_cap(23, token, 16, 4), None);
        assert_eq!(by_cap(15, token, 16, 4), None);
    }

    #[test]
    fn memory_is_used_and_never_exceeded() {
        for full in 1..5 {
            for window in 1..5 {
                for page in [1, 4, 16] {
                    for cap in [16, 64, 112] {
                        let token = TokenBytes { full, window, draft: full % 2 };
                        let of_full = token.full + token.draft;
                        let used =
                            |pools: Pools| pools.full_tokens as u64 * of_full + pools.window_tokens as u64 * window;
                        let rest_below =
                            |pools: Pools, bytes| bytes - used(pools) < page as u64 * (of_full + 2 * window);
                        for bytes in [500, 1000, 4001] {
                            if let Ok(pools) = by_ratio(bytes, token, 0.75, 4, page) {
                                assert!(used(pools) <= bytes && rest_below(pools, bytes), "{bytes} {token:?} {page}");
                            }
                            if let Some(pools) = by_cap(bytes, token, cap, page) {
                                assert!(used(pools) <= bytes && rest_below(pools, bytes), "{bytes} {token:?} {page}");
                                assert_eq!(pools.window_tokens, cap);
                            }
                        }
                    }
                }
            }
        }
    }

    /// A request of the simulation.
    #[derive(Clone, Copy)]
    struct Request {
        /// The first token that is held; it is the first of a page.
        from: usize,
        /// Tokens that it has.
        length: usize,
        /// Tokens that it had before the step under way.
        before: usize,
        /// Tokens of its prompt that are to come.
        prompt: usize,
        /// Decode steps since it let go.
        steps: usize,
    }

    /// The most that is held in decode and in prefill, over random steps of requests with random prompts.
    fn most_held(demand: WindowDemand, random: &mut Random) -> [usize; 2] {
        let WindowDemand { window, page, eviction_interval, draft_tokens, requests, on_top, .. } = demand;
        let OnTop::Chunks { chunk, overlap } = on_top else { panic!("prompts come in pieces here") };
        let mut below = |bound: usize| (random.bits() % bound as u64) as usize;
        let new = |prompt| Request { from: 0, length: 0, before: 0, prompt, steps: 0 };
        let mut running: Vec<_> = (0..requests).map(|_| new(1 + below(3 * chunk))).collect();
        let mut most = [0; 2];
        for _ in 0..10_000 {
            let is_prefill = running.iter().any(|request| request.prompt > 0) && below(4) > 0;
            let (mut room, mut held) = (chunk, 0);
            for request in &mut running {
                let length = request.length;
                // With overlap the step before is under way, and what it reads is held.
                let done = if overlap { request.before } else { length };
                let is_prompt = request.prompt > 0;
                if is_prompt || request.steps == eviction_interval {
                    request.from = request.from.max(floor_to_page(done.saturating_sub(window), page));
                    request.steps = 0;
                }
                let mut allocated = 0;
                if is_prefill && is_prompt {
                    let piece = request.prompt.min(room).min(1 + below(chunk));
                    (request.length, request.prompt, room) = (length + piece, request.prompt - piece, room - piece);
                    if request.prompt == 0 {
                        // It lets go in its first decode step.
                        request.steps = eviction_interval;
                    }
                } else if !is_prefill && !is_prompt {
                    allocated = draft_tokens * (1 + usize::from(overlap));
                    request.steps += 1;
                }
                held += ceil_to_page(request.length + allocated, page) - request.from;
                if allocated > 0 {
                    request.length += if below(4) == 0 { 1 + below(draft_tokens) } else { draft_tokens };
                }
                request.before = length;
            }
            most[usize::from(is_prefill)] = most[usize::from(is_prefill)].max(held);
            for request in &mut running {
                if request.prompt == 0 && below(200) == 0 {
                    *request = new(1 + below(3 * chunk));
                }
            }
        }
        most
    }

    #[test]
    fn no_order_of_steps_exceeds_the_cap_and_some_come_near() {
        let seed = 0x7769_6e64_6f77;
        eprintln!("random steps from seed {seed:#x}");
        let mut random = Random::new(seed);
        for page in [1, 4, 16] {
            for draft_tokens in [1, 5] {
                for overlap in [false, true] {
                    for requests in [1, 2, 5] {
                        let demand = WindowDemand {
                            window: 32,
                            page,
                            eviction_interval: 8,
                            draft_tokens,
                            decode_allocation: ceil_to_page(draft_tokens, page) * (1 + usize::from(overlap)),
                            requests,
                            on_top: OnTop::Chunks { chunk: 48, overlap },
                        };
                        let [decode, prefill] = most_held(demand, &mut random);
                        let cap = demand.cap();
                        assert!(decode <= cap && prefill <= cap, "{decode} or {prefill} exceeds {cap}: {demand:?}");
                        let slack = 2 * page + demand.decode_allocation;
                        assert!(
                            requests > 1 || decode + slack >= demand.of_a_request(),
                            "{decode} is far below the bound: {demand:?}"
                        );
                    }
                }
            }
        }
    }
}
