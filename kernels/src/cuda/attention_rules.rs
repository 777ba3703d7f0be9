//! What attention does beside the softmax over all earlier tokens.

use cudarc::driver::CudaView;

use super::error::{CudaError, require, require_size, require_supported};

/// What attention does beside the softmax over all earlier tokens; nothing by default. Kernels are compiled for it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct AttentionRules {
    /// Tokens that a token sees, itself among them; all where it is not given. The pages of tokens that no query sees any
    /// more may be given away: they are neither looked up nor read.
    pub window: Option<usize>,
    /// A score becomes `softcap * tanh(score / softcap)`.
    pub softcap: Option<f32>,
    /// Every query head has a sink: a score that takes weight from the tokens and has no value. The softmax denominators
    /// that kernels give out are without it.
    pub sinks: bool,
}

impl AttentionRules {
    /// Says what is wrong with rules that no kernel supports.
    pub fn check(&self) -> Result<(), CudaError> {
        if let Some(window) = self.window {
            require_supported("window", window, (1..=1 << 30).contains(&window), "1 to 1073741824")?;
        }
        match self.softcap {
            Some(softcap) if !(softcap.is_finite() && softcap > 0.0) => Err(CudaError::Softcap(softcap)),
            _ => Ok(()),
        }
    }

    /// The macros that the kernels expect.
    pub(super) fn macros(&self) -> [(&'static str, usize); 3] {
        [
            ("WINDOW", self.window.unwrap_or(0)),
            ("SOFTCAP", usize::from(self.softcap.is_some())),
            ("SINKS", usize::from(self.sinks)),
        ]
    }

    /// The first token that a query sees which sees no token from `end` on.
    pub(super) fn first_visible(&self, end: usize) -> usize {
        self.window.map_or(0, |window| end.saturating_sub(window))
    }

    /// The kernels' argument; not read where scores are not capped.
    pub(super) fn softcap_argument(&self) -> f32 {
        self.softcap.unwrap_or(0.0)
    }

    /// Whether there is a sink per query head if the kernel adds them, and none if it does not.
    pub(super) fn check_sinks(&self, sinks: Option<&CudaView<'_, f32>>, query_heads: usize) -> Result<(), CudaError> {
        match sinks {
            Some(sinks) if self.sinks => require_size("length of sinks", sinks.len(), query_heads),
            given => require(
                "number of buffers of sinks",
                usize::from(given.is_some()),
                given.is_some() == self.sinks,
                || {
                    if self.sinks {
                        "one: it is compiled for sinks".to_owned()
                    } else {
                        "none: it is compiled without".to_owned()
                    }
                },
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_rules_say_what_is_supported() {
        let none = AttentionRules::default();
        none.check().unwrap();
        AttentionRules { window: Some(1), softcap: Some(30.0), sinks: true }.check().unwrap();
        for (rules, message) in [
            (AttentionRules { window: Some(0), ..none }, "window is 0; supported: 1 to 1073741824"),
            (AttentionRules { softcap: Some(0.0), ..none }, "softcap is 0; supported: finite numbers above 0"),
            (AttentionRules { softcap: Some(-3.5), ..none }, "softcap is -3.5; supported: finite numbers above 0"),
            (AttentionRules { softcap: Some(f32::NAN), ..none }, "softcap is NaN; supported: finite numbers above 0"),
        ] {
            assert_eq!(rules.check().unwrap_err().to_string(), message);
        }
    }
}
