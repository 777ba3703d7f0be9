//! What can still be understood of attributes that are faulty in part.

use darling::Error;
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

/// The same errors; one of an attribute that resembles none says which there are.
pub(crate) fn listing(error: Error, owner: &str, names: &[&str]) -> Error {
    let listed = |error: Error| {
        let text = syn::Error::from(error.clone()).to_string();
        if !text.starts_with(UNKNOWN) || text.contains("Did you mean") {
            return error;
        }
        let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        Error::custom(format!("{text}; {owner} takes {}", names.join(", "))).with_span(&error.span())
    };
    Error::multiple(error.flatten().into_iter().map(listed).collect())
}

/// How darling begins what it says of an unknown attribute.
const UNKNOWN: &str = "Unknown field: ";

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
    parts
}

#[cfg(test)]
mod tests {
    use darling::{Error, FromDeriveInput, FromField};
    use proc_macro2::Span;
    use syn::{Ident, parse_quote};

    use super::{UNKNOWN, listing};
    use crate::attributes::{FIELD, FieldAttributes, STRUCT, StructAttributes};

    /// What is said of an attribute that is written without a value.
    fn said(name: &str, read: impl Fn(&Ident) -> Option<Error>) -> String {
        read(&Ident::new(name, Span::call_site())).map_or_else(String::new, |error| error.flatten().to_string())
    }

    #[test]
    fn the_lists_name_what_is_read_and_nothing_else() {
        let field = |name: &Ident| FieldAttributes::from_field(&parse_quote!(#[config(#name)] port: u16)).err();
        let of_struct = |name: &Ident| {
            StructAttributes::from_derive_input(&parse_quote!(
                #[config(#name)]
                struct Args;
            ))
            .err()
        };
        for name in FIELD {
            assert!(!said(name, field).contains(UNKNOWN), "a field takes no `{name}`");
        }
        for name in STRUCT {
            assert!(!said(name, of_struct).contains(UNKNOWN), "a struct takes no `{name}`");
        }
        assert!(said("help", field).contains(UNKNOWN) && said("help", of_struct).contains(UNKNOWN));
    }

    #[test]
    fn what_resembles_none_gets_the_list() {
        let error = FieldAttributes::from_field(&parse_quote!(#[config(zzz, defalt = 1)] port: u16)).err();
        let text = listing(error.expect("neither is known"), "a setting", &["ns", "default"]).flatten().to_string();
        assert!(text.contains("`zzz`; a setting takes `ns`, `default`"), "{text}");
        assert!(text.contains("Did you mean `default`?"), "{text}");
    }
}
