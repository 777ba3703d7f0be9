//! What differs from layer to layer of a `config.json`: sliding windows and experts.

use std::path::Path;

use super::HubConfig;
use crate::error::{Error, Result};
use crate::model::architecture::{ExpertRule, Family, WindowRule};
use crate::model::config::Experts;

/// How far back each layer sees.
pub(super) fn windows(path: &Path, family: &Family, hub: &HubConfig) -> Result<Vec<Option<usize>>> {
    let layers = hub.num_hidden_layers;
    let switched_on = match family.windows {
        WindowRule::Never => false,
        WindowRule::Stated | WindowRule::StatedByLayer => true,
        WindowRule::SwitchedOn | WindowRule::SwitchedOnByLayer => hub.use_sliding_window == Some(true),
    };
    let window = hub.sliding_window.filter(|_| switched_on);
    if hub.use_sliding_window == Some(true) && window.is_none() {
        return Err(Error::damaged(path, "use_sliding_window = true without a sliding_window"));
    }
    let typed = hub.layer_types.as_ref().map(|types| by_type(path, types, layers, window)).transpose()?;
    let windows = match (family.windows, hub.max_window_layers) {
        (WindowRule::SwitchedOnByLayer, Some(first)) => {
            (0..layers).map(|layer| window.filter(|_| layer >= first)).collect()
        }
        (WindowRule::SwitchedOnByLayer, None) if window.is_some() => return Err(missing(path, "max_window_layers")),
        // The reference gives every layer the window, whatever this key says; so what it says had better be that.
        (WindowRule::SwitchedOn, Some(above @ 1..)) if window.is_some() => {
            let what = format!("max_window_layers = {above} with a sliding window in a {}", family.hub_name);
            return Err(Error::unsupported(path, what));
        }
        _ => vec![window; layers],
    };
    match (typed, family.windows) {
        (Some(typed), WindowRule::StatedByLayer | WindowRule::SwitchedOnByLayer) => Ok(typed),
        // The same holds for this key.
        (Some(typed), _) if typed != windows => {
            let what = format!("layer_types with full_attention and a sliding window in a {}", family.hub_name);
            Err(Error::unsupported(path, what))
        }
        _ => Ok(windows),
    }
}

fn by_type(path: &Path, types: &[String], layers: usize, window: Option<usize>) -> Result<Vec<Option<usize>>> {
    if types.len() != layers {
        let problem = format!("layer_types has {} entries for {layers} layers", types.len());
        return Err(Error::damaged(path, problem));
    }
    types
        .iter()
        .enumerate()
        .map(|(layer, kind)| match (kind.as_str(), window) {
            ("full_attention", _) => Ok(None),
            ("sliding_attention", Some(window)) => Ok(Some(window)),
            ("sliding_attention", None) => {
                let problem = "is \"sliding_attention\", but sliding_window is null or switched off";
                Err(Error::damaged(path, format!("layer_types[{layer}] {problem}")))
            }
            (other, _) => {
                let what = format!("layer_types[{layer}] = \"{other}\" (known: full_attention, sliding_attention)");
                Err(Error::unsupported(path, what))
            }
        })
        .collect()
}

/// The experts of a model whose architecture has them.
pub(super) fn experts(path: &Path, rule: ExpertRule, hub: &HubConfig) -> Result<Option<Experts>> {
    let count = match (hub.num_experts, hub.num_local_experts) {
        (Some(one), Some(other)) if one != other => {
            return Err(Error::damaged(path, format!("num_experts = {one}, but num_local_experts = {other}")));
        }
        (one, other) => one.or(other).ok_or_else(|| missing(path, "num_experts or num_local_experts"))?,
    };
    if count == 0 && rule.dense_layers {
        return Ok(None);
    }
    let intermediate_size = if rule.dense_layers {
        hub.moe_intermediate_size.ok_or_else(|| missing(path, "moe_intermediate_size"))?
    } else {
        hub.intermediate_size
    };
    let renormalised = rule.always_renormalised || hub.norm_topk_prob.unwrap_or(false);
    let per_token = hub.num_experts_per_tok.ok_or_else(|| missing(path, "num_experts_per_tok"))?;
    Ok(Some(Experts { count, per_token, intermediate_size, renormalised, sparse_layers: sparse(path, hub)? }))
}

/// Which layers have experts: all, unless the configuration says otherwise, which only those of architectures with dense layers may.
fn sparse(path: &Path, hub: &HubConfig) -> Result<Vec<bool>> {
    let layers = 0..hub.num_hidden_layers;
    let step = hub.decoder_sparse_step.unwrap_or(1);
    if step == 0 {
        return Err(Error::damaged(path, "decoder_sparse_step is 0"));
    }
    let dense = hub.mlp_only_layers.as_deref().unwrap_or_default();
    Ok(layers.map(|layer| (layer + 1).is_multiple_of(step) && !dense.contains(&layer)).collect())
}

fn missing(path: &Path, key: &str) -> Error {
    Error::damaged(path, format!("missing field `{key}`"))
}
