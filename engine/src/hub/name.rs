//! What a user calls a model.

use std::fmt;
use std::path::{Path, PathBuf};

/// Short names of models, and what they stand for.
pub const ALIASES: &[(&str, &str)] = &[
    ("smollm2-135m-instruct", "HuggingFaceTB/SmolLM2-135M-Instruct"),
    ("smollm2-360m", "HuggingFaceTB/SmolLM2-360M-Instruct"),
    ("smollm2-1.7b", "HuggingFaceTB/SmolLM2-1.7B-Instruct"),
    ("qwen3-0.6b", "Qwen/Qwen3-0.6B"),
    ("qwen3-1.7b", "Qwen/Qwen3-1.7B"),
    ("qwen3-4b", "Qwen/Qwen3-4B"),
    ("olmoe-1b-7b", "allenai/OLMoE-1B-7B-0924-Instruct"),
];
/// Short names of the model that is used when none is named.
const DEFAULT: &[&str] = &["default", "smollm2-135m"];

/// What a word names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// A file or folder.
    Path(PathBuf),
    /// The model that is used when none is named.
    Default,
    /// A model of a hub.
    Hub(ModelName),
}

/// A model of a hub, `owner/name`, and of its GGUF files perhaps the one of a quantisation, `owner/name:Q4_0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName {
    /// `owner/name`.
    pub repository: String,
    /// The quantisation in capitals.
    pub quantisation: Option<String>,
}

impl Named {
    /// What `word` names: what is there is a path, then come short names, then `owner/name`; anything else is a path.
    #[must_use]
    pub fn of(word: &Path) -> Self {
        let path = || Self::Path(word.to_owned());
        let Some(text) = word.to_str().filter(|_| !word.exists()) else { return path() };
        let lower = text.to_lowercase();
        if DEFAULT.contains(&lower.as_str()) {
            return Self::Default;
        }
        let (short, rest) =
            lower.split_once(':').map_or((lower.as_str(), ""), |(short, _)| (short, &text[short.len()..]));
        let name = match ALIASES.iter().find(|(alias, _)| *alias == short) {
            Some((_, repository)) => ModelName::parse(&format!("{repository}{rest}")),
            None => ModelName::parse(text),
        };
        name.map_or_else(path, Self::Hub)
    }

    /// All short names.
    #[must_use]
    pub fn short_names() -> Vec<&'static str> {
        DEFAULT.iter().copied().chain(ALIASES.iter().map(|(alias, _)| *alias)).collect()
    }
}

impl ModelName {
    /// `owner/name` or `owner/name:QUANTISATION`; nothing for what cannot be one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (repository, quantisation) = match text.split_once(':') {
            Some((repository, quantisation)) => (repository, Some(quantisation)),
            None => (text, None),
        };
        let (owner, name) = repository.split_once('/')?;
        let is_word = |word: &str| {
            word.starts_with(|char: char| char.is_ascii_alphanumeric())
                && word.chars().all(|char| char.is_ascii_alphanumeric() || "._-".contains(char))
        };
        let is_file = name.to_lowercase().ends_with(".gguf");
        let all = is_word(owner) && is_word(name) && quantisation.is_none_or(is_word) && !is_file;
        all.then(|| Self { repository: repository.to_owned(), quantisation: quantisation.map(str::to_uppercase) })
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repository)?;
        self.quantisation.iter().try_for_each(|quantisation| write!(f, ":{quantisation}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(word: &str) -> String {
        match Named::of(Path::new(word)) {
            Named::Path(path) => format!("path {}", path.display()),
            Named::Default => "default".into(),
            Named::Hub(name) => format!("hub {name}"),
        }
    }

    #[test]
    fn words_by_hand() {
        let table = [
            ("smollm2-135m", "default"),
            ("SmolLM2-135M", "default"),
            ("qwen3-0.6b", "hub Qwen/Qwen3-0.6B"),
            ("qwen3-0.6b:q8_0", "hub Qwen/Qwen3-0.6B:Q8_0"),
            ("some/Model-1.5", "hub some/Model-1.5"),
            ("some/model:q4_k_m", "hub some/model:Q4_K_M"),
            ("some/model.gguf", "path some/model.gguf"),
            ("./some/model", "path ./some/model"),
            ("/some/model", "path /some/model"),
            ("../model", "path ../model"),
            ("~/model", "path ~/model"),
            ("some/model/more", "path some/model/more"),
            ("some/model:", "path some/model:"),
            ("some/model:../x", "path some/model:../x"),
            ("some/..", "path some/.."),
            ("word", "path word"),
            ("", "path "),
        ];
        for (word, wanted) in table {
            assert_eq!(named(word), wanted, "{word}");
        }
    }

    #[test]
    fn what_is_there_is_a_path() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(Named::of(folder.path()), Named::Path(folder.path().to_owned()));
        // Tests run in the folder of their package.
        assert_eq!((named("src/hub"), named("src/hubs")), ("path src/hub".to_owned(), "hub src/hubs".to_owned()));
    }

    #[test]
    fn short_names_are_lower_case_and_stand_for_names() {
        for (alias, repository) in ALIASES {
            assert_eq!(*alias, alias.to_lowercase());
            assert!(ModelName::parse(repository).is_some(), "{repository}");
        }
    }
}
