//! Vocabularies of scored pieces, as Llama 2 and Mistral have them.
//!
//! Such a vocabulary has no list of merges: of two neighbours that together are a piece, those are merged whose piece
//! has the highest score. So the merges are the ways to write each piece as two others, the best pieces first. What is
//! in no piece is written byte by byte.

use std::collections::HashMap;

use serde_json::{Value, json};

/// How such vocabularies write a space.
const SPACE: &str = "▁";

/// Pairs of pieces that are pieces together, in the order in which they are merged.
pub(super) fn merges<'a>(pieces: &[(&'a str, f64)]) -> Vec<(&'a str, &'a str)> {
    let ids: HashMap<&str, usize> = pieces.iter().enumerate().map(|(id, (piece, _))| (*piece, id)).collect();
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    // Of equal scores the earlier piece goes first: sorting keeps their order.
    order.sort_by(|&one, &other| pieces[other].1.total_cmp(&pieces[one].1));
    let of_piece = |id: usize| {
        let (piece, _) = pieces[id];
        let ends = piece.char_indices().map(|(at, _)| at).skip(1);
        let mut pairs: Vec<_> = ends
            .map(|at| piece.split_at(at))
            .filter_map(|(left, right)| Some((*ids.get(left)?, *ids.get(right)?, left, right)))
            .collect();
        pairs.sort_unstable();
        pairs.into_iter().map(|(_, _, left, right)| (left, right))
    };
    order.into_iter().flat_map(of_piece).collect()
}

/// What is done to a text before it is cut: spaces become pieces, and one is put in front if the vocabulary wants it.
pub(super) fn normalizer(has_space_in_front: bool) -> Value {
    let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": SPACE});
    let prepend = has_space_in_front.then(|| json!({"type": "Prepend", "prepend": SPACE}));
    let steps: Vec<_> = prepend.into_iter().chain([replace]).collect();
    json!({"type": "Sequence", "normalizers": steps})
}

/// How a text is put together again, but for the space in front.
pub(super) fn decoder() -> Value {
    json!({"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]})
}

/// Takes the space in front from the tokens of a text. Only a piece has it: a space that is written as a byte is text.
///
/// The tokenizer library has a step for this that comes after bytes have become text, and takes either.
pub(super) fn without_space_in_front(tokens: &mut [String]) {
    if let Some(first) = tokens.first_mut()
        && let Some(rest) = first.strip_prefix(SPACE).or_else(|| first.strip_prefix(' '))
    {
        *first = rest.to_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::{merges, without_space_in_front};

    #[test]
    fn one_space_goes_if_a_piece_begins_with_it() {
        for (first, rest) in [("▁a", "a"), ("▁▁a", "▁a"), ("▁", ""), ("  ", " "), ("a▁", "a▁"), ("<0x20>", "<0x20>")]
        {
            let mut tokens = [first.to_owned(), "▁b".to_owned()];
            without_space_in_front(&mut tokens);
            assert_eq!(tokens, [rest, "▁b"]);
        }
        without_space_in_front(&mut []);
    }

    #[test]
    fn the_best_pieces_are_merged_first() {
        let pieces = [("a", -9.0), ("b", -9.0), ("c", -9.0), ("bc", -2.0), ("ab", -1.0), ("abc", -1.0), ("ax", 0.0)];
        let expected = [("a", "b"), ("a", "bc"), ("ab", "c"), ("b", "c")];
        assert_eq!(merges(&pieces), expected);
        assert_eq!(merges(&[("▁é", 0.0), ("▁", -1.0), ("é", -2.0)]), [("▁", "é")], "characters are not cut");
    }
}
