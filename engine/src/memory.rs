//! How much memory does a model take, and how many pages of keys and values does that leave?
//!
//! Plain arithmetic over a model's numbers and the memory there is; what there is, the caller says.

use crate::byte_text;
use crate::model::ModelConfig;
use crate::sizing::kv_budget::{bytes_per_token, total_tokens};

/// Memory of the machine for everything that is neither weights, keys and values nor the numbers of a step: code, vocabulary,
/// threads.
const REST: u64 = 32 << 20;
/// Bytes of a number of the computation.
const NUMBER: u64 = size_of::<f32>() as u64;

/// What a model takes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The weights as they lie in memory.
    pub weights: u64,
    /// The numbers of one step, at most.
    pub step: u64,
    /// The numbers of one step of one token, at most.
    pub least_step: u64,
    /// Keys and values of one token.
    pub kv_per_token: u64,
    /// Everything else.
    pub rest: u64,
}

/// How many tokens of keys and values are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// This many, or none at all.
    All(usize),
    /// As many as fit, and no more than this.
    AtMost(usize),
}

/// There is too little memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooLittle {
    /// Not all that was asked for fits.
    #[error(
        "{wanted} tokens of keys and values take {} beside {} for the model, and there are {}: \
         --max-total-tokens {fitting} is the most that fits",
        byte_text::up(*.kv), byte_text::up(*.model), byte_text::down(*.available)
    )]
    ForTokens {
        /// The tokens that were asked for.
        wanted: usize,
        /// Bytes of their keys and values.
        kv: u64,
        /// Bytes of the model and its computation.
        model: u64,
        /// Bytes there are.
        available: u64,
        /// The tokens that fit, in whole pages.
        fitting: usize,
    },
    /// Not even one page fits.
    #[error(
        "the model takes {} of memory with one page of keys and values, and there are {}: \
         {} is the least it runs in, with --page-size 1 --chunked-prefill-size 1",
        byte_text::up(*.needed), byte_text::down(*.available), byte_text::up(*.least)
    )]
    ForModel {
        /// Bytes with one page as it is set.
        needed: u64,
        /// Bytes there are.
        available: u64,
        /// Bytes with the smallest settings.
        least: u64,
    },
}

impl Need {
    /// What a model of `config` takes whose weights take `weights` bytes, when prompts run `chunk` tokens at a time.
    #[must_use]
    pub fn of(config: &ModelConfig, weights: u64, chunk: usize) -> Self {
        let hidden = config.hidden_size as u64;
        let of_experts = config.experts.as_ref().map_or(0, |experts| experts.per_token * experts.intermediate_size);
        let inner = config.intermediate_size.max(of_experts) as u64;
        let heads = (config.query_size() + 2 * config.kv_size()) as u64;
        // The residual stream and what is added to it, queries, keys and values before and after, both halves of the
        // feed-forward block and their product.
        let per_token = NUMBER * (4 * hidden + 2 * heads + 3 * inner);
        let logits = NUMBER * config.vocab_size as u64;
        let (kv_heads, head_dim, layers) = (config.kv_heads as u64, config.head_dim as u64, config.layers as u64);
        Self {
            weights,
            step: (chunk.min(config.context_length) as u64).saturating_mul(per_token) + logits,
            least_step: per_token + logits,
            kv_per_token: bytes_per_token(kv_heads, head_dim, head_dim, layers, NUMBER),
            rest: REST,
        }
    }

    /// Bytes of everything but keys and values.
    #[must_use]
    pub fn model(&self) -> u64 {
        self.weights + self.step + self.rest
    }

