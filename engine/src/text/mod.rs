//! Text to tokens and back: vocabularies, chat templates, streaming.

mod byte_atoms;
mod byte_level_styles;
mod chat_template;
mod detokenizer;
mod gguf_vocabulary;
mod sentencepiece;
mod tokenizer;

pub use chat_template::{ChatTemplate, Message};
pub use detokenizer::Detokenizer;
pub use tokenizer::{SpecialTokens, Tokenizer};
