//! What the words of a type tell of its secrecy. Only the type itself knows for certain, since it may be an alias: what
//! cannot be told here is checked by the compiler, through `Leaf::SECRET`.

use syn::{GenericArgument, PathArguments, PathSegment, Type};

/// What is wrong with a leaf that is marked as a secret and has another type.
pub(crate) const MARKED: &str = "a secret setting has the type `kitbag::Secret<String>`, which no output prints";

const COLLECTIONS: [&str; 6] = ["Option", "Vec", "BTreeSet", "HashSet", "BTreeMap", "HashMap"];
/// Types of a setting that are no secrets and in which none can be.
const PLAIN: [&str; 27] = [
    "bool",
    "char",
    "u8",
    "u16",
    "u32",
    "u64",
    "u128",
    "usize",
    "i8",
    "i16",
    "i32",
    "i64",
    "i128",
    "isize",
    "f32",
    "f64",
    "String",
    "PathBuf",
    "Duration",
    "ByteSize",
    "Serde",
    "SocketAddr",
    "SocketAddrV4",
    "SocketAddrV6",
    "IpAddr",
    "Ipv4Addr",
    "Ipv6Addr",
];

/// `Secret<…>`, alone or in an `Option` or a collection.
pub(crate) fn is_secret(ty: &Type) -> bool {
    let Some(last) = last_segment(ty) else { return false };
    last.ident == "Secret" || (is_among(last, &COLLECTIONS) && arguments(last).any(is_secret))
}

/// A type that is no secret for certain.
pub(crate) fn is_plain(ty: &Type) -> bool {
    let Some(last) = last_segment(ty) else { return false };
    let is_non_zero = last.ident.to_string().starts_with("NonZero");
    is_non_zero || is_among(last, &PLAIN) || (is_among(last, &COLLECTIONS) && arguments(last).all(is_plain))
}

fn last_segment(ty: &Type) -> Option<&PathSegment> {
    match ty {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    }
}

fn is_among(segment: &PathSegment, names: &[&str]) -> bool {
    names.iter().any(|name| segment.ident == name)
}

fn arguments(segment: &PathSegment) -> impl Iterator<Item = &Type> {
    let arguments = match &segment.arguments {
        PathArguments::AngleBracketed(arguments) => Some(&arguments.args),
        _ => None,
    };
    arguments.into_iter().flatten().filter_map(|argument| match argument {
        GenericArgument::Type(inner) => Some(inner),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use syn::{Type, parse_quote};

    use super::{is_plain, is_secret};

    #[test]
    fn words_tell_of_most_types() {
        assert!(is_secret(&parse_quote!(kitbag::Secret<String>)));
        assert!(is_secret(&parse_quote!(Option<Vec<Secret<u64>>>)));
        assert!(is_secret(&parse_quote!(std::collections::BTreeMap<String, Secret<String>>)));
        assert!(is_plain(&parse_quote!(Option<Vec<std::path::PathBuf>>)));
        assert!(is_plain(&parse_quote!(NonZero<u8>)) && is_plain(&parse_quote!(NonZeroU8)));
        assert!(!is_plain(&parse_quote!(Option<Secret<String>>)) && !is_secret(&parse_quote!(Option<String>)));
    }

    #[test]
    fn of_others_they_tell_nothing() {
        let table: [Type; 4] = [
            parse_quote!(Token),
            parse_quote!(Vec<crate::Token>),
            parse_quote!((u8, u8)),
            parse_quote!(Wrapped<Secret<String>>),
        ];
        for ty in table {
            assert!(!is_secret(&ty) && !is_plain(&ty));
        }
    }
}
