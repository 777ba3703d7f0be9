//! A model that says what a test wants it to say.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::{json, models, safetensors};

/// Writes a model into `folder` whose likeliest text is `script`: after each of its tokens comes the next one. No token may be there
/// twice. The vocabulary is that of the small models.
///
/// Its layers add nothing to the embedding; each token of the script has a direction of its own there, in which the head has the
/// next token.
pub(crate) fn write(folder: &Path, script: &[u32]) {
    let from = models().join("llama");
    for file in ["config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"] {
        std::fs::copy(from.join(file), folder.join(file)).expect("copies");
    }
    let config = json(&from.join("config.json"));
    let hidden = config["hidden_size"].as_u64().expect("a number") as usize;
    assert!(script.len() <= hidden, "a script is at most as long as the model is wide");
    let (original, _) = safetensors::read(&from.join("model.safetensors"));
    let (mut header, mut data) = (Map::new(), Vec::new());
    for (name, entry) in safetensors::tensors(&original) {
        let shape: Vec<usize> = serde_json::from_value(entry["shape"].clone()).expect("a shape");
        let is_norm = name.contains("norm");
        let mut values = vec![if is_norm { 1.0_f32 } else { 0.0 }; shape.iter().product()];
        for (direction, pair) in script.windows(2).enumerate() {
            match name.as_str() {
                "model.embed_tokens.weight" => values[pair[0] as usize * hidden + direction] = 1.0,
                "lm_head.weight" => values[pair[1] as usize * hidden + direction] = 4.0,
                _ => {}
            }
        }
        let start = data.len();
        data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        header.insert(name.clone(), json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]}));
    }
    safetensors::write(&folder.join("model.safetensors"), &Value::Object(header), &data);
}
