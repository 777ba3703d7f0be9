//! A decoder in double precision, written from the published descriptions of the models and sharing nothing with the engine: whole
//! sequences, no store of keys and values, one number at a time.

use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::path::Path;

use serde_json::Value;

use super::{json, safetensors};

/// A model folder: `config.json` as it stands, and all tensors.
pub(crate) struct Oracle {
    config: Value,
    tensors: BTreeMap<String, Vec<f64>>,
}

type Row = Vec<f64>;

impl Oracle {
    pub(crate) fn open(folder: &Path) -> Self {
        let (header, data) = safetensors::read(&folder.join("model.safetensors"));
        let numbers = |entry: &Value| -> Vec<f64> {
            let data = safetensors::bytes(entry, &data);
            match entry["dtype"].as_str() {
                Some("BF16") => data.chunks(2).map(|b| f64::from(f32::from_le_bytes([0, 0, b[0], b[1]]))).collect(),
                Some("F32") => {
                    data.chunks(4).map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]))).collect()
                }
                other => panic!("{other:?}"),
            }
        };
        let tensors = safetensors::tensors(&header).map(|(name, entry)| (name.clone(), numbers(entry))).collect();
        Self { config: json(&folder.join("config.json")), tensors }
    }

    fn size(&self, key: &str) -> usize {
        self.optional_size(key).unwrap_or_else(|| panic!("no {key}"))
    }

    fn optional_size(&self, key: &str) -> Option<usize> {
        self.config[key].as_u64().map(|size| size as usize)
    }

    fn is(&self, key: &str) -> bool {
        self.config[key] == true
    }

    fn architecture(&self) -> &str {
        self.config["architectures"][0].as_str().expect("a name")
    }

    fn tensor(&self, name: &str) -> &[f64] {
        self.tensors.get(name).unwrap_or_else(|| panic!("no {name}"))
    }

    /// `W x`, and the bias where the checkpoint has one.
    fn project(&self, name: &str, x: &[f64]) -> Row {
        let weight = self.tensor(&format!("{name}.weight"));
        let mut y: Row = weight.chunks(x.len()).map(|row| row.iter().zip(x).map(|(w, x)| w * x).sum()).collect();
        if let Some(bias) = self.tensors.get(&format!("{name}.bias")) {
            y.iter_mut().zip(bias).for_each(|(y, bias)| *y += bias);
        }
        y
    }

    fn normed(&self, name: &str, x: &[f64]) -> Row {
        let weight = self.tensor(&format!("{name}.weight"));
        let eps = self.config["rms_norm_eps"].as_f64().expect("a number");
        let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        x.iter().zip(weight).map(|(x, weight)| x / (mean + eps).sqrt() * weight).collect()
    }

    /// Qwen3 that leaves it out means a number of its own.
    fn head_dim(&self) -> usize {
        let left_out = self.config.get("head_dim").is_none() && self.architecture() == "Qwen3ForCausalLM";
        match self.optional_size("head_dim") {
            Some(size) => size,
            None if left_out => 128,
            None => self.size("hidden_size") / self.size("num_attention_heads"),
        }
    }

    /// Logits of every position.
    pub(crate) fn logits(&self, ids: &[u32]) -> Vec<f64> {
        let width = self.size("hidden_size");
        let embedding = self.tensor("model.embed_tokens.weight");
        let mut hidden: Vec<Row> = ids.iter().map(|&id| embedding[id as usize * width..][..width].to_vec()).collect();
        for layer in 0..self.size("num_hidden_layers") {
            let prefix = format!("model.layers.{layer}");
            let normed: Vec<Row> =
                hidden.iter().map(|x| self.normed(&format!("{prefix}.input_layernorm"), x)).collect();
            let attended = self.attention(layer, &format!("{prefix}.self_attn"), &normed);
            for (hidden, attended) in hidden.iter_mut().zip(attended) {
                hidden.iter_mut().zip(attended).for_each(|(x, update)| *x += update);
                let normed = self.normed(&format!("{prefix}.post_attention_layernorm"), hidden);
                let fed = self.feed_forward(layer, &prefix, &normed);
                hidden.iter_mut().zip(fed).for_each(|(x, update)| *x += update);
            }
        }
        let head = if self.is("tie_word_embeddings") { "model.embed_tokens" } else { "lm_head" };
        hidden.iter().flat_map(|x| self.project(head, &self.normed("model.norm", x))).collect()
    }

    fn attention(&self, layer: usize, prefix: &str, x: &[Row]) -> Vec<Row> {
        let head_dim = self.head_dim();
        let heads = self.size("num_attention_heads");
        let group = heads / self.optional_size("num_key_value_heads").unwrap_or(heads);
        let (frequencies, growth) = self.rope();
        let part = |kind: &str, position: usize| -> Vec<Row> {
            let mut row = self.project(&format!("{prefix}.{kind}_proj"), &x[position]);
            let norm = format!("{prefix}.{kind}_norm");
            let has_norm = self.tensors.contains_key(&format!("{norm}.weight"));
            let is_whole = self.architecture() == "OlmoeForCausalLM";
            if has_norm && is_whole {
                row = self.normed(&norm, &row);
            }
            if let Some(limit) = self.config["clip_qkv"].as_f64() {
                row = row.iter().map(|x| x.clamp(-limit, limit)).collect();
            }
            let heads = row.chunks(head_dim).map(<[f64]>::to_vec);
            let heads = heads.map(|head| if has_norm && !is_whole { self.normed(&norm, &head) } else { head });
            heads.map(|head| if kind == "v" { head } else { rotated(&head, position, &frequencies, growth) }).collect()
        };
        let of = |kind: &str| -> Vec<Vec<Row>> { (0..x.len()).map(|position| part(kind, position)).collect() };
        let (queries, keys, values) = (of("q"), of("k"), of("v"));
        let window = self.window(layer).unwrap_or(usize::MAX);
        (0..x.len())
            .map(|position| {
                let seen = (position + 1).saturating_sub(window)..position + 1;
                let mixed: Row = (0..heads)
                    .flat_map(|head| {
                        let query = &queries[position][head];
                        let scores: Row = seen
                            .clone()
                            .map(|at| dot(query, &keys[at][head / group]) / (head_dim as f64).sqrt())
                            .collect();
                        let shares = softmax(&scores);
                        let mut out = vec![0.0; head_dim];
                        for (at, share) in seen.clone().zip(shares) {
                            let value = &values[at][head / group];
                            out.iter_mut().zip(value).for_each(|(out, value)| *out += share * value);
                        }
                        out
                    })
                    .collect();
                self.project(&format!("{prefix}.o_proj"), &mixed)
            })
            .collect()
    }

    /// Mistral and Mixtral: all layers. Qwen: where it is switched on; the older ones above a certain layer. The types of layers, where
    /// they are listed, decide.
    fn window(&self, layer: usize) -> Option<usize> {
        let window = self.optional_size("sliding_window")?;
        let is_qwen = self.architecture().starts_with("Qwen");
        if is_qwen && !self.is("use_sliding_window") {
            return None;
        }
        let applies = match &self.config["layer_types"] {
            Value::Array(types) => types[layer] == "sliding_attention",
            _ if self.architecture() == "Qwen3MoeForCausalLM" || !is_qwen => true,
            _ => layer >= self.optional_size("max_window_layers").unwrap_or(28),
        };
        applies.then_some(window)
    }

    /// Radians per token of each pair, and what the rotated numbers are multiplied by.
    fn rope(&self) -> (Row, f64) {
        let head_dim = self.head_dim() as f64;
        let given = [&self.config["rope_scaling"], &self.config["rope_parameters"]];
        let parameters = given.into_iter().find(|value| value.is_object()).cloned().unwrap_or_default();
        let number = |key: &str| parameters[key].as_f64();
        let usual_theta = if self.architecture() == "MixtralForCausalLM" { 1e6 } else { 1e4 };
        let theta = number("rope_theta").or(self.config["rope_theta"].as_f64()).unwrap_or(usual_theta);
        let plain: Row = (0..self.head_dim() / 2).map(|i| 1.0 / theta.powf(2.0 * i as f64 / head_dim)).collect();
        let factor = number("factor").unwrap_or(1.0);
        let context = self.config["original_max_position_embeddings"]
            .as_f64()
            .or(number("original_max_position_embeddings"))
            .unwrap_or(self.size("max_position_embeddings") as f64);
        match parameters["rope_type"].as_str().or(parameters["type"].as_str()).unwrap_or("default") {
            "default" => (plain, 1.0),
            "linear" => (plain.iter().map(|f| f / factor).collect(), 1.0),
            "llama3" => {
                let (low, high) = (number("low_freq_factor").expect("low"), number("high_freq_factor").expect("high"));
                let stretched = plain.iter().map(|&f| {
                    let wavelength = TAU / f;
                    if wavelength < context / high {
                        f
                    } else if wavelength > context / low {
                        f / factor
                    } else {
                        let smooth = (context / wavelength - low) / (high - low);
                        (1.0 - smooth) * f / factor + smooth * f
                    }
                });
                (stretched.collect(), 1.0)
            }
            "yarn" => {
                let turns_at = |turns: f64| head_dim * (context / (turns * TAU)).ln() / (2.0 * theta.ln());
                let mut low = turns_at(number("beta_fast").unwrap_or(32.0));
                let mut high = turns_at(number("beta_slow").unwrap_or(1.0));
                if parameters.get("truncate").is_none_or(|truncate| *truncate == true) {
                    (low, high) = (low.floor(), high.ceil());
                }
                (low, high) = (low.max(0.0), high.min(head_dim - 1.0));
                let stretched = plain.iter().enumerate().map(|(i, f)| {
                    let ramp = ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
                    f / factor * ramp + f * (1.0 - ramp)
                });
                let scale = |mscale: f64| 0.1 * mscale * factor.ln() + 1.0;
                let growth =
                    number("attention_factor").unwrap_or_else(|| match (number("mscale"), number("mscale_all_dim")) {
                        (Some(one), Some(all)) => scale(one) / scale(all),
                        _ => scale(1.0),
                    });
                (stretched.collect(), growth)
            }
            other => panic!("rope {other}"),
        }
    }

    fn feed_forward(&self, layer: usize, prefix: &str, x: &[f64]) -> Row {
        let gated = |[gate, up, down]: [&str; 3]| {
            let gate = self.project(gate, x);
            let up = self.project(up, x);
            let inner: Row = gate.iter().zip(up).map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up).collect();
            self.project(down, &inner)
        };
        let is_mixtral = self.architecture() == "MixtralForCausalLM";
        let is_sparse = match self.architecture() {
            "OlmoeForCausalLM" | "MixtralForCausalLM" => true,
            "Qwen3MoeForCausalLM" => {
                let only_dense =
                    self.config["mlp_only_layers"].as_array().is_some_and(|all| all.contains(&layer.into()));
                let has_experts = self.config["num_experts"] != 0;
                has_experts
                    && !only_dense
                    && (layer + 1).is_multiple_of(self.optional_size("decoder_sparse_step").unwrap_or(1))
            }
            _ => false,
        };
        let block = format!("{prefix}.{}", if is_mixtral { "block_sparse_moe" } else { "mlp" });
        if !is_sparse {
            let names = ["gate_proj", "up_proj", "down_proj"].map(|name| format!("{block}.{name}"));
            return gated(names.each_ref().map(String::as_str));
        }
        let probabilities = softmax(&self.project(&format!("{block}.gate"), x));
        let mut order: Vec<usize> = (0..probabilities.len()).collect();
        order.sort_by(|&a, &b| probabilities[b].total_cmp(&probabilities[a]));
        let chosen = &order[..self.size("num_experts_per_tok")];
        let sum: f64 = chosen.iter().map(|&expert| probabilities[expert]).sum();
        let divisor = if is_mixtral || self.is("norm_topk_prob") { sum } else { 1.0 };
        let mut y = vec![0.0; x.len()];
        for &expert in chosen {
            let names = if is_mixtral { ["w1", "w3", "w2"] } else { ["gate_proj", "up_proj", "down_proj"] };
            let names = names.map(|name| format!("{block}.experts.{expert}.{name}"));
            let out = gated(names.each_ref().map(String::as_str));
            y.iter_mut().zip(out).for_each(|(y, out)| *y += probabilities[expert] / divisor * out);
        }
        y
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn softmax(scores: &[f64]) -> Row {
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Row = scores.iter().map(|score| (score - max).exp()).collect();
    let total: f64 = powers.iter().sum();
    powers.iter().map(|power| power / total).collect()
}

/// Element `i` turns with element `i + n`.
fn rotated(head: &[f64], position: usize, frequencies: &[f64], growth: f64) -> Row {
    let n = frequencies.len();
    let turned = |i: usize| {
        let (sin, cos) = (position as f64 * frequencies[i % n]).sin_cos();
        let partner = if i < n { -head[i + n] } else { head[i - n] };
        (head[i] * cos + partner * sin) * growth
    };
    (0..2 * n).map(turned).collect()
}
