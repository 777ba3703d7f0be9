//! What a file says of its model: sizes, kinds of layers, positions, the chat template.

use engine::model::ModelConfig;
use engine::text::{Message, SpecialTokens};
use engine::weights;

use crate::support::gguf::{self, Meta, TensorData};
use crate::support::weight_files::refusal;
use crate::support::{models, open};
use crate::{GgufFile, gguf_file, pair};

#[test]
fn a_gguf_file_says_what_its_folder_says() {
    let source = models().join("llama_tied");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, gguf::from_folder(&source)).expect("written");
    let (from_file, from_folder) = (open(&path), open(&source));
    assert_eq!(from_file.config(), from_folder.config());
    assert_eq!(from_file.stop_token_ids(), from_folder.stop_token_ids());
    let ids = from_file.tokenizer().expect("a vocabulary").encode("a", SpecialTokens::Add).expect("encodes");
    assert_eq!(ids[0], 509, "the file asks for a beginning-of-text token");
    let ids = from_file.tokenizer().expect("a vocabulary").encode("a", SpecialTokens::AsWritten).expect("encodes");
    assert_ne!(ids[0], 509);
}

/// The bytes of a GGUF file with two more pairs in front, the first of which is `first`; tensors stay where they are aligned.
fn with_pair_in_front(bytes: &[u8], first: &[u8]) -> Vec<u8> {
    let filler = pair("filler", 8, &0_u64.to_le_bytes()).len();
    let missing = (first.len() + filler).next_multiple_of(32) - first.len() - filler;
    let filler = pair("filler", 8, &[&(missing as u64).to_le_bytes()[..], &vec![b' '; missing]].concat());
    let mut out = [&bytes[..24], first, &filler, &bytes[24..]].concat();
    let pairs = u64::from_le_bytes(bytes[16..24].try_into().expect("eight bytes"));
    out[16..24].copy_from_slice(&(pairs + 2).to_le_bytes());
    out
}

#[test]
fn a_chat_template_in_a_gguf_file_is_used_or_refused_by_name() {
    let GgufFile { path, bytes, .. } = &gguf_file();
    let with = |kind: u32, value: &[u8]| {
        let pair = pair("tokenizer.chat_template", kind, value);
        std::fs::write(path, with_pair_in_front(bytes, &pair)).expect("written");
    };
    let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    with(8, &text("{{ messages[0].content }}{{ eos_token }}"));
    assert_eq!(refusal(path), None);
    let checkpoint = open(path);
    let template = checkpoint.chat_template().expect("a template");
    assert!(template.render(&[Message::user("hi")]).expect("renders").starts_with("hi"));
    with(8, &text("{% if %}"));
    let error = refusal(path).expect("no template");
    assert!(error.contains("chat template: "), "{error}");
    with(4, &1_u32.to_le_bytes());
    let error = refusal(path).expect("no text");
    assert!(error.contains("`tokenizer.chat_template` is not text"), "{error}");
}

