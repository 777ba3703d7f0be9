//! Rotary positions of a `config.json`: `rope_theta` and `rope_scaling`, or `rope_parameters`.

use std::path::Path;

use serde_json::Value;

use super::HubConfig;
use crate::error::{Error, Result};
use crate::model::rope::{Rope, RopeScaling};

/// What models that say nothing mean.
const DEFAULT_THETA: f64 = 10_000.0;
const DEFAULT_BETA_FAST: f64 = 32.0;
const DEFAULT_BETA_SLOW: f64 = 1.0;

/// The parameters of one model, all of which are understood.
struct Parameters<'a> {
    path: &'a Path,
    kind: String,
    all: &'a serde_json::Map<String, Value>,
    /// What is stated beside them.
    original_context: Option<f64>,
    context: f64,
}

/// The keys that a rope type has beside those of every type.
fn keys_of(kind: &str) -> Option<&'static [&'static str]> {
    match kind {
        "default" => Some(&[]),
        "linear" => Some(&["factor"]),
        "llama3" => Some(&["factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"]),
        "yarn" => Some(&[
            "factor",
            "original_max_position_embeddings",
            "attention_factor",
            "beta_fast",
            "beta_slow",
            "mscale",
            "mscale_all_dim",
            "truncate",
            "finetuned",
        ]),
        _ => None,
    }
}

impl Parameters<'_> {
    fn number(&self, key: &str) -> Result<Option<f64>> {
        match self.all.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_f64() {
                Some(number) => Ok(Some(number)),
                None => Err(Error::damaged(self.path, format!("rope: {key} is {value}, not a number"))),
            },
        }
    }

    fn need(&self, key: &str) -> Result<f64> {
        let missing = || Error::damaged(self.path, format!("{} rope scaling without {key}", self.kind));
        self.number(key)?.ok_or_else(missing)
    }

    /// Nothing and zero both leave the usual value in place.
    fn nonzero(&self, key: &str) -> Result<Option<f64>> {
        Ok(self.number(key)?.filter(|&number| number != 0.0))
    }

    /// Nothing is no.
    fn flag(&self, key: &str, left_out: bool) -> Result<bool> {
        match self.all.get(key) {
            None => Ok(left_out),
            Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(value) => Err(Error::damaged(self.path, format!("rope: {key} is {value}, not true or false"))),
        }
    }

    /// What is stated outside comes first, as in the reference.
    fn original_context(&self) -> Result<f64> {
        let stated = self.number("original_max_position_embeddings")?;
        Ok(self.original_context.or(stated).unwrap_or(self.context))
    }

    fn refuse_unknown_keys(&self) -> Result<()> {
        let known = keys_of(&self.kind).unwrap_or_default();
        for (key, value) in self.all {
            let neutral = match key.as_str() {
                "rope_type" | "type" | "rope_theta" => true,
                "partial_rotary_factor" => value.as_f64() == Some(1.0),
                key => value.is_null() || known.contains(&key),
            };
            if !neutral {
                let what = format!("{key} = {value} of rope type \"{}\"", self.kind);
                return Err(Error::unsupported(self.path, what));
            }
        }
        Ok(())
    }

    fn scaling(&self) -> Result<RopeScaling> {
        self.refuse_unknown_keys()?;
        match self.kind.as_str() {
            "linear" => Ok(RopeScaling::Linear { factor: self.need("factor")? }),
            "llama3" => Ok(RopeScaling::Llama3 {
                factor: self.need("factor")?,
                low_freq_factor: self.need("low_freq_factor")?,
                high_freq_factor: self.need("high_freq_factor")?,
                original_context: self.original_context()?,
            }),
            "yarn" => {
                let factor = self.need("factor")?;
                let stated = self.number("attention_factor")?;
                let scales = self.nonzero("mscale")?.zip(self.nonzero("mscale_all_dim")?);
                let usual = match scales {
                    Some((one, all)) => RopeScaling::yarn_attention_factor_of(factor, one, all),
                    None => RopeScaling::yarn_attention_factor(factor),
                };
                Ok(RopeScaling::Yarn {
                    factor,
                    beta_fast: self.nonzero("beta_fast")?.unwrap_or(DEFAULT_BETA_FAST),
                    beta_slow: self.nonzero("beta_slow")?.unwrap_or(DEFAULT_BETA_SLOW),
                    truncate: self.flag("truncate", true)?,
                    original_context: self.original_context()?,
                    attention_factor: stated.unwrap_or(usual),
                })
            }
            _ => Ok(RopeScaling::None),
        }
    }
}

/// Reads the positions of a model.
pub(super) fn rope(path: &Path, hub: &HubConfig) -> Result<Rope> {
    // Where both are stated, the older spelling counts, as in the reference.
    let spellings = [&hub.rope_scaling, &hub.rope_parameters];
    let Some(all) = spellings.into_iter().flatten().find(|all| !all.is_empty()) else {
        return Ok(Rope { theta: hub.rope_theta.unwrap_or(DEFAULT_THETA), scaling: RopeScaling::None });
    };
    let kind = all.get("rope_type").or_else(|| all.get("type")).cloned().unwrap_or_else(|| "default".into());
    let Some(kind) = kind.as_str().filter(|kind| keys_of(kind).is_some()) else {
        let what = format!("rope type {kind} (known: default, linear, llama3, yarn)");
        return Err(Error::unsupported(path, what));
    };
    let parameters = Parameters {
        path,
        kind: kind.to_owned(),
        all,
        original_context: hub.original_max_position_embeddings.map(|context| context as f64),
        context: hub.max_position_embeddings as f64,
    };
    let theta = parameters.number("rope_theta")?.or(hub.rope_theta).unwrap_or(DEFAULT_THETA);
    Ok(Rope { theta, scaling: parameters.scaling()? })
}
