//! Vocabularies of all small models, whether or not the engine runs them, against an independent implementation.

mod support;

use std::path::PathBuf;

use engine::text::{Detokenizer, SpecialTokens, Tokenizer};
use serde_json::Value;
use support::{ids, json, models};

/// Folders with a vocabulary and a reference, and their tokenizers.
fn tokenizers() -> Vec<(PathBuf, Tokenizer)> {
    let entries = std::fs::read_dir(models()).expect("a folder of models");
    let mut folders: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    folders.retain(|folder| folder.join("reference.json").exists() && folder.join("tokenizer.json").exists());
    folders.sort();
    assert!(folders.len() >= 3, "{folders:?}");
    let read = |folder: PathBuf| {
        let tokenizer = Tokenizer::from_file(&folder.join("tokenizer.json")).unwrap_or_else(|error| panic!("{error}"));
        (folder, tokenizer)
    };
    folders.into_iter().map(read).collect()
}

/// What the reference says of a text: its tokens, and the text of these.
fn cases(reference: &Value) -> Vec<(&str, Vec<u32>, &str)> {
    let cases = reference["tokenizer"].as_array().expect("cases").iter();
    cases
        .map(|case| {
            let (text, decoded) = (case["text"].as_str().expect("text"), case["decoded"].as_str().expect("text"));
            (text, ids(&case["ids"]), decoded)
        })
        .collect()
}

#[test]
fn every_vector_is_that_of_the_reference() {
    for (folder, tokenizer) in tokenizers() {
        let reference = json(&folder.join("reference.json"));
        let folder = folder.display();
        let cases = cases(&reference);
        assert!(cases.len() >= 9, "{folder}");
        for (text, tokens, decoded) in cases {
            assert_eq!(tokenizer.encode(text, SpecialTokens::Add).expect("encodes"), tokens, "{folder}: {text:?}");
            assert_eq!(tokenizer.decode_with_special(&tokens).expect("decodes"), decoded, "{folder}: {text:?}");
        }
        let prompt = reference["prompt"].as_str().expect("text");
        let tokens = tokenizer.encode(prompt, SpecialTokens::Add).expect("encodes");
        assert_eq!(tokens, ids(&reference["prompt_ids"]), "{folder}");
    }
}

#[test]
fn texts_stream_in_whole_characters() {
    for (folder, tokenizer) in tokenizers() {
        let reference = json(&folder.join("reference.json"));
        let folder = folder.display();
        let texts = cases(&reference).into_iter().map(|(_, tokens, _)| tokens);
        // What a model with random weights writes is hard: it cuts characters anywhere.
        for tokens in texts.chain([ids(&reference["greedy_ids"])]) {
            let mut detokenizer = Detokenizer::new(&tokenizer);
            let mut pieces: Vec<_> = tokens.iter().map(|&id| detokenizer.push(id).expect("decodes")).collect();
            pieces.push(detokenizer.finish().expect("decodes"));
            assert_eq!(pieces.concat(), tokenizer.decode(&tokens).expect("decodes"), "{folder}: {tokens:?}");
        }
        let greedy = tokenizer.decode(&ids(&reference["greedy_ids"])).expect("decodes");
        assert_eq!(greedy, reference["greedy_text"].as_str().expect("text"), "{folder}");
    }
}
