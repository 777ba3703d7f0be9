//! `sampling`: how tokens are chosen.

use kitbag::ConfigNamespaces;

/// How tokens are chosen.
#[derive(ConfigNamespaces)]
#[config(ns = "sampling")]
pub struct Sampling {
    /// 0 takes the likeliest token every time; the higher, the more varied the text.
    #[config(default = 0.0, range = 0.0..=100.0, hot)]
    pub temperature: f32,
    /// How many of the likeliest tokens may be chosen; 0 for all.
    #[config(default = 0, hot)]
    pub top_k: usize,
    /// The likeliest tokens that together have this share of the probability may be chosen: above 0, and 1 for all.
    #[config(default = 1.0, validate = some_share, hot)]
    pub top_p: f32,
    /// Tokens at least this many times as likely as the likeliest one may be chosen; 0 for all.
    #[config(default = 0.0, range = 0.0..=1.0, hot)]
    pub min_p: f32,
    /// Makes tokens of the prompt and the text so far less likely when above 1, more likely when below.
    #[config(default = 1.0, range = 0.01..=100.0, hot)]
    pub repetition_penalty: f32,
    /// What the logits of tokens lose that are in the text so far.
    #[config(default = 0.0, range = -2.0..=2.0, hot)]
    pub presence_penalty: f32,
    /// What the logit of a token loses for each time it is in the text so far.
    #[config(default = 0.0, range = -2.0..=2.0, hot)]
    pub frequency_penalty: f32,
    /// The most tokens to generate for a request.
    #[config(default = 256, range = 1.., hot)]
    pub max_new_tokens: usize,
    /// Where the random numbers start: the same seed gives the same text. Another for each request unless set.
    #[config(hot)]
    pub seed: Option<u64>,
    /// Whether to go on when the model ends its text.
    #[config(default = false, hot)]
    pub ignore_eos: bool,
}

fn some_share(share: f32) -> Result<(), String> {
    if share > 0.0 && share <= 1.0 { Ok(()) } else { Err(format!("{share} is not above 0 and at most 1")) }
}
