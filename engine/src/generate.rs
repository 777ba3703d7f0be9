//! From a prompt to a text: one prefill, then one token at a time.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::runner::{Logits, Runner, Sequence};
use crate::sampling::{self, History, Sampling, TokenLogprobs};
use crate::text::{Detokenizer, StopStrings, Tokenizer};

/// The most positions whose logits are there at once when the log-probabilities of a prompt are wanted.
const LOGPROB_ROWS: usize = 32;

/// What to generate.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The prompt.
    pub prompt_token_ids: Vec<u32>,
    /// The most tokens to generate.
    pub max_new_tokens: usize,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Tokens that end the text.
    pub stop_token_ids: Vec<u32>,
    /// Strings that end the text and are not part of it.
    pub stop: Vec<String>,
    /// With how many of the likeliest tokens the log-probability of each generated token is wanted.
    pub logprobs: Option<usize>,
    /// The same for the tokens of the prompt.
    pub prompt_logprobs: Option<usize>,
}

/// Why generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended its text, or a stop string appeared.
    Stop,
    /// The wanted number of tokens is there, or there is room for no more.
    Length,
    /// It was cancelled, or the receiver of the text wants no more.
    Abort,
}

impl FinishReason {
    /// The reason as the command prints it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Abort => "abort",
        }
    }
}

/// What one step adds.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The text that has become certain, which may be empty.
    pub text: &'a str,
    /// The token chosen; nothing for text that was held back until the end.
    pub token_id: Option<u32>,
    /// How likely the token was, where that is wanted.
    pub logprobs: Option<&'a TokenLogprobs>,
}

/// What was generated.
#[derive(Clone, Debug)]
pub struct Generation {
    /// The text, without special tokens.
    pub text: String,
    /// Every token chosen, those that ended the text included.
    pub token_ids: Vec<u32>,
    /// Why generation ended.
    pub finish_reason: FinishReason,
    /// For each token chosen, how likely it was; empty unless wanted.
    pub logprobs: Vec<TokenLogprobs>,
    /// For each token of the prompt but the first, how likely it was; empty unless wanted.
    pub prompt_logprobs: Vec<TokenLogprobs>,
    /// Tokens of the prompt whose keys and values were there already.
    pub cached_tokens: usize,
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

/// A sequence whose tokens are known, so that a later request that begins alike need not run them again.
///
/// Give it back with [`Kept::release`].
#[derive(Debug)]
#[must_use = "it holds pages until it is released"]
pub struct Kept {
    sequence: Sequence,
    token_ids: Vec<u32>,
}

impl Kept {
    /// Nothing is kept yet.
    pub fn new(runner: &Runner) -> Self {
        Self { sequence: runner.start(), token_ids: Vec::new() }
    }

    /// Returns the pages.
    pub fn release(self, runner: &mut Runner) -> Result<()> {
        runner.release(self.sequence)
    }

    /// Forgets what is not the beginning of `prompt`; its last token is run in any case, for its logits.
    fn keep_beginning_of(&mut self, runner: &mut Runner, prompt: &[u32]) -> Result<usize> {
        let alike = self.token_ids.iter().zip(prompt).take_while(|(kept, wanted)| kept == wanted).count();
        let kept = alike.min(prompt.len().saturating_sub(1));
        self.token_ids.truncate(kept);
        runner.truncate(&mut self.sequence, kept)?;
        Ok(kept)
    }

