//! How many prompt tokens may go through the model at once, and what does admitting a request reserve?
//!
//! Nothing calls this yet. `schedule.chunked_prefill_size` is a plain number of tokens today; once it can be off or
//! left to the engine, [`ChunkSize`] is what it is read as, and [`max_prefill_buffer_tokens`] sizes every buffer of a
//! prefill, from `schedule.{enable_dynamic_chunking, max_prefill_tokens}` and `parallel.pp_size` too.

use super::pages::{ceil_to_page, floor_to_page};

/// How prompts are cut, as a user may say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkSize {
    /// Not at all.
    Off,
    /// As suits the device; see [`super::tiers`].
    Auto,
    /// Into pieces of at most this many tokens.
    Tokens(usize),
}

impl ChunkSize {
    /// From a number as seen in the wild: none is left to the engine, 0 and below is off.
    #[must_use]
    pub fn from_number(number: Option<i64>) -> Self {
        match number.map(usize::try_from) {
            None => Self::Auto,
            Some(Ok(tokens)) if tokens > 0 => Self::Tokens(tokens),
            Some(_) => Self::Off,
        }
    }

    /// Tokens of a piece, when `suited` suits the device; `None` if prompts are not cut.
    #[must_use]
    pub fn tokens(self, suited: usize) -> Option<usize> {
        match self {
            Self::Off => None,
            Self::Auto => Some(suited),
            Self::Tokens(tokens) => Some(tokens),
        }
    }
}

/// The most tokens that a chunk can come to have: what buffers of a prefill are built for. 0 if prompts are not cut.
///
/// The chunk; if chunks change their size while a pipeline runs, the greatest of chunk, `max_prefill_tokens` and 1.25 ·
/// chunk rounded up, since the first chunks try sizes above.
#[must_use]
pub fn max_prefill_buffer_tokens(
    chunk: Option<usize>,
    has_dynamic_chunks: bool,
    pipeline_parallel: usize,
    max_prefill_tokens: usize,
) -> usize {
    match chunk {
        None => 0,
        Some(chunk) if has_dynamic_chunks && pipeline_parallel > 1 => {
            // A quarter more is more than the chunk itself.
            max_prefill_tokens.max((5 * chunk).div_ceil(4))
        }
        Some(chunk) => chunk,
    }
}

/// Where a prompt is cut that has `tokens` to go and `room` for them in this step: the whole of it if it fits, else
/// whole pages. 0 if not even one page fits; then the request waits.
///
/// # Panics
/// If a page has no tokens.
#[must_use]
pub fn cut(tokens: usize, room: usize, page_size: usize) -> usize {
    if tokens <= room { tokens } else { floor_to_page(room, page_size) }
}

/// Tokens that admitting a request reserves: its prompt in whole pages, one page for the last one in part, `extra`, and
/// the new tokens it is expected to have.
///
/// # Panics
/// If a page has no tokens.
#[must_use]
pub fn reserved_tokens(extend: usize, expected_new: usize, extra: usize, page_size: usize) -> usize {
    ceil_to_page(extend, page_size) + page_size + extra + expected_new
}

/// The same in a layer that looks back over a `window` only: the `tail` that earlier pieces left, what comes as far as
/// it is within the window, and a page.
#[must_use]
pub fn reserved_window_tokens(
    tail: usize,
    extend: usize,
    expected_new: usize,
    window: usize,
    page_size: usize,
) -> usize {
    tail + (extend + expected_new).min(window) + page_size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_inputs_are_three_things() {
        let table = [
            (None, ChunkSize::Auto, Some(4096)),
            (Some(-1), ChunkSize::Off, None),
            (Some(0), ChunkSize::Off, None),
            (Some(1), ChunkSize::Tokens(1), Some(1)),
            (Some(8192), ChunkSize::Tokens(8192), Some(8192)),
        ];
        for (number, chunk, tokens) in table {
            assert_eq!((ChunkSize::from_number(number), chunk.tokens(4096)), (chunk, tokens));
        }
    }

    #[test]
    fn the_buffer_in_all_48_cases() {
        // Chunk, and the ceiling with dynamic chunks in a pipeline of 4 and max_prefill_tokens of 0, 2048 and 16384.
        let table: [(i64, [usize; 3]); 4] =
            [(-1, [0, 0, 0]), (0, [0, 0, 0]), (1024, [1280, 2048, 16_384]), (8192, [10_240, 10_240, 16_384])];
        let mut cases = 0;
        for (number, dynamic) in table {
            let chunk = ChunkSize::from_number(Some(number)).tokens(0);
            for (max_prefill, ceiling) in [0, 2048, 16_384].into_iter().zip(dynamic) {
                for (is_dynamic, pipeline) in [(false, 1), (false, 4), (true, 1), (true, 4)] {
                    let fixed = usize::try_from(number).unwrap_or(0);
                    let expected = if is_dynamic && pipeline == 4 { ceiling } else { fixed };
                    let tokens = max_prefill_buffer_tokens(chunk, is_dynamic, pipeline, max_prefill);
                    assert_eq!(tokens, expected, "{number} {is_dynamic} {pipeline} {max_prefill}");
                    cases += 1;
                }
            }
        }
        assert_eq!(cases, 48);
        // 1.25 · 1001 = 1251.25
        assert_eq!(max_prefill_buffer_tokens(Some(1001), true, 2, 0), 1252);
    }

    #[test]
    fn buffers_hold_the_chunk_and_grow_with_it() {
        for chunk in 1..600 {
            for (is_dynamic, pipeline) in [(false, 1), (false, 4), (true, 1), (true, 4)] {
                let tokens = |chunk| max_prefill_buffer_tokens(Some(chunk), is_dynamic, pipeline, 512);
                assert!(tokens(chunk) >= chunk && tokens(chunk) <= tokens(chunk + 1));
            }
        }
    }

    #[test]
    fn cuts_by_hand() {
        // Tokens, room, page size, taken.
        let table = [
            (100, 100, 16, 100),
            (100, 200, 16, 100),
            (101, 100, 16, 96),
            (100, 15, 16, 0),
            (100, 16, 16, 16),
            (100, 15, 1, 15),
            (0, 0, 16, 0),
        ];
        for (tokens, room, page, taken) in table {
            assert_eq!(cut(tokens, room, page), taken, "{tokens} {room} {page}");
        }
    }

    #[test]
    fn reserves_by_hand() {
        // ceil(100) to 112, a page of 16, 4 extra, 50 new
        assert_eq!(reserved_tokens(100, 50, 4, 16), 182);
        assert_eq!(reserved_tokens(100, 50, 0, 1), 151);
        assert_eq!(reserved_tokens(0, 0, 0, 64), 64);
        // 10 + min(100 + 50, 128) + 16
        assert_eq!(reserved_window_tokens(10, 100, 50, 128, 16), 154);
        assert_eq!(reserved_window_tokens(10, 20, 50, 128, 16), 96);
    }

    #[test]
    fn a_reserve_covers_what_a_request_comes_to_hold() {
        for page in [1, 2, 16, 64] {
            for extend in 0..150 {
                for new in 0..100 {
                    assert!(reserved_tokens(extend, new, 0, page) >= ceil_to_page(extend + new, page));
                }
            }
        }
    }
}
