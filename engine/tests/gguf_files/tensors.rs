//! What is in the tensors: the bits of the folder that a file was made from, every type of blocks, and numbers that are none.

use engine::runner::Logits;
use engine::sampling::Random;
use engine::weights::{self, ElementType};
use kernels::cpu::Isa;
use serde_json::json;

use crate::support::gguf::{self, TensorData};
use crate::support::weight_files::{logits, not_finite, refusal};
use crate::support::{self, ids, models, open, runner};

#[test]
fn a_gguf_file_gives_the_bits_of_the_folder_it_was_made_from() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let mut said = 0;
    for model in support::families_and_options() {
        let source = models().join(&model);
        let config = support::json(&source.join("config.json"));
        if !gguf::can_say(&config) {
            continue;
        }
        said += 1;
        std::fs::write(&path, gguf::from_folder(&source)).expect("written");
        let prompt = ids(&support::json(&source.join("reference.json"))["prompt_ids"]);
        let (from_file, from_folder) = (logits(&path, &prompt), logits(&source, &prompt));
        if config["rope_scaling"]["rope_type"] == "llama3" {
            // Its frequencies went through single precision.
            let off = |(a, b): (&u32, &u32)| (f32::from_bits(*a) - f32::from_bits(*b)).abs();
            let worst = from_file.iter().zip(&from_folder).map(off).fold(0.0, f32::max);
            assert!(worst < 2e-3, "{model}: off by {worst}");
        } else {
            assert!(from_file == from_folder, "{model}");
        }
    }
    assert!(said > support::families().len(), "{said} models");
}

/// The types a GGUF file may have, with their numbers and where a block has f16 scales.
const GGUF_TYPES: [(ElementType, u32, &[usize]); 10] = [
    (ElementType::F16, 1, &[]),
    (ElementType::Bf16, 30, &[]),
    (ElementType::Q4_0, 2, &[0]),
    (ElementType::Q4_1, 3, &[0, 2]),
    (ElementType::Q5_0, 6, &[0]),
    (ElementType::Q5_1, 7, &[0, 2]),
    (ElementType::Q8_0, 8, &[0]),
    (ElementType::Q4K, 12, &[0, 2]),
    (ElementType::Q5K, 13, &[0, 2]),
    (ElementType::Q6K, 14, &[208]),
];

/// The matrices of a model with rows of whole blocks of every type, whatever its feed-forward block.
const WIDE: [(&str, &[u64]); 5] = [
    ("token_embd", &[512, 256]),
    ("blk.0.attn_q", &[256, 256]),
    ("blk.0.attn_k", &[128, 256]),
    ("blk.0.attn_v", &[128, 256]),
    ("blk.0.attn_output", &[256, 256]),
];
/// One feed-forward block for all tokens.
const WIDE_DENSE: [(&str, &[u64]); 3] =
    [("blk.0.ffn_gate", &[512, 256]), ("blk.0.ffn_up", &[512, 256]), ("blk.0.ffn_down", &[256, 512])];
/// Four experts.
const WIDE_EXPERTS: [(&str, &[u64]); 3] = [
    ("blk.0.ffn_gate_exps", &[4, 512, 256]),
    ("blk.0.ffn_up_exps", &[4, 512, 256]),
    ("blk.0.ffn_down_exps", &[4, 256, 512]),
];

/// The tensors of a wide model: made-up ones of one type, norms of ones, and for experts a router.
fn random_tensors(element: ElementType, kind: u32, feed_forward: &[(&str, &[u64])]) -> Vec<TensorData> {
    let mut random = Random::new(7);
    let (_, _, scales) = GGUF_TYPES.iter().find(|(other, ..)| *other == element).expect("a type of the format");
    let (elements, block_bytes) = element.block();
    let floats = |name: &str, shape: &[u64], numbers: Vec<f32>| {
        let bytes = numbers.into_iter().flat_map(f32::to_le_bytes).collect();
        TensorData { name: format!("{name}.weight"), shape: shape.to_vec(), kind: 0, bytes }
    };
    let norms = ["output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"];
    let mut small: Vec<_> = norms.iter().map(|name| floats(name, &[256], vec![1.0; 256])).collect();
    if feed_forward == WIDE_EXPERTS {
        let numbers = (0..4 * 256).map(|_| (random.bits() % 1024) as f32 / 1024.0 - 0.5).collect();
        small.push(floats("blk.0.ffn_gate_inp", &[4, 256], numbers));
    }
    let matrix = |(name, shape): (&str, &[u64])| {
        let mut bytes = Vec::new();
        for _ in 0..shape.iter().product::<u64>() as usize / elements {
            let block = bytes.len();
            bytes.extend((0..block_bytes).map(|_| random.bits() as u8));
            for at in *scales {
                // Between 2⁻¹² and 2⁻¹¹.
                bytes[block + at + 1] = 0x0c | (bytes[block + at + 1] & 0x83);
            }
            if scales.is_empty() {
                // Smaller than one, whether f16 or bfloat16.
                bytes[block + 1] &= 0xb7;
            }
        }
        TensorData { name: format!("{name}.weight"), shape: shape.to_vec(), kind, bytes }
    };
    WIDE.iter().chain(feed_forward).copied().map(matrix).chain(small).collect()
}

