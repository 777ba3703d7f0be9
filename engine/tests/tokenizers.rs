//! Vocabularies of all small models, whether or not the engine runs them, against an independent implementation.

mod support;

use std::path::PathBuf;

use engine::text::{Detokenizer, SpecialTokens, Tokenizer};
use serde_json::Value;
use support::gguf::{Meta, write};
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

/// The tokenizer of a GGUF file with this metadata and no tensors.
fn of_gguf(metadata: &[(&str, Meta<'_>)]) -> engine::Result<Tokenizer> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("vocabulary.gguf");
    std::fs::write(&path, write(metadata, &[])).expect("written");
    let (metadata, _) = engine::weights::gguf::open(&path).expect("a GGUF file");
    Tokenizer::from_gguf(&metadata)
}

/// Small models have a vocabulary of the form of Qwen 2, which has a name in GGUF files.
#[test]
fn a_vocabulary_in_a_gguf_file_gives_the_same_vectors() {
    for (folder, _) in tokenizers() {
        let document = json(&folder.join("tokenizer.json"));
        let special: Vec<_> = document["added_tokens"].as_array().expect("a list").iter().collect();
        let mut tokens: Vec<_> = document["model"]["vocab"]
            .as_object()
            .expect("a vocabulary")
            .iter()
            .map(|(token, id)| (id.as_u64().expect("an id"), token.as_str(), 1))
            .filter(|(_, token, _)| special.iter().all(|added| added["content"] != *token))
            .collect();
        tokens.extend(
            special
                .iter()
                .map(|added| (added["id"].as_u64().expect("an id"), added["content"].as_str().expect("text"), 3)),
        );
        tokens.sort_unstable();
        let merges: Vec<_> = document["model"]["merges"]
            .as_array()
            .expect("merges")
            .iter()
            .map(|pair| format!("{} {}", pair[0].as_str().expect("text"), pair[1].as_str().expect("text")))
            .collect();
        let tokenizer = of_gguf(&[
            ("tokenizer.ggml.model", Meta::Text("gpt2")),
            ("tokenizer.ggml.pre", Meta::Text("qwen2")),
            ("tokenizer.ggml.tokens", Meta::Texts(tokens.iter().map(|(_, token, _)| *token).collect())),
            ("tokenizer.ggml.token_type", Meta::I32s(tokens.iter().map(|(_, _, kind)| *kind).collect())),
            ("tokenizer.ggml.merges", Meta::Texts(merges.iter().map(String::as_str).collect())),
        ]);
        let tokenizer = tokenizer.unwrap_or_else(|error| panic!("{error}"));
        let reference = json(&folder.join("reference.json"));
        for (text, tokens, decoded) in cases(&reference) {
            let folder = folder.display();
            assert_eq!(tokenizer.encode(text, SpecialTokens::Add).expect("encodes"), tokens, "{folder}: {text:?}");
            assert_eq!(tokenizer.decode_with_special(&tokens).expect("decodes"), decoded, "{folder}: {text:?}");
        }
    }
}

/// Tokens of a small vocabulary of scored pieces: id, piece, score and type.
fn pieces() -> Vec<(String, f32, i32)> {
    let control = [("<unk>", 2), ("<s>", 3), ("</s>", 3)].map(|(piece, kind)| (piece.to_owned(), 0.0, kind));
    let bytes = (0..=255_u8).map(|byte| (format!("<0x{byte:02X}>"), 0.0, 6));
    let scored = ["▁the", "▁t", "he", "▁a", "cat", "at", "▁", "t", "h", "e", "a", "c"];
    let scored = scored.iter().enumerate().map(|(rank, piece)| ((*piece).to_owned(), -(rank as f32), 1));
    control.into_iter().chain(bytes).chain(scored).collect()
}

fn with_pieces<'a>(pieces: &'a [(String, f32, i32)], others: Vec<(&'a str, Meta<'a>)>) -> engine::Result<Tokenizer> {
    let mut metadata = vec![
        ("tokenizer.ggml.model", Meta::Text("llama")),
        ("tokenizer.ggml.tokens", Meta::Texts(pieces.iter().map(|(piece, _, _)| piece.as_str()).collect())),
        ("tokenizer.ggml.scores", Meta::F32s(pieces.iter().map(|(_, score, _)| *score).collect())),
        ("tokenizer.ggml.token_type", Meta::I32s(pieces.iter().map(|(_, _, kind)| *kind).collect())),
        ("tokenizer.ggml.bos_token_id", Meta::U32(1)),
        ("tokenizer.ggml.eos_token_id", Meta::U32(2)),
        ("tokenizer.ggml.unknown_token_id", Meta::U32(0)),
    ];
    metadata.extend(others);
    of_gguf(&metadata)
}

#[test]
fn a_vocabulary_of_scored_pieces_merges_the_best_first_and_falls_back_to_bytes() {
    let pieces = pieces();
    let tokenizer = with_pieces(&pieces, Vec::new()).unwrap_or_else(|error| panic!("{error}"));
    // A text; its pieces. "é" is in none: its two bytes are.
    let table: [(&str, &[&str]); 7] = [
        ("the cat", &["<s>", "▁the", "▁", "cat"]),
        // "▁t" goes before "he".
        ("thea", &["<s>", "▁the", "a"]),
        ("  a", &["<s>", "▁", "▁", "▁a"]),
        ("é", &["<s>", "▁", "<0xC3>", "<0xA9>"]),
        ("a</s>the", &["<s>", "▁a", "</s>", "▁the"]),
        ("a</s></s> </s>  the", &["<s>", "▁a", "</s>", "</s>", "▁", "▁", "</s>", "▁", "▁", "▁the"]),
        ("", &["<s>"]),
    ];
    for (text, expected) in table {
        let tokens = tokenizer.encode(text, SpecialTokens::Add).expect("encodes");
        let written: Vec<_> = tokens.iter().map(|&id| pieces[id as usize].0.as_str()).collect();
        assert_eq!(written, expected, "{text:?}");
        // What follows a special token begins with a space of its own.
        let plain = text.replace("</s></s>", "</s>").replace("</s>", " ");
        assert_eq!(tokenizer.decode(&tokens).expect("decodes"), plain, "{text:?}");
        let mut detokenizer = Detokenizer::new(&tokenizer);
        let mut streamed: String = tokens.iter().map(|&id| detokenizer.push(id).expect("decodes")).collect();
        streamed.push_str(&detokenizer.finish().expect("decodes"));
        assert_eq!(streamed, plain, "{text:?}");
    }
    let bare = with_pieces(
        &pieces,
        vec![
            ("tokenizer.ggml.add_space_prefix", Meta::Bool(false)),
            ("tokenizer.ggml.add_bos_token", Meta::Bool(false)),
        ],
    );
    let bare = bare.unwrap_or_else(|error| panic!("{error}"));
    let tokens = bare.encode("the cat", SpecialTokens::Add).expect("encodes");
    let written: Vec<_> = tokens.iter().map(|&id| pieces[id as usize].0.as_str()).collect();
    assert_eq!(written, ["t", "he", "▁", "cat"]);
    assert_eq!(bare.decode(&tokens).expect("decodes"), "the cat");
    assert_eq!(
        (bare.special_token("</s>"), bare.special_token("cat"), bare.special_token("no")),
        (Some(2), None, None)
    );
    // A special token is a part of what is written out alone.
    let of = |id| (bare.decode(&[id]).expect("decodes"), bare.decode_with_special(&[id]).expect("decodes"));
    assert_eq!((of(2), of(1)), ((String::new(), "</s>".into()), (String::new(), "<s>".into())));
}

#[test]
fn a_piece_that_is_no_part_of_texts_is_not_merged() {
    const UNUSED: i32 = 5;
    let mut pieces = pieces();
    let the = pieces.iter().position(|(piece, ..)| piece == "▁the").expect("a piece");
    pieces[the].2 = UNUSED;
    let tokenizer = with_pieces(&pieces, Vec::new()).unwrap_or_else(|error| panic!("{error}"));
    let tokens = tokenizer.encode("the", SpecialTokens::AsWritten).expect("encodes");
    let written: Vec<_> = tokens.iter().map(|&id| pieces[id as usize].0.as_str()).collect();
    assert_eq!(written, ["▁t", "he"]);
}

/// Files that `vocabularies/make_scored_pieces.py` made, and what `SentencePiece` makes of texts with the same pieces.
#[test]
fn scored_pieces_are_merged_as_by_the_library_that_made_them() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vocabularies");
    for name in ["scored_pieces", "scored_pieces_bare"] {
        let (metadata, _) =
            engine::weights::gguf::open(&folder.join(name).with_extension("gguf")).expect("a GGUF file");
        let tokenizer = Tokenizer::from_gguf(&metadata).unwrap_or_else(|error| panic!("{error}"));
        let begin = tokenizer.special_token("<s>").expect("a token");
        let cases = json(&folder.join(name).with_extension("json"));
        let cases = cases.as_array().expect("cases");
        assert!(cases.len() >= 200, "{}", cases.len());
        let mut wrong = Vec::new();
        for case in cases {
            let tokens = ids(&case["ids"]);
            // What a model writes is no text's tokens.
            if let Some(text) = case["text"].as_str() {
                let got = tokenizer.encode(text, SpecialTokens::AsWritten).expect("encodes");
                if got != tokens {
                    wrong.push(format!("{text:?}: {got:?}, not {tokens:?}"));
                }
                assert_eq!(tokenizer.encode(text, SpecialTokens::Add).expect("encodes"), [&[begin], &got[..]].concat());
            }
            let decoded = tokenizer.decode(&tokens).expect("decodes");
            if decoded != case["decoded"].as_str().expect("text") {
                wrong.push(format!("{tokens:?} is {decoded:?}, not {}", case["decoded"]));
            }
            let mut detokenizer = Detokenizer::new(&tokenizer);
            let mut streamed: String = tokens.iter().map(|&id| detokenizer.push(id).expect("decodes")).collect();
            streamed.push_str(&detokenizer.finish().expect("decodes"));
            assert_eq!(streamed, decoded, "{name}: {tokens:?}");
        }
        assert!(wrong.is_empty(), "{name}: {} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    }
}

#[test]
fn vocabularies_that_are_unknown_or_lie_are_refused_by_name() {
    let pieces = pieces();
    let refusal = |tokenizer: engine::Result<Tokenizer>| tokenizer.err().expect("refused").to_string();
    let short = &pieces[..5];
    let texts = |pieces: &[(String, f32, i32)]| pieces.iter().map(|(piece, _, _)| piece.clone()).collect::<Vec<_>>();
    let names = texts(short);
    let tokens = || Meta::Texts(names.iter().map(String::as_str).collect());
    let types = || Meta::I32s(vec![1; 5]);
    let table = [
        (
            refusal(of_gguf(&[("tokenizer.ggml.model", Meta::Text("bert"))])),
            "tokenizer model bert (known: gpt2, llama)",
        ),
        (
            refusal(of_gguf(&[
                ("tokenizer.ggml.model", Meta::Text("llama")),
                ("tokenizer.ggml.tokens", tokens()),
                ("tokenizer.ggml.token_type", types()),
                ("tokenizer.ggml.scores", Meta::F32s(vec![0.0; 4])),
            ])),
            "4 scores for 5 tokens",
        ),
        (
            refusal(of_gguf(&[
                ("tokenizer.ggml.model", Meta::Text("gpt2")),
                ("tokenizer.ggml.pre", Meta::Text("klingon")),
                ("tokenizer.ggml.tokens", tokens()),
                ("tokenizer.ggml.token_type", types()),
                ("tokenizer.ggml.merges", Meta::Texts(Vec::new())),
            ])),
            "pre-tokenizer klingon (known: gpt-2, llama-bpe, olmo, qwen2, smollm)",
        ),
    ];
    for (said, part) in table {
        assert!(said.contains(part), "`{part}` is missing in: {said}");
    }
}

/// Metadata of a vocabulary of bytes and merges, or of scored pieces, with some keys changed or left out.
fn refused_with(model: &'static str, changes: Vec<(&'static str, Option<Meta<'static>>)>) -> Option<String> {
    let key = |name: &str| format!("tokenizer.ggml.{name}");
    let own = match model {
        "gpt2" => vec![("pre", Meta::Text("gpt-2")), ("merges", Meta::Texts(vec!["a b"]))],
        _ => vec![("scores", Meta::F32s(vec![0.0; 4]))],
    };
    let mut all = vec![
        ("model", Meta::Text(model)),
        ("tokens", Meta::Texts(vec!["a", "b", "ab", "<s>"])),
        ("token_type", Meta::I32s(vec![1, 1, 1, 3])),
        ("bos_token_id", Meta::U32(3)),
    ];
    all.extend(own);
    all.retain(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
    all.extend(changes.into_iter().filter_map(|(name, value)| Some((name, value?))));
    let all: Vec<_> = all.into_iter().map(|(name, value)| (key(name), value)).collect();
    let (keys, values): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    let metadata: Vec<_> = keys.iter().map(String::as_str).zip(values).collect();
    of_gguf(&metadata).err().map(|error| error.to_string())
}

#[test]
fn a_key_of_a_vocabulary_that_is_missing_or_wrong_is_named() {
    let (bytes, pieces) = ("gpt2", "llama");
    let last = || Some(Meta::U32(3));
    let accepted = [
        (bytes, vec![]),
        (bytes, vec![("eos_token_id", last()), ("add_eos_token", Some(Meta::Bool(false)))]),
        (bytes, vec![("add_space_prefix", Some(Meta::Bool(false)))]),
        (bytes, vec![("bos_token_id", None)]),
        (pieces, vec![("unknown_token_id", last())]),
    ];
    for (model, changes) in accepted {
        assert_eq!(refused_with(model, changes), None, "{model}");
    }
    let no_text = || Some(Meta::U32(1));
    let beyond = "is 4, beyond the 4 tokens";
    let refused = [
        (bytes, vec![("model", no_text())], "`tokenizer.ggml.model` is not text"),
        (bytes, vec![("pre", None)], "`tokenizer.ggml.pre` is missing"),
        (bytes, vec![("pre", no_text())], "`tokenizer.ggml.pre` is not text"),
        (pieces, vec![("pre", Some(Meta::Text("llama-bpe"))), ("bos_token_id", None)], "bos_token_id` is missing"),
        (bytes, vec![("tokens", None)], "`tokenizer.ggml.tokens` is missing"),
        (bytes, vec![("tokens", no_text())], "`tokenizer.ggml.tokens` is not a list of texts"),
        (bytes, vec![("tokens", Some(Meta::I32s(vec![1; 4])))], "`tokenizer.ggml.tokens` is not a list of texts"),
        (bytes, vec![("tokens", Some(Meta::Texts(vec!["a", "b", "a", "<s>"])))], "token 2 `a` is there twice"),
        (bytes, vec![("token_type", None)], "`tokenizer.ggml.token_type` is missing"),
        (bytes, vec![("token_type", no_text())], "`tokenizer.ggml.token_type` is not a list of integers"),
        (bytes, vec![("token_type", Some(Meta::Texts(vec!["1"; 4])))], "token_type` is not a list of integers"),
        (bytes, vec![("token_type", Some(Meta::I32s(vec![1; 3])))], "3 token types for 4 tokens"),
        (bytes, vec![("bos_token_id", Some(Meta::U32(4)))], beyond),
        (bytes, vec![("eos_token_id", Some(Meta::U32(4)))], beyond),
        (bytes, vec![("unknown_token_id", Some(Meta::U32(4)))], beyond),
        (bytes, vec![("padding_token_id", Some(Meta::U32(4)))], beyond),
        (bytes, vec![("padding_token_id", Some(Meta::Text("4")))], "`tokenizer.ggml.padding_token_id` is not a size"),
        (bytes, vec![("merges", None)], "`tokenizer.ggml.merges` is missing"),
        (bytes, vec![("merges", Some(Meta::Texts(vec!["a b", "ab"])))], "merge 1 `ab` is not a pair"),
        (bytes, vec![("merges", Some(Meta::Texts(vec!["a c"])))], "vocabulary.gguf: Token `ac`"),
        (bytes, vec![("add_space_prefix", Some(Meta::Bool(true)))], "not supported: tokenizer.ggml.add_space_prefix"),
        (bytes, vec![("add_space_prefix", no_text())], "`tokenizer.ggml.add_space_prefix` is not true or false"),
        (pieces, vec![("add_space_prefix", no_text())], "`tokenizer.ggml.add_space_prefix` is not true or false"),
        (pieces, vec![("scores", None)], "`tokenizer.ggml.scores` is missing"),
        (pieces, vec![("scores", Some(Meta::I32s(vec![0; 4])))], "`tokenizer.ggml.scores` is not a list of numbers"),
        (bytes, vec![("add_eos_token", Some(Meta::Bool(true)))], "not supported: tokenizer.ggml.add_eos_token"),
        (bytes, vec![("add_eos_token", no_text())], "`tokenizer.ggml.add_eos_token` is not true or false"),
        (bytes, vec![("add_bos_token", no_text())], "`tokenizer.ggml.add_bos_token` is not true or false"),
        (bytes, vec![("add_bos_token", Some(Meta::Bool(true))), ("bos_token_id", None)], "bos_token_id` is missing"),
        (pieces, vec![("bos_token_id", None)], "`tokenizer.ggml.bos_token_id` is missing"),
    ];
    for (model, changes, part) in refused {
        let keys: Vec<_> = changes.iter().map(|(key, _)| *key).collect();
        let said = refused_with(model, changes).unwrap_or_else(|| panic!("{model} {keys:?} is accepted"));
        assert!(said.contains(part), "{model} {keys:?}: `{part}` is missing in: {said}");
    }
}

/// Vocabularies of bytes and merges that are Llama's begin a text with a token of their own, without saying so.
#[test]
fn a_vocabulary_that_does_not_say_begins_texts_as_its_kind_does() {
    for (pre, begins) in [("gpt-2", false), ("llama-bpe", true)] {
        let tokenizer = of_gguf(&[
            ("tokenizer.ggml.model", Meta::Text("gpt2")),
            ("tokenizer.ggml.pre", Meta::Text(pre)),
            ("tokenizer.ggml.tokens", Meta::Texts(vec!["a", "b", "ab", "<s>"])),
            ("tokenizer.ggml.token_type", Meta::I32s(vec![1; 4])),
            ("tokenizer.ggml.merges", Meta::Texts(vec!["a b"])),
            ("tokenizer.ggml.bos_token_id", Meta::U32(3)),
        ]);
        let tokenizer = tokenizer.unwrap_or_else(|error| panic!("{error}"));
        let tokens = tokenizer.encode("ab", SpecialTokens::Add).expect("encodes");
        assert_eq!(tokens, if begins { vec![3, 2] } else { vec![2] }, "{pre}");
        assert_eq!(tokenizer.special_token("<s>"), Some(3), "it is named, whatever its type says");
    }
}

#[test]
fn a_vocabulary_of_another_kind_says_what_it_cannot_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tokenizer.json");
    let words = r#"{"version": "1.0", "added_tokens": [],
        "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "none"}}"#;
    std::fs::write(&path, words).expect("written");
    let tokenizer = Tokenizer::from_file(&path).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(tokenizer.encode("a", SpecialTokens::Add).expect("encodes"), [0]);
    let error = tokenizer.encode("b", SpecialTokens::Add).expect_err("there is no such word").to_string();
    assert!(error.starts_with("tokenizer: ") && error.contains("Missing [UNK] token"), "{error}");
    std::fs::write(&path, "{}").expect("written");
    let error = Tokenizer::from_file(&path).err().expect("no vocabulary").to_string();
    assert!(error.contains("tokenizer.json: "), "{error}");
}
