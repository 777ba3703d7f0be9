//! The small models once more, in plain loops that share nothing with the engine: in double precision, and with every number
//! rounded to 16 bits where the kernels write one.
//!
//! Attention weights are not rounded, which the kernels of tensor cores do: what is held to this is held to a little less than its
//! own rounding.

use std::collections::BTreeMap;
use std::iter::repeat_n;

use serde_json::Value;

use kernel_tests::references::folder;

use super::safetensors;

/// What numbers between two operations are kept as.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbers {
    Double,
    Bf16,
}

impl Numbers {
    fn round(self, number: f64) -> f64 {
        match self {
            Self::Double => number,
            Self::Bf16 => {
                let bits = (number as f32).to_bits();
                f64::from(f32::from_bits((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff_0000))
            }
        }
    }

    fn round_all(self, numbers: impl IntoIterator<Item = f64>) -> Vec<f64> {
        numbers.into_iter().map(|number| self.round(number)).collect()
    }
}

/// A model as its files have it.
pub(super) struct Emulation {
    config: Value,
    tensors: BTreeMap<String, Vec<f64>>,
}

/// What a run comes to.
pub(super) struct Run {
    /// `[tokens, vocabulary]`
    pub(super) logits: Vec<f32>,
    /// The router's logits of each layer and token; empty for a model without experts.
    pub(super) routers: Vec<Vec<Vec<f64>>>,
}

/// The experts of each layer and token, the likeliest first.
pub(super) type Choices = Vec<Vec<Vec<usize>>>;

/// A vector per token.
type Vectors = Vec<Vec<f64>>;

fn sum_of_products(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The numbers of the `count` largest, the larger first, and of equal ones the first.
pub(super) fn largest(numbers: &[f64], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by(|&a, &b| numbers[b].total_cmp(&numbers[a]));
    order.truncate(count);
    order
}

/// How likely each expert is, the chosen ones with what they weigh.
pub(super) fn expert_weights(logits: &[f64], chosen: &[usize], is_renormalised: bool) -> Vec<f64> {
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let of = |expert: usize| (logits[expert] - most).exp();
    let all: f64 =
        if is_renormalised { chosen.iter().map(|&expert| of(expert)).sum() } else { (0..logits.len()).map(of).sum() };
    chosen.iter().map(|&expert| of(expert) / all).collect()
}

impl Emulation {
    pub(super) fn of(model: &str) -> Self {
        let path = folder(model);
        let config = std::fs::read_to_string(path.join("config.json")).expect("readable");
        let (header, data) = safetensors::read(&path.join("model.safetensors"));
        let tensor = |(name, entry): (&String, &Value)| {
            assert_eq!(entry["dtype"], "BF16", "{name}");
            let (bits, _) = safetensors::bytes(entry, &data).as_chunks::<2>();
            let numbers = bits.iter().map(|&bits| f32::from_bits(u32::from(u16::from_le_bytes(bits)) << 16).into());
            (name.trim_start_matches("model.").to_owned(), numbers.collect())
        };
        Self {
            config: serde_json::from_str(&config).expect("JSON"),
            tensors: safetensors::tensors(&header).map(tensor).collect(),
        }
    }

    fn number(&self, key: &str) -> Option<usize> {
        self.config[key].as_u64().map(|number| number as usize)
    }

    fn size(&self, key: &str) -> usize {
        self.number(key).unwrap_or_else(|| panic!("{key}"))
    }

    fn heads(&self) -> usize {
        self.size("num_attention_heads")
    }

    fn head_dim(&self) -> usize {
        self.number("head_dim").unwrap_or_else(|| self.size("hidden_size") / self.heads())
    }

    /// Experts in all, and of each token; whether what those weigh sums to one.
    pub(super) fn experts(&self) -> Option<(usize, usize, bool)> {
        let count = self.number("num_local_experts").or_else(|| self.number("num_experts"))?;
        let is_renormalised = self.config["model_type"] == "mixtral" || self.config["norm_topk_prob"] == true;
        Some((count, self.size("num_experts_per_tok"), is_renormalised))
    }

    pub(super) fn layers(&self) -> usize {
        self.size("num_hidden_layers")
    }

    fn linear(&self, numbers: Numbers, name: &str, inputs: &Vectors) -> Vectors {
        let weight = &self.tensors[&format!("{name}.weight")];
        let bias = self.tensors.get(&format!("{name}.bias"));
        let row = |input: &Vec<f64>| {
            let products = weight.chunks_exact(input.len()).map(|row| sum_of_products(row, input));
            match bias {
                Some(bias) => numbers.round_all(products.zip(bias).map(|(product, bias)| product + bias)),
                None => numbers.round_all(products),
            }
        };
        inputs.iter().map(row).collect()
    }

    /// `input` with a length of one per element, times `weight`.
    fn normalised(&self, input: &[f64], weight: &[f64]) -> Vec<f64> {
        let epsilon = self.config["rms_norm_eps"].as_f64().expect("a number");
        let scale = 1.0 / (sum_of_products(input, input) / input.len() as f64 + epsilon).sqrt();
        input.iter().zip(weight).map(|(number, weight)| number * scale * weight).collect()
    }

    fn norm(&self, numbers: Numbers, name: &str, inputs: &Vectors) -> Vectors {
        let weight = &self.tensors[&format!("{name}.weight")];
        inputs.iter().map(|input| numbers.round_all(self.normalised(input, weight))).collect()
    }

    /// Radians per position of each pair of elements.
    fn frequencies(&self) -> Vec<f64> {
        let (theta, width) = (self.config["rope_theta"].as_f64().expect("a number"), self.head_dim());
        let plain = (0..width / 2).map(|pair| theta.powf(-2.0 * pair as f64 / width as f64));
        let scaling = &self.config["rope_scaling"];
        if scaling.is_null() {
            return plain.collect();
        }
        assert_eq!(scaling["rope_type"], "llama3");
        let of = |key: &str| scaling[key].as_f64().expect("a number");
        let (factor, low, high) = (of("factor"), of("low_freq_factor"), of("high_freq_factor"));
        let original = of("original_max_position_embeddings");
        plain
            .map(|frequency| {
                let turns = original * frequency / std::f64::consts::TAU;
                let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                frequency * (kept + (1.0 - kept) / factor)
            })
            .collect()
    }

    /// The heads of a row of queries or keys, normalised if the model does that, and turned.
    fn heads_of(&self, numbers: Numbers, norm: &str, row: &[f64], angles: &[f64]) -> Vec<f64> {
        let (width, half) = (self.head_dim(), self.head_dim() / 2);
        let row = match self.tensors.get(&format!("{norm}.weight")) {
            None => row.to_vec(),
            Some(weight) => row.chunks_exact(weight.len()).flat_map(|part| self.normalised(part, weight)).collect(),
        };
        let turned = row.chunks_exact(width).flat_map(|head| {
            (0..width).map(move |i| {
                let (sin, cos) = angles[i % half].sin_cos();
                if i < half { head[i] * cos - head[i + half] * sin } else { head[i] * cos + head[i - half] * sin }
            })
        });
        numbers.round_all(turned)
    }

    fn attention(&self, numbers: Numbers, layer: usize, inputs: &Vectors) -> Vectors {
        let name = |part: &str| format!("layers.{layer}.self_attn.{part}");
        let (width, heads, frequencies) = (self.head_dim(), self.heads(), self.frequencies());
        let group = heads / self.size("num_key_value_heads");
        let projected = |part: &str, norm: &str| -> Vectors {
            let rows = self.linear(numbers, &name(part), inputs);
            let turned = |(position, row): (usize, &Vec<f64>)| {
                let angles: Vec<f64> = frequencies.iter().map(|frequency| position as f64 * frequency).collect();
                self.heads_of(numbers, &name(norm), row, &angles)
            };
            rows.iter().enumerate().map(turned).collect()
        };
        let (queries, keys) = (projected("q_proj", "q_norm"), projected("k_proj", "k_norm"));
        let values = self.linear(numbers, &name("v_proj"), inputs);
        let window = self.number("sliding_window").unwrap_or(usize::MAX);
        let attended = |token: usize| {
            let seen = (token + 1).saturating_sub(window)..=token;
            let head = |head: usize| {
                let own = |vector: &Vec<f64>, head: usize| vector[head * width..(head + 1) * width].to_vec();
                let query = own(&queries[token], head);
                let score = |other| sum_of_products(&query, &own(&keys[other], head / group)) / (width as f64).sqrt();
                let scores: Vec<f64> = seen.clone().map(score).collect();
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
                let mut sum: Vec<f64> = repeat_n(0.0, width).collect();
                for (weight, other) in weights.iter().zip(seen.clone()) {
                    for (sum, value) in sum.iter_mut().zip(own(&values[other], head / group)) {
                        *sum += weight * value;
                    }
                }
                let all: f64 = weights.iter().sum();
                sum.into_iter().map(move |sum| sum / all)
            };
            numbers.round_all((0..heads).flat_map(head))
        };
        let attended = (0..inputs.len()).map(attended).collect();
        self.linear(numbers, &name("o_proj"), &attended)
    }

    /// A gated block; `sums` is what the products with gates and ups are kept as.
    fn gated(&self, (numbers, sums): (Numbers, Numbers), names: [&str; 3], prefix: &str, inputs: &Vectors) -> Vectors {
        let [gate, up, down] = names.map(|name| format!("{prefix}.{name}"));
        let (gates, ups) = (self.linear(sums, &gate, inputs), self.linear(sums, &up, inputs));
        let row = |(gate, up): (&Vec<f64>, &Vec<f64>)| {
            numbers.round_all(gate.iter().zip(up).map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up))
        };
        self.linear(numbers, &down, &gates.iter().zip(&ups).map(row).collect())
    }

    /// The feed-forward block, and the router's logits.
    fn feed_forward(
        &self,
        numbers: Numbers,
        layer: usize,
        inputs: &Vectors,
        forced: Option<&Choices>,
    ) -> (Vectors, Vectors) {
        const NAMES: [&str; 3] = ["gate_proj", "up_proj", "down_proj"];
        let Some((_, per_token, is_renormalised)) = self.experts() else {
            // Gates and ups come from a product of their own, which writes them.
            return (self.gated((numbers, numbers), NAMES, &format!("layers.{layer}.mlp"), inputs), Vec::new());
        };
        let (block, names) = if self.config["model_type"] == "mixtral" {
            ("block_sparse_moe", ["w1", "w3", "w2"])
        } else {
            ("mlp", NAMES)
        };
        let prefix = format!("layers.{layer}.{block}");
        // Logits stay as they are summed.
        let routers = self.linear(Numbers::Double, &format!("{prefix}.gate"), inputs);
        let of_token = |(token, input): (usize, &Vec<f64>)| {
            let logits = &routers[token];
            let chosen = match forced {
                Some(forced) => forced[layer][token].clone(),
                None => largest(logits, per_token),
            };
            let mut sum: Vec<f64> = repeat_n(0.0, input.len()).collect();
            for (expert, weight) in chosen.iter().zip(expert_weights(logits, &chosen, is_renormalised)) {
                let prefix = format!("{prefix}.experts.{expert}");
                // The product of experts writes what is gated, rounded once.
                let output = self.gated((numbers, Numbers::Double), names, &prefix, &vec![input.clone()]);
                for (sum, output) in sum.iter_mut().zip(&output[0]) {
                    *sum += weight * output;
                }
            }
            numbers.round_all(sum)
        };
        (inputs.iter().enumerate().map(of_token).collect(), routers)
    }

    /// Runs a text from its start; tokens go to the experts that are `forced`, or to those the router finds the likeliest.
    pub(super) fn run(&self, numbers: Numbers, tokens: &[u32], forced: Option<&Choices>) -> Run {
        let width = self.size("hidden_size");
        let embedding = &self.tensors["embed_tokens.weight"];
        let mut hidden: Vectors =
            tokens.iter().map(|&id| embedding[id as usize * width..(id as usize + 1) * width].to_vec()).collect();
        let add = |hidden: &mut Vectors, updates: Vectors| {
            for (hidden, update) in hidden.iter_mut().zip(updates) {
                *hidden = numbers.round_all(hidden.iter().zip(update).map(|(number, update)| number + update));
            }
        };
        let mut routers = Vec::new();
        for layer in 0..self.layers() {
            let normed = self.norm(numbers, &format!("layers.{layer}.input_layernorm"), &hidden);
            add(&mut hidden, self.attention(numbers, layer, &normed));
            let normed = self.norm(numbers, &format!("layers.{layer}.post_attention_layernorm"), &hidden);
            let (updates, router) = self.feed_forward(numbers, layer, &normed, forced);
            add(&mut hidden, updates);
            routers.push(router);
        }
        let normed = self.norm(numbers, "norm", &hidden);
        let head = if self.tensors.contains_key("lm_head.weight") { "lm_head" } else { "embed_tokens" };
        let logits = self.linear(Numbers::Double, head, &normed);
        Run { logits: logits.into_iter().flatten().map(|logit| logit as f32).collect(), routers }
    }
}