/// A GGUF file of a model with the shapes of [`random_tensors`].
fn wide_gguf(tensors: &[TensorData]) -> Vec<u8> {
    let folder = models().join("llama_tied");
    let mut config = support::json(&folder.join("config.json"));
    for (key, value) in [
        ("hidden_size", 256),
        ("intermediate_size", 512),
        ("num_hidden_layers", 1),
        ("num_attention_heads", 4),
        ("num_key_value_heads", 2),
        ("head_dim", 64),
    ] {
        config[key] = json!(value);
    }
    if tensors.iter().any(|tensor| tensor.name.contains("_exps")) {
        config["architectures"] = json!(["MixtralForCausalLM"]);
        config["num_local_experts"] = json!(4);
        config["num_experts_per_tok"] = json!(2);
    }
    gguf::with_tensors(&config, &support::json(&folder.join("tokenizer.json")), tensors)
}

#[test]
fn a_gguf_file_of_any_type_gives_the_bits_of_its_expanded_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let (stored, expanded) = (folder.path().join("stored.gguf"), folder.path().join("expanded.gguf"));
    let prompt: Vec<u32> = (0..40).map(|at| at * 11 % 509).collect();
    let models = [WIDE_DENSE, WIDE_EXPERTS];
    for ((element, kind, _), feed_forward) in GGUF_TYPES.iter().flat_map(|kind| models.map(|model| (*kind, model))) {
        let tensors = random_tensors(element, kind, &feed_forward);
        std::fs::write(&stored, wide_gguf(&tensors)).expect("written");
        let wide = tensors.into_iter().map(|tensor| {
            if tensor.kind == 0 {
                return tensor;
            }
            let mut numbers = vec![0.0; tensor.shape.iter().product::<u64>() as usize];
            element.expand(Isa::scalar(), &tensor.bytes, &mut numbers);
            let bytes = numbers.into_iter().flat_map(f32::to_le_bytes).collect();
            TensorData { kind: 0, bytes, ..tensor }
        });
        std::fs::write(&expanded, wide_gguf(&wide.collect::<Vec<_>>())).expect("written");
        let got = logits(&stored, &prompt);
        assert!(got.iter().all(|&bits| f32::from_bits(bits).is_finite()), "{}", element.name());
        assert!(got == logits(&expanded, &prompt), "{}", element.name());
        // One token at a time takes another way through the products.
        let mut runner = runner(&open(&stored), 16, 1);
        let mut sequence = runner.start();
        let one_by_one = runner.extend(&mut sequence, &prompt, Logits::All).expect("there is room");
        runner.release(sequence).expect("it held its pages");
        assert!(got == one_by_one.into_iter().map(f32::to_bits).collect::<Vec<_>>(), "{}", element.name());
        assert!(runner.built().weight_bytes < 3 * runner.built().parameters, "{} was expanded", element.name());
    }
}

#[test]
fn a_divisor_of_frequencies_that_is_no_positive_number_is_refused_with_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    // Its divisors are those of Llama 3; they are the first tensor of the file.
    let bytes = gguf::from_folder(&models().join("llama"));
    std::fs::write(&path, &bytes).expect("written");
    assert_eq!(refusal(&path), None);
    let (_, weights) = weights::gguf::open(&path).expect("a file");
    let others: usize = weights.iter().map(|(_, tensor)| tensor.stored_bytes().next_multiple_of(32)).sum();
    let start = bytes.len() - others;
    for (number, shown) in [
        (0.0, "0"),
        (-0.0, "-0"),
        (-1.5, "-1.5"),
        (f32::NAN, "NaN"),
        (f32::INFINITY, "inf"),
        (f32::NEG_INFINITY, "-inf"),
    ] {
        let mut changed = bytes.clone();
        changed[start + 12..start + 16].copy_from_slice(&number.to_le_bytes());
        std::fs::write(&path, changed).expect("written");
        let error = refusal(&path).unwrap_or_else(|| panic!("{number} was accepted"));
        let part = format!("tensor `rope_freqs.weight` has {shown} as element 3, at offset {}", start + 12);
        assert!(error.contains(&part) && error.contains("positive number"), "`{part}` is missing in: {error}");
    }
}

/// In a quantised type, a scale makes all of its block infinite.
#[test]
fn a_scale_that_is_no_number_is_found_on_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let mut tensors = random_tensors(ElementType::Q8_0, 8, &WIDE_DENSE);
    let down = tensors.iter_mut().find(|tensor| tensor.name == "blk.0.ffn_down.weight").expect("it is there");
    down.bytes[34 * 3..34 * 3 + 2].copy_from_slice(&[0x00, 0x7c]);
    std::fs::write(&path, wide_gguf(&tensors)).expect("written");
    let error = not_finite(&path).expect("refused");
    assert!(error.contains("`blk.0.ffn_down.weight` has") && error.contains("as element 96, at offset"), "{error}");
}

#[test]
fn a_tensor_with_a_name_of_older_folders_has_no_place_in_a_gguf_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let mut tensors = random_tensors(ElementType::Q8_0, 8, &WIDE_DENSE);
    std::fs::write(&path, wide_gguf(&tensors)).expect("written");
    assert_eq!(refusal(&path), None);
    let name = "blk.0.self_attn.rotary_emb.inv_freq";
    tensors.push(TensorData { name: name.into(), shape: vec![1], kind: 0, bytes: vec![0; 4] });
    std::fs::write(&path, wide_gguf(&tensors)).expect("written");
    let error = refusal(&path).expect("left over");
    assert!(error.contains(&format!("`{name}` has no place in the model")), "{error}");
}

#[test]
fn experts_of_a_gguf_file_are_searched_for_what_is_no_number() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let mut bytes = gguf::from_folder(&models().join("mixtral"));
    let check = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("written");
        not_finite(&path)
    };
    assert_eq!(check(&bytes), None);
    // The last element of the last expert.
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    let error = check(&bytes).expect("refused");
    assert!(error.contains("_exps.weight` has NaN as element"), "{error}");
}
