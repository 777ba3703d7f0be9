//! Streaming of text.

mod support;

use engine::text::{Detokenizer, SpecialTokens};
use support::{models, open};

#[test]
fn pieces_are_whole_characters_and_make_up_the_text() {
    let checkpoint = open(&models().join("llama"));
    let tokenizer = checkpoint.tokenizer().expect("a vocabulary");
    let texts = [
        "Hello, world!",
        "東京 🦀🦀 naïve café – ñ",
        "<|im_start|>user\nhi<|im_end|>\n",
        " leading  spaces\n\n\tand tab ",
        "👩‍👩‍👧‍👦",
    ];
    for text in texts {
        let ids = tokenizer.encode(text, SpecialTokens::AsWritten).expect("encodes");
        let mut detokenizer = Detokenizer::new(tokenizer);
        let mut pieces = Vec::new();
        for &id in &ids {
            let piece = detokenizer.push(id).expect("decodes");
            assert!(!piece.contains('\u{fffd}'), "{text:?}: half a character in {piece:?}");
            pieces.push(piece);
        }
        pieces.push(detokenizer.finish().expect("decodes"));
        assert_eq!(pieces.concat(), tokenizer.decode(&ids).expect("decodes"), "{text:?}");
    }
}

#[test]
fn a_character_of_several_tokens_appears_with_its_last_one() {
    let checkpoint = open(&models().join("llama"));
    let tokenizer = checkpoint.tokenizer().expect("a vocabulary");
    let ids = tokenizer.encode("x🦀y", SpecialTokens::AsWritten).expect("encodes");
    assert!(ids.len() >= 5, "the crab is one token: {ids:?}");
    let mut detokenizer = Detokenizer::new(tokenizer);
    let pieces: Vec<String> = ids.iter().map(|&id| detokenizer.push(id).expect("decodes")).collect();
    let spoken: Vec<&str> = pieces.iter().map(String::as_str).filter(|piece| !piece.is_empty()).collect();
    assert_eq!(spoken, ["x", "🦀", "y"]);
}

#[test]
fn a_character_that_never_becomes_whole_is_replaced_at_the_end_or_by_what_follows() {
    let checkpoint = open(&models().join("llama"));
    let tokenizer = checkpoint.tokenizer().expect("a vocabulary");
    let crab = tokenizer.encode("🦀", SpecialTokens::AsWritten).expect("encodes");
    let x = tokenizer.encode("x", SpecialTokens::AsWritten).expect("encodes")[0];
    for tail in [vec![], vec![x], vec![crab[0], x]] {
        let ids: Vec<u32> = crab[..2].iter().copied().chain(tail).collect();
        let mut detokenizer = Detokenizer::new(tokenizer);
        let mut text = String::new();
        for &id in &ids {
            text.push_str(&detokenizer.push(id).expect("decodes"));
        }
        text.push_str(&detokenizer.finish().expect("decodes"));
        assert_eq!(text, tokenizer.decode(&ids).expect("decodes"));
        assert!(text.contains('\u{fffd}'));
    }
}
