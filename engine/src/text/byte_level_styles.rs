//! How byte-level vocabularies cut a text into words before pairs are merged, by the name that a GGUF file has for it.

use serde_json::{Value, json};

/// What depends on the family of a vocabulary.
pub(super) struct Style {
    /// What is done to the whole text first.
    pub(super) normalizer: Value,
    /// How the text is cut.
    pub(super) pre_tokenizer: Value,
    /// Whether a word that is a token stays whole, though no merges lead to it.
    pub(super) keeps_whole_words: bool,
}

type Named = (&'static str, fn() -> Style);

/// Names that files use, with what each stands for.
const NAMES: [Named; 5] =
    [("gpt-2", gpt2), ("llama-bpe", llama3), ("olmo", olmo), ("qwen2", qwen2), ("smollm", smollm)];

/// The style of this name, or the names that are known.
pub(super) fn named(name: &str) -> Result<Style, String> {
    let found = NAMES.iter().find(|(known, _)| *known == name);
    found.map(|(_, style)| style()).ok_or_else(|| NAMES.map(|(known, _)| known).join(", "))
}

fn byte_level(cuts_words: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": cuts_words})
}

fn plain(pre_tokenizer: Value) -> Style {
    Style { normalizer: Value::Null, pre_tokenizer, keeps_whole_words: false }
}

/// Lower-case contractions, letters, digits, other signs, each with a space in front; spaces.
fn gpt2() -> Style {
    plain(byte_level(true))
}

/// The same in composed characters.
fn olmo() -> Style {
    Style { normalizer: json!({"type": "NFC"}), ..gpt2() }
}

/// The same with every digit alone.
fn smollm() -> Style {
    let digits = json!({"type": "Digits", "individual_digits": true});
    plain(json!({"type": "Sequence", "pretokenizers": [digits, byte_level(true)]}))
}

/// Contractions in any case, letters with one sign in front, so many digits, other signs with line ends, spaces.
fn with_digits(digits: &str) -> Value {
    let pattern = format!(
        "{}|{}|{digits}|{}|{}",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
        r"[^\r\n\p{L}\p{N}]?\p{L}+",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+|\s+(?!\S)|\s+"
    );
    let split = json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
    json!({"type": "Sequence", "pretokenizers": [split, byte_level(false)]})
}

fn qwen2() -> Style {
    Style { normalizer: json!({"type": "NFC"}), ..plain(with_digits(r"\p{N}")) }
}

fn llama3() -> Style {
    Style { keeps_whole_words: true, ..plain(with_digits(r"\p{N}{1,3}")) }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use tokenizers::{
        NormalizedString, Normalizer, NormalizerWrapper, OffsetReferential, OffsetType, PreTokenizedString,
        PreTokenizer, PreTokenizerWrapper,
    };

    use super::{NAMES, named};

    /// What cuts a text into words, with bytes as these vocabularies write them.
    fn cutter(style: &str) -> impl Fn(&str) -> Vec<String> {
        let style = named(style).unwrap_or_else(|known| panic!("{style} is none of {known}"));
        let normalizer: Option<NormalizerWrapper> = serde_json::from_value(style.normalizer).expect("a known form");
        let cutter: PreTokenizerWrapper = serde_json::from_value(style.pre_tokenizer).expect("a known form");
        move |text| {
            let mut text = NormalizedString::from(text);
            if let Some(normalizer) = &normalizer {
                normalizer.normalize(&mut text).expect("normalises");
            }
            let mut cut = PreTokenizedString::from(text);
            cutter.pre_tokenize(&mut cut).expect("cuts");
            let parts = cut.get_splits(OffsetReferential::Original, OffsetType::Byte);
            parts.into_iter().map(|(word, _, _)| word.to_owned()).collect()
        }
    }

    /// What `tests/vocabularies/make_words.py` had from the steps of models of these names.
    #[test]
    fn awkward_texts_are_cut_as_by_the_models_own_steps() {
        let cases = include_str!("../../tests/vocabularies/words.json");
        let cases: Vec<Value> = serde_json::from_str(cases).expect("a list");
        assert!(cases.len() > 150, "{}", cases.len());
        let mut wrong = Vec::new();
        for (name, _) in NAMES {
            let cut = cutter(name);
            for case in &cases {
                let text = case["text"].as_str().expect("text");
                let words = cut(text);
                if case[name] != Value::from(words.clone()) {
                    wrong.push(format!("{name}: {text:?}: {words:?}, not {}", case[name]));
                }
            }
        }
        assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    }

    #[test]
    fn texts_are_cut_as_by_hand() {
        let text = "DON'T it's 1234567 x,\n  y";
        let table: [(&str, &[&str]); 5] = [
            ("gpt-2", &["DON", "'", "T", " it", "'s", " 1234567", " x", ",", "\n ", " y"]),
            ("olmo", &["DON", "'", "T", " it", "'s", " 1234567", " x", ",", "\n ", " y"]),
            ("smollm", &["DON", "'", "T", " it", "'s", " ", "1", "2", "3", "4", "5", "6", "7", " x", ",", "\n ", " y"]),
            ("qwen2", &["DON", "'T", " it", "'s", " ", "1", "2", "3", "4", "5", "6", "7", " x", ",\n", " ", " y"]),
            ("llama-bpe", &["DON", "'T", " it", "'s", " ", "123", "456", "7", " x", ",\n", " ", " y"]),
        ];
        for (style, expected) in table {
            // A space is Ġ there and a line end Ċ.
            let words: Vec<_> =
                cutter(style)(text).iter().map(|word| word.replace('Ġ', " ").replace('Ċ', "\n")).collect();
            assert_eq!(words, expected, "{style}");
        }
    }

    #[test]
    fn an_unknown_name_is_told_those_that_are_known() {
        let known = named("klingon").err().expect("unknown");
        assert_eq!(known, "gpt-2, llama-bpe, olmo, qwen2, smollm");
    }
}
