//! What was generated, as JSON.

use std::time::Duration;

use engine::generate::{Generation, Request, Step};
use engine::sampling::{Logprob, TokenLogprobs};
use engine::text::Tokenizer;
use serde_json::{Value, json};

/// One object with everything.
pub(crate) fn result(
    request: &Request,
    generation: &Generation,
    tokenizer: Option<&Tokenizer>,
    load: Duration,
) -> Value {
    let (prompt, completion) = (request.prompt_token_ids.len(), generation.token_ids.len());
    let prefilled = prompt - generation.cached_tokens;
    let mut result = json!({
        "text": generation.text,
        "token_ids": generation.token_ids,
        "prompt_token_ids": request.prompt_token_ids,
        "finish_reason": generation.finish_reason.name(),
        "seed": request.sampling.seed,
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        },
        "timings": {
            "load_seconds": load.as_secs_f64(),
            "prefill_seconds": generation.prefill.as_secs_f64(),
            "decode_seconds": generation.decode.as_secs_f64(),
            "prefill_tokens_per_second": prefilled as f64 / generation.prefill.as_secs_f64(),
            "decode_tokens_per_second": generation.decode_rate(),
        },
    });
    if request.logprobs.is_some() {
        result["logprobs"] = generation.logprobs.iter().map(|entry| position(entry, tokenizer)).collect();
    }
    if request.prompt_logprobs.is_some() {
        // Nothing comes before the first token that could make it likely.
        let known = generation.prompt_logprobs.iter().map(|entry| position(entry, tokenizer));
        result["prompt_logprobs"] = std::iter::once(Value::Null).chain(known).collect();
    }
    result
}

/// One object of a stream; the object with everything comes last.
pub(crate) fn step(step: &Step<'_>, tokenizer: Option<&Tokenizer>) -> Value {
    let mut object = json!({
        "text": step.text,
        "token_ids": step.token_id.into_iter().collect::<Vec<_>>(),
        "finish_reason": null,
    });
    if let Some(entry) = step.logprobs {
        object["logprobs"] = json!([position(entry, tokenizer)]);
    }
    object
}

fn position(entry: &TokenLogprobs, tokenizer: Option<&Tokenizer>) -> Value {
    let mut object = token(&entry.token, tokenizer);
    object["top"] = entry.top.iter().map(|other| token(other, tokenizer)).collect();
    object
}

/// A token; an impossible one has no number that JSON could write.
fn token(entry: &Logprob, tokenizer: Option<&Tokenizer>) -> Value {
    let text = tokenizer.and_then(|tokenizer| tokenizer.decode_with_special(&[entry.token_id]).ok());
    json!({"token_id": entry.token_id, "token": text, "logprob": entry.logprob})
}
