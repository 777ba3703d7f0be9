//! `sampling`: how tokens are chosen.

use kitbag::ConfigNamespaces;

/// How tokens are chosen.
#[derive(ConfigNamespaces)]
#[config(ns = "sampling")]
pub struct Sampling {
    /// 0 takes the likeliest token every time; the higher, the more varied the text.
    #[config(default = 0.0, range = 0.0..=100.0, hot)]
    pub temperature: f32,
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