    /// Nothing is kept of a step that was cancelled, and nothing returned.
    fn extend(
        &mut self,
        runner: &mut Runner,
        token_ids: &[u32],
        wanted: Logits,
        cancel: &dyn Cancel,
    ) -> Result<Option<Vec<f32>>> {
        let logits = runner.extend_unless(&mut self.sequence, token_ids, wanted, cancel)?;
        if logits.is_some() {
            self.token_ids.extend_from_slice(token_ids);
        }
        Ok(logits)
    }
}

/// Generates a text and hands what each step adds to `on_step`.
///
/// Without a tokenizer there are token ids and no text. Once it is cancelled, no further step is begun, and a step underway stops before
/// its next large product. The pages of the request are free again afterwards, however it ended.
pub fn generate(
    runner: &mut Runner,
    tokenizer: Option<&Tokenizer>,
    request: &Request,
    cancel: &dyn Cancel,
    on_step: impl FnMut(Step<'_>) -> ControlFlow<()>,
) -> Result<Generation> {
    let mut kept = Kept::new(runner);
    let generated = generate_after(runner, &mut kept, tokenizer, request, cancel, on_step);
    kept.release(runner)?;
    generated
}

/// Like [`generate`], but starts from what is kept of an earlier request, and keeps what it ran.
///
/// The text is the same as without anything kept.
pub fn generate_after(
    runner: &mut Runner,
    kept: &mut Kept,
    tokenizer: Option<&Tokenizer>,
    request: &Request,
    cancel: &dyn Cancel,
    on_step: impl FnMut(Step<'_>) -> ControlFlow<()>,
) -> Result<Generation> {
    let budget = admit(runner, request)?;
    let mut text = Text::new(tokenizer, request, on_step);
    let start = Instant::now();
    let mut prompt = Prompt::default();
    // Log-probabilities need the logits of every token, also of those that are kept.
    let kept_tokens = if request.prompt_logprobs.is_some() { &[] } else { &request.prompt_token_ids[..] };
    prompt.cached = kept.keep_beginning_of(runner, kept_tokens)?;
    let mut logits = prompt.run(runner, kept, request, cancel)?;
    let prefill = start.elapsed();

    let mut token_ids: Vec<u32> = Vec::new();
    let mut logprobs = Vec::new();
    let finish_reason = loop {
        let Some(current) = logits else { break FinishReason::Abort };
        if budget == 0 {
            break FinishReason::Length;
        }
        let history = History { prompt: &request.prompt_token_ids, output: &token_ids };
        let id = sampling::choose(&current, history, &request.sampling)?;
        token_ids.push(id);
        logprobs.extend(request.logprobs.map(|top| sampling::logprobs(&current, id, top)));
        let is_end = request.stop_token_ids.contains(&id);
        text.push(id, is_end, logprobs.last())?;
        if is_end || text.stops.is_stopped() {
            break FinishReason::Stop;
        }
        if token_ids.len() == budget {
            break FinishReason::Length;
        }
        if text.is_refused {
            break FinishReason::Abort;
        }
        logits = kept.extend(runner, &[id], Logits::Last, cancel)?;
    };
    let (text, finish_reason) = text.finish(finish_reason)?;
    let decode = start.elapsed().saturating_sub(prefill);
    let (prompt_logprobs, cached_tokens) = (prompt.logprobs, prompt.cached);
    Ok(Generation { text, token_ids, finish_reason, logprobs, prompt_logprobs, cached_tokens, prefill, decode })
}

/// Refuses what cannot be served, and says how many tokens there is room for, one at least.
fn admit(runner: &Runner, request: &Request) -> Result<usize> {
    request.sampling.check()?;
    if request.stop.iter().any(String::is_empty) {
        return Err(Error::Request("an empty stop string would end every text before it begins".into()));
    }
    let length = request.prompt_token_ids.len();
    if length == 0 {
        return Err(Error::Request("the prompt is empty: there is nothing to continue".into()));
    }
    let (context, capacity) = (runner.context_length(), runner.capacity());
    if length > context {
        return Err(Error::Request(format!(
            "the prompt has {length} tokens, more than the context length of {context}"
        )));
    }
    if length > capacity {
        return Err(Error::Request(format!(
            "the prompt has {length} tokens, more than the {capacity} that the pages for keys and values hold"
        )));
    }
    // The last token of a text is chosen but never run, so it needs no room.
    Ok(request.max_new_tokens.min(context.min(capacity) + 1 - length))
}

/// What becomes of the prompt.
#[derive(Default)]
struct Prompt {
    cached: usize,
    logprobs: Vec<TokenLogprobs>,
}

impl Prompt {
    /// Runs what is not kept of the prompt, piece by piece, and returns the logits after its last token; nothing when it was cancelled.
    fn run(
        &mut self,
        runner: &mut Runner,
        kept: &mut Kept,
        request: &Request,
        cancel: &dyn Cancel,
    ) -> Result<Option<Vec<f32>>> {
        let (prompt, vocab_size) = (&request.prompt_token_ids, runner.config().vocab_size);
        let chunk = runner.chunked_prefill_size();
        let piece_size = request.prompt_logprobs.map_or(chunk, |_| chunk.min(LOGPROB_ROWS));
        let mut logits = None;
        let mut done = self.cached;
        for piece in prompt[self.cached..].chunks(piece_size) {
            let is_last = done + piece.len() == prompt.len();
            let wanted = match (request.prompt_logprobs, is_last) {
                (Some(_), _) => Logits::All,
                (None, true) => Logits::Last,
                (None, false) => Logits::Nowhere,
            };
            let Some(mut rows) = kept.extend(runner, piece, wanted, cancel)? else {
                return Ok(None);
            };
            if let Some(top) = request.prompt_logprobs {
                let followers = &prompt[done + 1..];
                let known = rows.chunks_exact(vocab_size).zip(followers);
                self.logprobs.extend(known.map(|(row, &next)| sampling::logprobs(row, next, top)));
                rows.drain(..rows.len() - vocab_size);
            }
            done += piece.len();
            logits = Some(rows);
        }
        Ok(logits)
    }
}

/// The text of a generation as it comes into being, and its receiver.
struct Text<'a, F> {
    detokenizer: Option<Detokenizer<'a>>,
    stops: StopStrings<'a>,
    whole: String,
    on_step: F,
    /// Whether the receiver wants no more.
    is_refused: bool,
}

impl<'a, F: FnMut(Step<'_>) -> ControlFlow<()>> Text<'a, F> {
    fn new(tokenizer: Option<&'a Tokenizer>, request: &'a Request, on_step: F) -> Self {
        let detokenizer = tokenizer.map(Detokenizer::new);
        Self { detokenizer, stops: StopStrings::new(&request.stop), whole: String::new(), on_step, is_refused: false }
    }

