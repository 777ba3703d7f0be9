//! Text to tokens and back: vocabularies, chat templates, streaming.

mod byte_atoms;
mod byte_fallback;
mod byte_level_styles;
mod calendar;
mod chat_template;
mod detokenizer;
mod generation_tags;
mod gguf_vocabulary;
mod percent_operator;
mod python_json;
mod python_methods;
mod sentencepiece;
mod stop_strings;
mod template_tags;
mod tokenizer;

pub use chat_template::{ChatTemplate, Message};
pub use detokenizer::Detokenizer;
pub use stop_strings::StopStrings;
pub use tokenizer::{SpecialTokens, Tokenizer};
