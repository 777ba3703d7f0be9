//! Prompts in tokens.

use std::time::SystemTime;

use engine::checkpoint::Checkpoint;
use engine::text::{Message, SpecialTokens, Tokenizer};

use crate::cli::Failure;

/// The tokens of a text to continue. An empty text continues the model's begin token.
pub(crate) fn of_text(checkpoint: &Checkpoint, text: &str) -> Result<Vec<u32>, Failure> {
    let mut ids = tokenizer(checkpoint)?.encode(text, SpecialTokens::Add).map_err(Failure::run)?;
    if ids.is_empty() {
        ids.extend(checkpoint.begin_token_id());
    }
    if ids.is_empty() {
        let message =
            "the prompt is empty, and the model has no token that begins a text: there is nothing to continue";
        return Err(Failure::Usage(message.into()));
    }
    Ok(ids)
}

/// The tokens of a conversation as the model's chat template writes it, up to where the model's answer begins.
pub(crate) fn of_conversation(checkpoint: &Checkpoint, messages: &[Message]) -> Result<Vec<u32>, Failure> {
    let tokenizer = tokenizer(checkpoint)?;
    let template = checkpoint.chat_template().ok_or_else(|| {
        let path = checkpoint.path().display();
        Failure::Run(format!("{path} has no chat template: continue a text with `engine generate --prompt`"))
    })?;
    let text = template.render_at(messages, SystemTime::now()).map_err(Failure::run)?;
    tokenizer.encode(&text, SpecialTokens::AsWritten).map_err(Failure::run)
}

fn tokenizer(checkpoint: &Checkpoint) -> Result<&Tokenizer, Failure> {
    checkpoint.tokenizer().ok_or_else(|| {
        let path = checkpoint.path().display();
        Failure::Run(format!("{path} has no tokenizer.json to read a text with: give token ids with --input-ids"))
    })
}
