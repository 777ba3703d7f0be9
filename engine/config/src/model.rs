//! `model`: which model, and how it is read.

use std::path::PathBuf;

use kitbag::{ConfigChoice, ConfigNamespaces, Secret};

/// Which model, and how it is read.
#[derive(ConfigNamespaces)]
#[config(ns = "model")]
pub struct Model {
    /// A model folder, a GGUF file, `OWNER/NAME` or `OWNER/NAME:QUANTISATION` of a model hub, or a short name such as
    /// `smollm2-135m`; the default model, fetched once, unless set.
    pub model_path: Option<PathBuf>,
    /// How the path is read. `auto` takes a name ending in `.gguf` for a GGUF file and anything else for a folder; `dummy`
    /// makes weights up for a folder of which `config.json` is enough.
    #[config(default = LoadFormat::Auto)]
    pub load_format: LoadFormat,
    /// Whether weights are searched for what is no finite number before they are read.
    #[config(default = false)]
    pub check_weights: bool,
    /// The longest sequence, in tokens; the model's own context length unless set.
    #[config(range = 1..)]
    pub context_length: Option<usize>,
    /// Where fetched models are kept; a leading `~` is the home folder.
    #[config(default = "~/.cache/engine")]
    pub cache_dir: PathBuf,
    /// The address of the model hub that names are looked up at.
    #[config(env = "HF_ENDPOINT")]
    pub hub_endpoint: Option<String>,
    /// What opens models of the hub that are not open to all.
    #[config(env = "HF_TOKEN", secret)]
    pub hub_token: Option<Secret<String>>,
    /// The branch, tag or commit of a model of the hub.
    #[config(default = "main")]
    pub revision: String,
}

/// How a model path is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ConfigChoice)]
pub enum LoadFormat {
    /// Seen from the path.
    Auto,
    /// A folder with safetensors.
    Safetensors,
    /// A GGUF file.
    Gguf,
    /// A folder with `config.json`, whose weights are made up.
    Dummy,
}
