//! `model`: which model, and how it is read.

use std::path::PathBuf;
use std::time::Duration;

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
    #[config(range = 1.., load_time)]
    pub context_length: Option<usize>,
    /// Which matrix makes logits of the last layer's numbers. `auto` is what the model says: `tied` is the embedding, `own` a matrix
    /// of its own.
    #[config(default = OutputHead::Auto, load_time)]
    pub output_head: OutputHead,
    /// Where fetched models are kept; a leading `~` is the home folder.
    #[config(default = "~/.cache/engine")]
    pub cache_dir: PathBuf,
    /// The address of the model hub that names are looked up at.
    #[config(env = "HF_ENDPOINT")]
    pub hub_endpoint: Option<String>,
    /// What opens models of the hub that are not open to all.
    #[config(env = "HF_TOKEN", secret)]
    pub hub_token: Option<Secret<String>>,
    /// The HTTP proxy that the hub is asked through, `http://USER:PASSWORD@HOST:PORT`; none unless set.
    #[config(env = "HTTPS_PROXY", secret)]
    pub hub_proxy: Option<Secret<String>>,
    /// Hosts that are asked without the proxy: `host`, `.domain` for all hosts within it, or `*` for all.
    #[config(env = "NO_PROXY", default = vec![])]
    pub hub_no_proxy: Vec<String>,
    /// Certificates in PEM form that are trusted for the hub, instead of those that are built in.
    #[config(env = "SSL_CERT_FILE")]
    pub hub_ca_file: Option<PathBuf>,
    /// How long the hub may send nothing before a fetch ends.
    #[config(default = Duration::from_secs(30), range = Duration::from_millis(1)..=Duration::from_hours(1))]
    pub hub_stall_timeout: Duration,
    /// How often a fetch that broke off is tried again without getting any further; after a short while, which doubles.
    #[config(default = 5, range = 0..=100)]
    pub hub_retries: u32,
    /// The branch, tag or commit of a model of the hub.
    #[config(default = "main")]
    pub revision: String,
}

/// A matrix that makes logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ConfigChoice)]
pub enum OutputHead {
    /// What the model says.
    Auto,
    /// The embedding.
    Tied,
    /// One of its own.
    Own,
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
