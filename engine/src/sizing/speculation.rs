//! What does guessing ahead take, and how far does it guess?
//!
//! Nothing calls this yet: there is no speculative decoding. It will be the rules of `spec.{speculative_num_steps,
//! speculative_eagle_topk, speculative_num_draft_tokens}` and of `schedule.max_running_requests` under it, and size
//! what each request allocates in a step, from these and `schedule.page_size`.

use super::pages::ceil_to_page;

/// Requests that run at the same time while the engine guesses ahead, unless the user says otherwise.
pub const MAX_RUNNING_REQUESTS: usize = 48;

/// How far a draft goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draft {
    /// Steps of the draft.
    pub steps: usize,
    /// Branches that each step keeps; 1 is a chain.
    pub topk: usize,
    /// Tokens that are verified at once.
    pub tokens: usize,
}

/// What a draft is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Llama and Grok, with a draft head.
    LlamaOrGrok,
    /// Any other model, and a draft model of its own.
    Other,
}

impl Draft {
    /// A draft as a user gives it: what is unset is 1.
    ///
    /// ```
    /// use engine::sizing::speculation::Draft;
    ///
    /// let draft = Draft::given(Some(5), None, Some(6));
    /// assert_eq!((draft.steps, draft.topk, draft.tokens), (5, 1, 6));
    /// assert_eq!([1, 16].map(|page_size| draft.allocation_length(page_size)), [6, 16]);
    /// ```
    #[must_use]
    pub fn given(steps: Option<usize>, topk: Option<usize>, tokens: Option<usize>) -> Self {
        Self { steps: steps.unwrap_or(1), topk: topk.unwrap_or(1), tokens: tokens.unwrap_or(1) }
    }

    /// What suits a target: 5 steps of 4 branches and 8 tokens for Llama and Grok, else a chain of 3 steps and 4
    /// tokens.
    #[must_use]
    pub fn suited(target: Target) -> Self {
        match target {
            Target::LlamaOrGrok => Self { steps: 5, topk: 4, tokens: 8 },
            Target::Other => Self { steps: 3, topk: 1, tokens: 4 },
        }
    }

    /// The same with tokens as its shape demands: a chain verifies its steps and one more.
    #[must_use]
    pub fn settled(self) -> Self {
        if self.topk == 1 { Self { tokens: self.steps + 1, ..self } } else { self }
    }

    /// Tokens that a decode step allocates for a request: the greater of steps · branches and verified tokens. With
    /// pages of more than one token both are whole pages first: tokens are rounded up; steps are rounded up in a chain,
    /// and with branches a page more is added before that, since each branch starts in a page of its own.
    ///
    /// # Panics
    /// If a page has no tokens.
    #[must_use]
    pub fn allocation_length(self, page_size: usize) -> usize {
        let Self { steps, topk, tokens } = self;
        let (steps, tokens) = match (page_size, topk) {
            (1, _) => (steps, tokens),
            (page, 0 | 1) => (ceil_to_page(steps, page), ceil_to_page(tokens, page)),
            (page, _) => (ceil_to_page(steps + page, page), ceil_to_page(tokens, page)),
        };
        (steps * topk).max(tokens)
    }

    /// The same when the next step is prepared while this one runs: two steps are in flight.
    ///
    /// # Panics
    /// If a page has no tokens.
    #[must_use]
    pub fn overlapped_allocation_length(self, page_size: usize) -> usize {
        2 * self.allocation_length(page_size)
    }
}

/// Tokens that a decode step allocates for a request: 1 without a draft.
///
/// # Panics
/// If a page has no tokens.
#[must_use]
pub fn decode_width(draft: Option<Draft>, page_size: usize) -> usize {
    draft.map_or(1, |draft| draft.allocation_length(page_size))
}

/// Tokens that a request's row has beyond the context length: 4, and as many as are verified at once.
#[must_use]
pub fn row_headroom(most_draft_tokens: usize) -> usize {
    4 + most_draft_tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suited_drafts() {
        assert_eq!(Draft::suited(Target::LlamaOrGrok), Draft { steps: 5, topk: 4, tokens: 8 });
        let other = Draft::suited(Target::Other);
        assert_eq!(other, Draft { steps: 3, topk: 1, tokens: 4 });
        for target in [Target::LlamaOrGrok, Target::Other] {
            assert_eq!(Draft::suited(target).settled(), Draft::suited(target));
        }
        assert_eq!(Draft { steps: 7, ..other }.settled().tokens, 8);
        assert_eq!(Draft { steps: 7, topk: 2, tokens: 3 }.settled().tokens, 3);
    }

    #[test]
    fn allocation_lengths_by_hand() {
        // Steps, branches, tokens; length with pages of 1, 16 and 64.
        let table = [
            // 20 against 8; (5 + 16 → 32) · 4; (5 + 64 → 128) · 4
            (5, 4, 8, [20, 128, 512]),
            // 3 against 4; 16 against 16; 64 against 64
            (3, 1, 4, [4, 16, 64]),
            // 16 against 17; 16 against 32
            (16, 1, 17, [17, 32, 64]),
            // 2 · 2 against 40; (2 + 16 → 32) · 2 against 48; (2 + 64 → 128) · 2
            (2, 2, 40, [40, 64, 256]),
            // 1 · 2 against 100; (1 + 16 → 32) · 2 against 112; (1 + 64 → 128) · 2
            (1, 2, 100, [100, 112, 256]),
        ];
        for (steps, topk, tokens, lengths) in table {
            let draft = Draft { steps, topk, tokens };
            assert_eq!([1, 16, 64].map(|page| draft.allocation_length(page)), lengths, "{draft:?}");
            assert_eq!([1, 16, 64].map(|page| draft.overlapped_allocation_length(page)), lengths.map(|one| 2 * one));
            assert_eq!(decode_width(Some(draft), 16), lengths[1]);
        }
        assert_eq!((decode_width(None, 1), decode_width(None, 64)), (1, 1));
        assert_eq!(row_headroom(8), 12);
    }

    #[test]
    fn what_is_unset_is_one() {
        // Steps, branches, tokens; length with pages of 1 and 16.
        let table = [
            ((None, None, None), [1, 16]),
            ((Some(3), None, None), [3, 16]),
            ((Some(3), Some(2), None), [6, 64]),
            ((None, Some(4), Some(6)), [6, 128]),
            ((None, None, Some(17)), [17, 32]),
        ];
        for ((steps, topk, tokens), lengths) in table {
            let draft = Draft::given(steps, topk, tokens);
            assert_eq!([1, 16].map(|page| draft.allocation_length(page)), lengths, "{draft:?}");
        }
    }

    #[test]
    fn more_of_anything_is_never_less() {
        for page in [1, 2, 16, 64] {
            for steps in 1..20 {
                for topk in 1..9 {
                    for tokens in [1, 4, 8, 33] {
                        let draft = Draft { steps, topk, tokens };
                        let here = draft.allocation_length(page);
                        assert!(here >= (steps * topk).max(tokens));
                        assert!(here <= Draft { steps: steps + 1, ..draft }.allocation_length(page));
                        assert!(here <= Draft { topk: topk + 1, ..draft }.allocation_length(page));
                        assert!(here <= Draft { tokens: tokens + 1, ..draft }.allocation_length(page));
                    }
                }
            }
        }
    }
}
