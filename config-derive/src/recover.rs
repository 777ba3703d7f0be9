//! What can still be understood of attributes that are faulty in part.

use proc_macro2::{TokenStream, TokenTree};
use syn::{Attribute, Meta, parse_quote};

/// The attributes without those parts of `#[config(…)]` that `accepts` refuses on their own. The parts left out are
/// faults that are already noted; the others say what they always say, so that one slip does not cause more messages.
pub(crate) fn sound_attributes(attributes: &[Attribute], accepts: impl Fn(&Attribute) -> bool) -> Vec<Attribute> {
    let mut sound = Vec::new();
    for attribute in attributes {
        match &attribute.meta {
            Meta::List(list) if list.path.is_ident("config") => {
                let parts = split(list.tokens.clone()).into_iter().map(|part| parse_quote!(#[config(#part)]));
                sound.extend(parts.filter(&accepts));
            }
            _ if attribute.path().is_ident("config") => {}
            _ => sound.push(attribute.clone()),
        }
    }
    sound
}

/// The tokens between commas. A comma within brackets of any kind but `<` belongs to its part.
fn split(tokens: TokenStream) -> Vec<TokenStream> {
    let mut parts = vec![TokenStream::new()];
    for token in tokens {
        match (&token, parts.last_mut()) {
            (TokenTree::Punct(comma), _) if comma.as_char() == ',' => parts.push(TokenStream::new()),
            (_, Some(part)) => part.extend([token]),
            (_, None) => {}
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}