    /// Takes the next token; one that ends the text has none of its own.
    fn push(&mut self, id: u32, is_end: bool, logprobs: Option<&TokenLogprobs>) -> Result<()> {
        let piece = match &mut self.detokenizer {
            Some(detokenizer) if !is_end => detokenizer.push(id)?,
            _ => String::new(),
        };
        let text = self.stops.push(&piece);
        self.pass_on(Step { text: &text, token_id: Some(id), logprobs });
        Ok(())
    }

    /// Passes on what was held back. A stop string may appear in it.
    fn finish(mut self, mut reason: FinishReason) -> Result<(String, FinishReason)> {
        let rest = self.detokenizer.take().map_or(Ok(String::new()), Detokenizer::finish)?;
        let mut text = self.stops.push(&rest);
        if self.stops.is_stopped() && reason == FinishReason::Length {
            reason = FinishReason::Stop;
        }
        text.push_str(&self.stops.take_rest());
        if !text.is_empty() && !self.is_refused {
            self.pass_on(Step { text: &text, token_id: None, logprobs: None });
        }
        Ok((self.whole, reason))
    }

    fn pass_on(&mut self, step: Step<'_>) {
        self.whole.push_str(step.text);
        self.is_refused = (self.on_step)(step).is_break();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_tokens_after_the_first() {
        let rate = |tokens: usize| {
            let generation = Generation {
                text: String::new(),
                token_ids: vec![1; tokens],
                finish_reason: FinishReason::Length,
                logprobs: Vec::new(),
                prompt_logprobs: Vec::new(),
                cached_tokens: 0,
                prefill: Duration::from_secs(5),
                decode: Duration::from_secs(2),
            };
            generation.decode_rate()
        };
        assert_eq!([0, 1, 2, 9].map(rate), [None, None, Some(0.5), Some(4.0)]);
    }
}