/// What is said of the smallest model of an architecture with these keys changed or added; nothing where it can be computed.
fn said_of_model(tensors: &[TensorData], name: &str, changes: Vec<(&str, Meta<'static>)>) -> String {
    config_of(tensors, name, changes).err().unwrap_or_default()
}

fn config_of(tensors: &[TensorData], name: &str, changes: Vec<(&str, Meta<'static>)>) -> Result<ModelConfig, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let mut keys = vec![
        ("block_count", Meta::U32(1)),
        ("context_length", Meta::U32(64)),
        ("embedding_length", Meta::U32(8)),
        ("feed_forward_length", Meta::U32(8)),
        ("attention.head_count", Meta::U32(2)),
        ("attention.layer_norm_rms_epsilon", Meta::F32(1e-5)),
        ("vocab_size", Meta::U32(10)),
    ];
    keys.retain(|(key, _)| changes.iter().all(|(changed, _)| changed != key));
    let all: Vec<(String, Meta<'_>)> =
        keys.into_iter().chain(changes).map(|(key, value)| (format!("{name}.{key}"), value)).collect();
    let mut metadata: Vec<(&str, Meta<'_>)> = vec![("general.architecture", Meta::Text(name))];
    let (keys, values): (Vec<String>, Vec<Meta<'_>>) = all.into_iter().unzip();
    metadata.extend(keys.iter().map(String::as_str).zip(values));
    std::fs::write(&path, gguf::write(&metadata, tensors)).expect("written");
    let (metadata, weights) = weights::gguf::open(&path).expect("a file");
    ModelConfig::from_gguf(&metadata, &weights).map_err(|error| error.to_string())
}

#[test]
fn biases_of_a_gguf_model_are_those_that_it_has_and_its_architecture_may_have() {
    use engine::model::AttentionBias::{All, None, QueryKeyValue};
    let bias = |name: &str| TensorData { name: name.into(), shape: vec![8], kind: 0, bytes: vec![0; 32] };
    let tensors = [bias("blk.0.attn_q.bias"), bias("blk.0.ffn_gate.bias")];
    let biases = |tensors: &[TensorData], name: &str| {
        let config = config_of(tensors, name, vec![]).unwrap_or_else(|error| panic!("{error}"));
        (config.attention_bias, config.mlp_bias)
    };
    assert_eq!((biases(&[], "llama"), biases(&tensors, "llama")), ((None, false), (All, true)));
    assert_eq!((biases(&[], "qwen2"), biases(&tensors, "qwen2")), ((QueryKeyValue, false), (QueryKeyValue, false)));
}

/// Four experts, of which a token goes to two, and other keys.
fn experts(changes: Vec<(&'static str, Meta<'static>)>) -> Vec<(&'static str, Meta<'static>)> {
    let mut all = vec![("expert_count", Meta::U32(4)), ("expert_used_count", Meta::U32(2))];
    all.extend(changes);
    all
}

/// Positions that are stretched, and other keys.
fn yarn(changes: Vec<(&'static str, Meta<'static>)>) -> Vec<(&'static str, Meta<'static>)> {
    let mut all = vec![("rope.scaling.type", Meta::Text("yarn"))];
    all.extend(changes);
    all
}

fn stretched() -> (&'static str, Meta<'static>) {
    ("rope.scaling.factor", Meta::F32(2.0))
}

#[test]
fn gguf_models_that_cannot_be_computed_are_refused_by_name() {
    let refuse = |name: &str, changes: Vec<(&str, Meta<'static>)>| said_of_model(&[], name, changes);
    let divisors = TensorData { name: "rope_freqs.weight".into(), shape: vec![2], kind: 0, bytes: vec![0; 8] };
    let divisors = std::slice::from_ref(&divisors);
    assert_eq!(said_of_model(divisors, "llama", vec![]), "");
    let linear = vec![("rope.scaling.type", Meta::Text("linear")), ("rope.scaling.factor", Meta::F32(2.0))];
    let error = said_of_model(divisors, "llama", linear);
    assert!(error.contains("linear together with tensor `rope_freqs.weight`"), "{error}");
    assert_eq!(refuse("llama", vec![]), "", "as it stands it is a model");
    assert_eq!(refuse("llama", experts(vec![])), "");
    assert_eq!(refuse("olmoe", experts(vec![("expert_gating_func", Meta::U32(1))])), "", "the one that is computed");
    let cases = [
        (refuse("gemma", vec![]), "GGUF architecture gemma (known: llama, olmoe, qwen2, qwen3, qwen3moe)"),
        (refuse("qwen2", experts(vec![])), "not supported: `qwen2.expert_count` in GGUF architecture qwen2"),
        (refuse("olmoe", vec![]), "`olmoe.expert_count` is missing or 0"),
        (refuse("qwen3moe", vec![("expert_count", Meta::U32(4))]), "`qwen3moe.expert_used_count` is missing"),
        (refuse("olmoe", experts(vec![("expert_gating_func", Meta::U32(2))])), "`olmoe.expert_gating_func` = 2"),
        (refuse("olmoe", experts(vec![("expert_shared_count", Meta::U32(1))])), "`olmoe.expert_shared_count`"),
        (refuse("olmoe", experts(vec![("attention.clamp_kqv", Meta::F32(0.0))])), "clip_qkv is 0"),
        (refuse("llama", vec![("attention.clamp_kqv", Meta::F32(8.0))]), "`llama.attention.clamp_kqv` = 8"),
        (refuse("qwen2", vec![("attention.sliding_window", Meta::U32(8))]), "`qwen2.attention.sliding_window` = 8"),
        (refuse("llama", vec![("rope.scaling.type", Meta::Text("longrope"))]), "longrope (known: none, linear, yarn)"),
        (refuse("llama", vec![("rope.scaling.type", Meta::Text("linear"))]), "`llama.rope.scaling.factor` is missing"),
        (refuse("llama", yarn(vec![])), "`llama.rope.scaling.factor` is missing"),
        (refuse("llama", yarn(vec![stretched()])), "`llama.rope.scaling.original_context_length` is missing"),
        (refuse("llama", vec![("attention.head_count", Meta::U32(3))]), "no multiple of head_count"),
        (refuse("qwen3", vec![("rope.scaling.yarn_log_mul", Meta::F32(0.1))]), "`qwen3.rope.scaling.yarn_log_mul`"),
        (refuse("qwen3", vec![("rope.dimension_count", Meta::U32(2))]), "2 where a head has 4 elements"),
        (refuse("qwen3", vec![("block_count", Meta::U32(1 << 30))]), "number of layers"),
        (refuse("llama", vec![("block_count", Meta::U32(0))]), "number of layers 0 is not within 1..="),
        (refuse("llama", vec![("embedding_length", Meta::U32(0))]), "hidden size 0 is not within 1..="),
        (refuse("llama", vec![("feed_forward_length", Meta::U32(0))]), "intermediate size 0 is not within 1..="),
        (refuse("llama", vec![("attention.head_count", Meta::U32(0))]), "number of attention heads 0 is not within"),
        (refuse("llama", vec![("attention.head_count_kv", Meta::U32(0))]), "number of key-value heads 0 is not within"),
        (refuse("llama", vec![("attention.key_length", Meta::U32(0))]), "head dimension 0 is not within 1..="),
        (refuse("llama", vec![("vocab_size", Meta::U32(0))]), "vocabulary size 0 is not within 1..="),
        (refuse("llama", vec![("context_length", Meta::U32(0))]), "context length 0 is not within 1..="),
        (refuse("llama", vec![("attention.sliding_window", Meta::U32(0))]), "a sliding window of 0 tokens"),
        (refuse("llama", vec![("rope.freq_base", Meta::F32(0.0))]), "rope: theta is 0"),
        (refuse("llama", vec![("rope.freq_base", Meta::F32(f32::INFINITY))]), "rope: theta is inf"),
        (refuse("olmoe", experts(vec![("attention.clamp_kqv", Meta::F32(f32::INFINITY))])), "clip_qkv is inf"),
        (refuse("llama", vec![("attention.layer_norm_rms_epsilon", Meta::F32(f32::NAN))]), "epsilon NaN"),
        (refuse("llama", vec![("attention.layer_norm_rms_epsilon", Meta::F32(f32::INFINITY))]), "epsilon inf"),
        (refuse("olmoe", vec![("expert_count", Meta::U32(0))]), "`olmoe.expert_count` is missing or 0"),
        (
            refuse("olmoe", vec![("expert_count", Meta::U32(4)), ("expert_used_count", Meta::U32(0))]),
            "number of experts per token 0 is not within 1..=4",
        ),
        (
            refuse("olmoe", experts(vec![("expert_feed_forward_length", Meta::U32(0))])),
            "intermediate size of an expert 0 is not within",
        ),
    ];
    for (error, part) in cases {
        assert!(error.contains(part), "`{part}` is missing in: {error}");
    }
}

#[test]
fn a_key_of_a_gguf_model_of_the_wrong_type_is_named() {
    let wrong_types = [
        ("llama", vec![], "expert_count", "a size"),
        ("llama", vec![], "block_count", "a size"),
        ("llama", vec![], "vocab_size", "a size"),
        ("llama", vec![], "attention.head_count_kv", "a size"),
        ("llama", vec![], "attention.key_length", "a size"),
        ("llama", vec![], "attention.value_length", "a size"),
        ("llama", vec![], "rope.dimension_count", "a size"),
        ("llama", vec![], "attention.sliding_window", "a size"),
        ("llama", vec![], "attention.layer_norm_rms_epsilon", "a number"),
        ("llama", vec![], "rope.freq_base", "a number"),
        ("llama", vec![], "rope.scaling.type", "text"),
        ("llama", yarn(vec![]), "rope.scaling.factor", "a number"),
        ("llama", yarn(vec![stretched()]), "rope.scaling.yarn_beta_fast", "a number"),
        ("llama", yarn(vec![stretched()]), "rope.scaling.yarn_beta_slow", "a number"),
        ("llama", yarn(vec![stretched()]), "rope.scaling.original_context_length", "a size"),
        ("olmoe", experts(vec![]), "attention.clamp_kqv", "a number"),
        ("olmoe", experts(vec![]), "feed_forward_length", "a size"),
        ("olmoe", experts(vec![("expert_feed_forward_length", Meta::U32(8))]), "feed_forward_length", "a size"),
        ("olmoe", experts(vec![]), "expert_feed_forward_length", "a size"),
        ("olmoe", experts(vec![]), "expert_gating_func", "a size"),
        ("olmoe", experts(vec![]), "expert_weights_norm", "true or false"),
    ];
    for (name, mut changes, key, wanted) in wrong_types {
        let bytes = if wanted == "text" { Meta::U32(1) } else { Meta::Text("1") };
        changes.push((key, bytes));
        let said = said_of_model(&[], name, changes);
        assert!(said.contains(&format!("`{name}.{key}` is not {wanted}")), "{key}: {said}");
    }
}
