//! Opening a model: a folder as model hubs lay it out, or a GGUF file.

use std::path::{Path, PathBuf};

use kernels::cpu::Workers;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::model::{Decoder, ModelConfig, Naming, WeightPlan, hub_json};
use crate::text::{ChatTemplate, Tokenizer};
use crate::weights::{Weights, gguf, safetensors};

/// Which kind of checkpoint a path is taken for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadFormat {
    /// Seen from the path: a `.gguf` file, or else a folder.
    #[default]
    Auto,
    /// A folder with `config.json`, `tokenizer.json` and safetensors.
    Safetensors,
    /// A single GGUF file.
    Gguf,
    /// A folder of which `config.json` is enough: weights are made up.
    Dummy,
}

/// Where the weights are.
enum Stored {
    Files(Weights, Naming),
    Nowhere,
}

/// An opened model, of which the weights have not been read yet.
pub struct Checkpoint {
    path: PathBuf,
    config: ModelConfig,
    weights: Stored,
    tokenizer: Option<Tokenizer>,
    chat_template: Option<ChatTemplate>,
    begin_token_id: Option<u32>,
    stop_token_ids: Vec<u32>,
}

impl Checkpoint {
    /// Opens the model at `path`.
    pub fn open(path: &Path, format: LoadFormat) -> Result<Self> {
        let is_gguf = || path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
        match format {
            LoadFormat::Gguf => Self::open_gguf(path),
            LoadFormat::Auto if is_gguf() => Self::open_gguf(path),
            LoadFormat::Auto | LoadFormat::Safetensors => Self::open_folder(path, true),
            LoadFormat::Dummy => Self::open_folder(path, false),
        }
    }

    fn open_gguf(path: &Path) -> Result<Self> {
        let (metadata, weights) = gguf::open(path)?;
        let token = |key: &str| -> Result<Option<(u32, String)>> {
            let Some(id) = metadata.optional_usize(key)? else {
                return Ok(None);
            };
            // The tokenizer has checked these ids.
            let text = metadata.texts("tokenizer.ggml.tokens")?.get(id).map(ToString::to_string);
            Ok(text.map(|text| (id as u32, text)))
        };
        let tokenizer = Tokenizer::from_gguf(&metadata)?;
        let begin = token("tokenizer.ggml.bos_token_id")?;
        let end = token("tokenizer.ggml.eos_token_id")?;
        let begin_token_id = begin.as_ref().map(|(id, _)| *id);
        let stop_token_ids = end.iter().map(|(id, _)| *id).collect();
        let chat_template = metadata
            .optional_text("tokenizer.chat_template")?
            .map(|source| ChatTemplate::new(source, begin.map(|(_, text)| text), end.map(|(_, text)| text)))
            .transpose()?;
        Ok(Self {
            path: path.to_owned(),
            config: ModelConfig::from_gguf(&metadata, &weights)?,
            weights: Stored::Files(weights, Naming::Gguf),
            tokenizer: Some(tokenizer),
            chat_template,
            begin_token_id,
            stop_token_ids,
        })
    }

    fn open_folder(path: &Path, has_weights: bool) -> Result<Self> {
        let config_path = path.join("config.json");
        if !config_path.exists() {
            let kinds = if has_weights {
                "neither a folder with config.json nor a .gguf file"
            } else {
                "no folder with config.json"
            };
            return Err(Error::damaged(path, kinds));
        }
        let text = std::fs::read_to_string(&config_path).map_err(Error::io(&config_path))?;
        let raw = hub_json(&config_path, &text)?;
        let config = ModelConfig::from_hub(&config_path, raw.clone())?;
        let generation = optional_json(&path.join("generation_config.json"))?;
        let special = |key: &str| -> Result<Vec<u32>> {
            let sources = [generation.as_ref(), Some(&raw)].into_iter().flatten();
            let ids = sources.map(|source| &source[key]).find(|ids| !ids.is_null());
            ids.map_or(Ok(Vec::new()), |ids| token_ids(&config_path, key, ids))
        };
        let stop_token_ids = special("eos_token_id")?;
        let begin_token_id = special("bos_token_id")?.first().copied();
        let weights =
            if has_weights { Stored::Files(safetensors::open_folder(path)?, Naming::Hub) } else { Stored::Nowhere };
        let tokenizer_path = path.join("tokenizer.json");
        // Without weights there is nothing to say, and so no need of words.
        let has_tokenizer = has_weights || tokenizer_path.exists();
        Ok(Self {
            weights,
            tokenizer: has_tokenizer.then(|| Tokenizer::from_file(&tokenizer_path)).transpose()?,
            chat_template: hub_chat_template(path)?,
            path: path.to_owned(),
            config,
            begin_token_id,
            stop_token_ids,
        })
    }