    /// Pages for keys and values in `available` bytes; where that is not known, all that are wanted.
    pub fn pages(&self, available: Option<u64>, page_size: usize, wanted: Wanted) -> Result<usize, TooLittle> {
        let (Wanted::All(tokens) | Wanted::AtMost(tokens)) = wanted;
        let pages = tokens.div_ceil(page_size);
        let Some(available) = available else { return Ok(pages) };
        let left = available.saturating_sub(self.model());
        let fitting = total_tokens(left, self.kv_per_token, page_size, None);
        if fitting == 0 {
            let needed = self.model() + self.kv_per_token * page_size as u64;
            let least = self.weights + self.least_step + self.rest + self.kv_per_token;
            return Err(TooLittle::ForModel { needed, available, least });
        }
        if pages <= fitting / page_size {
            return Ok(pages);
        }
        match wanted {
            Wanted::AtMost(_) => Ok(fitting / page_size),
            Wanted::All(wanted) => {
                let kv = self.kv_per_token.saturating_mul(tokens as u64);
                Err(TooLittle::ForTokens { wanted, kv, model: self.model(), available, fitting })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::checkpoint::{Checkpoint, LoadFormat};

    const MIB: u64 = 1 << 20;
    /// 100 MiB for the model, 1 MiB for a token.
    const NEED: Need = Need { weights: 60 * MIB, step: 8 * MIB, least_step: MIB, kv_per_token: MIB, rest: 32 * MIB };

    #[test]
    fn a_step_by_hand() {
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models/mixtral");
        let checkpoint = Checkpoint::open(&model, LoadFormat::Auto).expect("a model");
        let step = |chunk| Need::of(checkpoint.config(), 0, chunk).step;
        // Four times 64 for the stream, twice 64 + 2 * 32 for heads, thrice 128 for each of two experts.
        let per_token = 4 * (4 * 64 + 2 * 128 + 3 * 256);
        assert_eq!(step(1), per_token + 4 * 512);
        // No chunk is longer than the 2048 tokens of the context.
        assert_eq!((step(2048), step(100_000)), (2048 * per_token + 4 * 512, 2048 * per_token + 4 * 512));
    }

    #[test]
    fn pages_by_hand() {
        let pages = |available, wanted| NEED.pages(Some(available * MIB), 16, wanted);
        assert_eq!(NEED.model(), 100 * MIB);
        // 200 MiB are left: 12 pages and a half.
        assert_eq!(pages(300, Wanted::AtMost(8192)), Ok(12));
        assert_eq!(pages(300, Wanted::AtMost(100)), Ok(7));
        assert_eq!(pages(300, Wanted::All(192)), Ok(12));
        assert_eq!(pages(116, Wanted::AtMost(8192)), Ok(1));
        assert_eq!(NEED.pages(None, 16, Wanted::AtMost(8192)), Ok(512));
    }

    #[test]
    fn what_does_not_fit_is_told_with_what_does() {
        let text =
            |available, wanted| NEED.pages(Some(available * MIB), 16, wanted).expect_err("too little").to_string();
        assert_eq!(
            text(300, Wanted::All(193)),
            "193 tokens of keys and values take 193 MiB beside 100 MiB for the model, and there are 300 MiB: \
             --max-total-tokens 192 is the most that fits"
        );
        assert_eq!(
            text(115, Wanted::AtMost(8192)),
            "the model takes 116 MiB of memory with one page of keys and values, and there are 115 MiB: \
             94 MiB is the least it runs in, with --page-size 1 --chunked-prefill-size 1"
        );
    }

    #[test]
    fn what_is_said_to_fit_fits() {
        let least = Need { step: NEED.least_step, ..NEED };
        assert_eq!(least.pages(Some(94 * MIB), 1, Wanted::AtMost(100)), Ok(1));
        assert!(least.pages(Some(94 * MIB - 1), 1, Wanted::AtMost(100)).is_err());
        for available in 116..400 {
            for tokens in 1..300 {
                let all = NEED.pages(Some(available * MIB), 16, Wanted::All(tokens));
                if let Err(TooLittle::ForTokens { fitting, .. }) = all {
                    assert!(NEED.pages(Some(available * MIB), 16, Wanted::All(fitting)).is_ok());
                    assert!(NEED.pages(Some(available * MIB), 16, Wanted::All(fitting + 1)).is_err());
                }
            }
        }
    }
}
