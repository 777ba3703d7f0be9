//! Where the model is that the settings name, and fetching it when it is not there yet.

use std::path::{Path, PathBuf};

use engine::checkpoint::{Checkpoint, LoadFormat};
use engine::default_model;
use engine::hub::{self, Connection, Hub, ModelName, Named};
use engine_config::{Settings, SettingsRecording, model};
use kitbag::Loader;

use crate::cli::{self, Failure};

/// What the settings say about where a model is.
pub(super) struct Source {
    model_path: Option<PathBuf>,
    format: LoadFormat,
    cache_dir: PathBuf,
    hub: Option<Hub>,
    revision: String,
}

impl Source {
    pub(super) fn of(now: &SettingsRecording) -> Self {
        let settings = now.model();
        let token = settings.hub_token().map(|token| token.expose().as_str());
        let connection = Connection {
            proxy: settings.hub_proxy().map(|proxy| proxy.expose().clone()),
            no_proxy: settings.hub_no_proxy().to_vec(),
            ca_file: settings.hub_ca_file().map(Path::to_owned),
            stall_timeout: settings.hub_stall_timeout(),
            retries: settings.hub_retries(),
        };
        Self {
            model_path: settings.model_path().map(Path::to_owned),
            format: match settings.load_format() {
                model::LoadFormat::Auto => LoadFormat::Auto,
                model::LoadFormat::Safetensors => LoadFormat::Safetensors,
                model::LoadFormat::Gguf => LoadFormat::Gguf,
                model::LoadFormat::Dummy => LoadFormat::Dummy,
            },
            cache_dir: settings.cache_dir().to_owned(),
            hub: settings.hub_endpoint().map(|endpoint| Hub::new(endpoint, token, connection)),
            revision: settings.revision().to_owned(),
        }
    }

    pub(super) fn open(&self, name: Option<&Path>) -> Result<Checkpoint, Failure> {
        match name.or(self.model_path.as_deref()) {
            Some(name) => Checkpoint::open(&self.named(name)?, self.format),
            None if self.format == LoadFormat::Safetensors => {
                let message = "--load-format safetensors needs --model-path: the default model is a GGUF file";
                return Err(Failure::Usage(message.into()));
            }
            None if self.format == LoadFormat::Dummy => {
                let message = "--load-format dummy needs --model-path: a folder with the config.json of a model";
                return Err(Failure::Usage(message.into()));
            }
            None => Checkpoint::open(&self.obtain_default()?, LoadFormat::Gguf),
        }
        .map_err(Failure::run)
    }

    /// The default model, after fetching it when it is not there yet.
    fn obtain_default(&self) -> Result<PathBuf, Failure> {
        default_model::obtain(&with_home(&self.cache_dir, MODELS)?, self.hub.as_ref()).map_err(Failure::run)
    }

    /// The path of the model called `name`, after fetching it when it has to be and is not there yet.
    fn named(&self, name: &Path) -> Result<PathBuf, Failure> {
        match Named::of(name) {
            Named::Default => self.obtain_default(),
            Named::Hub(name) => {
                let cached = hub::cached(&with_home(&self.cache_dir, MODELS)?, &name, &self.revision);
                cached.map_or_else(|| self.pull_named(&name), Ok).map(|(path, _)| path)
            }
            Named::Path(path) => match path.to_str() {
                // A word alone was meant for a name.
                Some(word) if !path.exists() && !word.contains(['/', '\\', '.']) => Err(Failure::Run(format!(
                    "--model-path {word}: there is no such file or folder, and no such short name (those are {})",
                    Named::short_names().join(", ")
                ))),
                _ => Ok(path),
            },
        }
    }

    fn pull_named(&self, name: &ModelName) -> Result<(PathBuf, hub::Record), Failure> {
        hub::pull(self.hub.as_ref(), &with_home(&self.cache_dir, MODELS)?, name, &self.revision).map_err(Failure::run)
    }
}

/// Fetches the model called `name`, or the one that the settings name: where it is then, and what came from a hub.
pub(crate) fn pull(loader: &Loader<Settings>, name: Option<&Path>) -> Result<(PathBuf, Option<hub::Record>), Failure> {
    let mut resolved = loader.resolve()?;
    cli::warn(resolved.warnings());
    let source = resolved.read_early(Source::of);
    match name.or(source.model_path.as_deref()).map(Named::of) {
        None | Some(Named::Default) => source.obtain_default().map(|path| (path, None)),
        Some(Named::Hub(name)) => source.pull_named(&name).map(|(path, record)| (path, Some(record))),
        Some(Named::Path(path)) => Err(Failure::Usage(format!(
            "{} is a path or no name: a model to fetch is called OWNER/NAME or {}",
            path.display(),
            Named::short_names().join(", ")
        ))),
    }
}

/// What goes to another folder with which setting, where there is no home folder.
const MODELS: &str = "fetched models go with --cache-dir";

/// Replaces a leading `~` by the home folder; `what` goes to the path.
pub(super) fn with_home(path: &Path, what: &str) -> Result<PathBuf, Failure> {
    let Ok(rest) = path.strip_prefix("~") else {
        return Ok(path.to_owned());
    };
    match std::env::home_dir() {
        Some(home) => Ok(home.join(rest)),
        None => Err(Failure::Run(format!("this user has no home folder for {}: say where {what}", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::{MODELS, Path, PathBuf, with_home};

    #[test]
    fn only_a_leading_tilde_is_the_home_folder() {
        let home = std::env::home_dir().expect("tests run as a user with a home folder");
        let expanded = |path: &str| with_home(Path::new(path), MODELS).ok();
        assert_eq!(expanded("~/a/b"), Some(home.join("a/b")));
        assert_eq!(expanded("/a/~"), Some(PathBuf::from("/a/~")));
        assert_eq!(expanded("a"), Some(PathBuf::from("a")));
    }
}