    /// Where the model lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The model's numbers.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The same model whose output head is its embedding, or a matrix of its own, whatever it says itself.
    #[must_use]
    pub fn with_tied_embeddings(mut self, tied_embeddings: bool) -> Self {
        self.config.tied_embeddings = tied_embeddings;
        self
    }

    /// The model's vocabulary, which only [`LoadFormat::Dummy`] can do without.
    #[must_use]
    pub fn tokenizer(&self) -> Option<&Tokenizer> {
        self.tokenizer.as_ref()
    }

    /// The model's way of writing conversations, where it has one.
    #[must_use]
    pub fn chat_template(&self) -> Option<&ChatTemplate> {
        self.chat_template.as_ref()
    }

    /// The token that begins a text, where the model has one.
    #[must_use]
    pub fn begin_token_id(&self) -> Option<u32> {
        self.begin_token_id
    }

    /// The tokens that end a text.
    #[must_use]
    pub fn stop_token_ids(&self) -> &[u32] {
        &self.stop_token_ids
    }

    /// The tensors as they are stored; nothing where weights are made up.
    #[must_use]
    pub fn weights(&self) -> Option<&Weights> {
        match &self.weights {
            Stored::Files(weights, _) => Some(weights),
            Stored::Nowhere => None,
        }
    }

    /// Checks that the weights are exactly those of the model, and says which is read from where.
    pub fn plan(&self) -> Result<WeightPlan<'_>> {
        match &self.weights {
            Stored::Files(weights, naming) => WeightPlan::check(&self.config, weights, *naming),
            Stored::Nowhere => Ok(WeightPlan::dummy(&self.config)),
        }
    }

    /// Checks that the weights are exactly those of the model, then reads them.
    pub fn load(&self, workers: &Workers) -> Result<Decoder> {
        Ok(Decoder::load(&self.plan()?, workers))
    }
}

fn parse(path: &Path, text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|e| Error::damaged(path, e.to_string()))
}

fn optional_json(path: &Path) -> Result<Option<Value>> {
    match std::fs::read_to_string(path) {
        Ok(text) => parse(path, &text).map(Some),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io(path)(e)),
    }
}

/// One token id or a list of them.
fn token_ids(path: &Path, key: &str, ids: &Value) -> Result<Vec<u32>> {
    let list = ids.as_array().map_or(std::slice::from_ref(ids), Vec::as_slice);
    list.iter()
        .map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok()))
        .collect::<Option<_>>()
        .ok_or_else(|| Error::damaged(path, format!("{key} is {ids}")))
}

/// The template of `chat_template.jinja`, or else of `tokenizer_config.json`.
fn hub_chat_template(folder: &Path) -> Result<Option<ChatTemplate>> {
    let config = optional_json(&folder.join("tokenizer_config.json"))?.unwrap_or_default();
    let file = folder.join("chat_template.jinja");
    let source = if file.exists() {
        Some(std::fs::read_to_string(&file).map_err(Error::io(&file))?)
    } else {
        match &config["chat_template"] {
            Value::String(source) => Some(source.clone()),
            Value::Array(named) => named
                .iter()
                .find(|entry| entry["name"] == "default")
                .and_then(|entry| entry["template"].as_str())
                .map(str::to_owned),
            _ => None,
        }
    };
    let token = |key: &str| {
        let token = &config[key];
        token.as_str().or_else(|| token["content"].as_str()).map(str::to_owned)
    };
    source.map(|source| ChatTemplate::new(&source, token("bos_token"), token("eos_token"))).transpose()
}
