//! What another implementation, in float32, made of the small models in `tests/models`.

use std::path::{Path, PathBuf};

use serde_json::Value;

#[allow(dead_code, reason = "other tests use the rest of it")]
#[path = "../../../engine/tests/support/safetensors.rs"]
mod safetensors;

/// Where the sources have a small model.
#[must_use]
pub fn folder(model: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models").join(model)
}

/// What the reference was given and what it said.
#[derive(Debug)]
pub struct Reference {
    /// The tokens of the prompt.
    pub prompt: Vec<u32>,
    /// The prompt and its likeliest continuation but for the last token.
    pub tokens: Vec<u32>,
    /// `[tokens, vocabulary]`
    pub logits: Vec<f32>,
    /// Logits of a token.
    pub vocabulary: usize,
}

impl Reference {
    /// That of a model of the sources.
    ///
    /// # Panics
    ///
    /// As [`in_folder`](Self::in_folder).
    #[must_use]
    pub fn of(model: &str) -> Self {
        Self::in_folder(&folder(model), !model.starts_with("options/"))
    }

    /// That of a model in a folder. The models of single options have logits for their prompts alone, and no continuation.
    ///
    /// # Panics
    ///
    /// If its files are not there, or not as the script that makes them leaves them.
    #[must_use]
    pub fn in_folder(path: &Path, has_continuation: bool) -> Self {
        let text = std::fs::read_to_string(path.join("reference.json")).expect("readable");
        let json: Value = serde_json::from_str(&text).expect("JSON");
        let ids = |key: &str| -> Vec<u32> {
            json[key].as_array().expect("a list").iter().map(|id| id.as_u64().expect("an id") as u32).collect()
        };
        let (prompt, greedy) = (ids("prompt_ids"), ids("greedy_ids"));
        let floats = |name: &str| safetensors::floats(&path.join("reference.safetensors"), name);
        let mut logits = floats("prompt_logits");
        let vocabulary = logits.len() / prompt.len();
        let mut tokens = prompt.clone();
        if has_continuation {
            // The first of the continuation is the last of the prompt.
            logits.extend(&floats("greedy_logits")[vocabulary..]);
            tokens.extend(&greedy[..greedy.len() - 1]);
        }
        assert_eq!(logits.len(), tokens.len() * vocabulary);
        Self { prompt, tokens, logits, vocabulary }
    }
}
