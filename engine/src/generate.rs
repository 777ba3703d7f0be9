//! From a prompt to a text: one prefill, then one token at a time.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::runner::{Logits, Runner, Sequence};
use crate::sampling::Sampler;
use crate::text::{Detokenizer, Tokenizer};

/// What to generate.
#[derive(Clone, Debug)]
pub struct Request {
    /// The prompt.
    pub prompt_token_ids: Vec<u32>,
    /// The most tokens to generate.
    pub max_new_tokens: usize,
    /// 0: always the likeliest token.
    pub temperature: f32,
    /// Where the random numbers of this request start.
    pub seed: u64,
    /// Tokens that end the text.
    pub stop_token_ids: Vec<u32>,
}

/// Why generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended its text.
    Stop,
    /// The wanted number of tokens is there, or there is room for no more.
    Length,
    /// The receiver of the text wants no more.
    Cancelled,
}

impl FinishReason {
    /// The reason as the command prints it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What was generated.
#[derive(Clone, Debug)]
pub struct Generation {
    /// The text, without special tokens.
    pub text: String,
    /// Every token chosen, the one that ended the text included.
    pub token_ids: Vec<u32>,
    /// Why generation ended.
    pub finish_reason: FinishReason,
    /// From the start to the first token.
    pub prefill: Duration,
    /// From the first token to the last.
    pub decode: Duration,
}

impl Generation {
    /// Tokens per second after the first token: nothing when there was no second one.
    #[must_use]
    pub fn decode_rate(&self) -> Option<f64> {
        let steps = self.token_ids.len().checked_sub(1).filter(|&steps| steps > 0)?;
        Some(steps as f64 / self.decode.as_secs_f64())
    }
}

/// Generates a text and hands its pieces to `on_text` as they become certain.
///
/// Without a tokenizer there are token ids and no text. The pages of the request are free again afterwards, however it
/// ended.
pub fn generate(
    runner: &mut Runner,
    tokenizer: Option<&Tokenizer>,
    request: &Request,
    mut on_text: impl FnMut(&str) -> ControlFlow<()>,
) -> Result<Generation> {
    let mut sequence = runner.start();
    let generated = run(runner, &mut sequence, tokenizer, request, &mut on_text);
    runner.release(sequence)?;
    generated
}

fn run(
    runner: &mut Runner,
    sequence: &mut Sequence,
    tokenizer: Option<&Tokenizer>,
    request: &Request,
    on_text: &mut impl FnMut(&str) -> ControlFlow<()>,
) -> Result<Generation> {
    let mut sampler = Sampler::new(request.temperature, request.seed)?;
    let mut detokenizer = tokenizer.map(Detokenizer::new);
    // The last token of a text is chosen but never run, so it needs no room.
    let room = runner.context_length().min(runner.capacity()) + 1;
    let budget = request.max_new_tokens.min(room.saturating_sub(request.prompt_token_ids.len()));

    let start = Instant::now();
    let mut logits = runner.extend(sequence, &request.prompt_token_ids, Logits::Last)?;
    let prefill = start.elapsed();
    let mut text = String::new();
    let mut token_ids = Vec::new();
    let mut finish_reason = FinishReason::Length;
    while token_ids.len() < budget {
        let id = sampler.sample(&logits)?;
        token_ids.push(id);
        if request.stop_token_ids.contains(&id) {
            finish_reason = FinishReason::Stop;
            break;
        }
        let piece = detokenizer.as_mut().map_or(Ok(String::new()), |detokenizer| detokenizer.push(id))?;
        text.push_str(&piece);
        if !piece.is_empty() && on_text(&piece).is_break() {
            finish_reason = FinishReason::Cancelled;
            break;
        }
        if token_ids.len() < budget {
            logits = runner.extend(sequence, &[id], Logits::Last)?;
        }
    }
    let rest = detokenizer.map_or(Ok(String::new()), Detokenizer::finish)?;
    if !rest.is_empty() && finish_reason != FinishReason::Cancelled && on_text(&rest).is_break() {
        finish_reason = FinishReason::Cancelled;
    }
    text.push_str(&rest);
    let decode = start.elapsed().saturating_sub(prefill);
    Ok(Generation { text, token_ids, finish_reason, prefill, decode })
}
