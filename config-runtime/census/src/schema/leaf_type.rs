//! Types of leaves: those that can be settings are kept, others are replaced and remarked on.

use std::fmt::Write as _;

use quote::ToTokens;
use syn::{Fields, GenericArgument, ItemEnum, PathArguments, Type};

use super::attributes::{arguments, text, value};
use super::{Declarations, doc_lines, push_doc};

pub(super) struct LeafType {
    /// As written in the schema.
    pub(super) text: String,
    /// The enum of this program that it is, or holds.
    pub(super) choice: Option<String>,
    pub(super) note: Option<String>,
}

const KEPT: &[&str] =
    &["bool", "u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "isize", "f32", "f64", "String"];

const WITH_PATH: &[(&str, &str)] = &[
    ("PathBuf", "std::path::PathBuf"),
    ("Duration", "std::time::Duration"),
    ("SocketAddr", "std::net::SocketAddr"),
    ("IpAddr", "std::net::IpAddr"),
];

impl LeafType {
    fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), choice: None, note: None }
    }

    fn inside(self, before: &str, after: &str) -> Self {
        Self { text: format!("{before}{}{after}", self.text), ..self }
    }

    fn noted(self, original: &Type, rather: &str) -> Self {
        let note = format!("Was `{}`; {rather}.", written(original));
        Self { note: Some(note), ..self }
    }

    pub(super) fn of(ty: &Type, declarations: &Declarations<'_>) -> Self {
        let replaced = || Self::plain("String").noted(ty, "implement `kitbag::Leaf` for it to keep it");
        let path = match ty {
            Type::Path(path) => &path.path,
            Type::Reference(reference) => return Self::of(&reference.elem, declarations),
            _ => return replaced(),
        };
        let Some(last) = path.segments.last() else { return replaced() };
        let inner: Vec<_> = match &last.arguments {
            PathArguments::AngleBracketed(arguments) => arguments
                .args
                .iter()
                .filter_map(|argument| match argument {
                    GenericArgument::Type(ty) => Some(ty),
                    _ => None,
                })
                .collect(),
            _ => Vec::new(),
        };
        let name = last.ident.to_string();
        match (name.as_str(), inner.as_slice()) {
            (name, []) if KEPT.contains(&name) => Self::plain(name),
            ("Option", [inner]) => Self::of(inner, declarations).inside("Option<", ">"),
            ("Vec", [inner]) => Self::of(inner, declarations).inside("Vec<", ">"),
            ("HashSet" | "BTreeSet" | "VecDeque", [inner]) => {
                Self::of(inner, declarations).inside("Vec<", ">").noted(ty, "a list is a `Vec`")
            }
            ("Arc" | "Rc" | "Box", [inner]) => Self::of(inner, declarations),
            ("BTreeMap", [_, inner]) => {
                Self::of(inner, declarations).inside("std::collections::BTreeMap<String, ", ">")
            }
            ("HashMap", [_, inner]) => Self::of(inner, declarations)
                .inside("std::collections::BTreeMap<String, ", ">")
                .noted(ty, "a map is a `BTreeMap` from text"),
            ("str", []) => Self::plain("String"),
            (name, []) if name.starts_with("NonZero") => {
                let number = name.trim_start_matches("NonZero").to_lowercase();
                let number = if KEPT.contains(&number.as_str()) { number } else { "u64".to_owned() };
                Self::plain(number).noted(ty, "a range such as `range = 1..` refuses zero")
            }
            (name, []) => {
                if let Some((_, full)) = WITH_PATH.iter().find(|(short, _)| *short == name) {
                    return Self::plain(*full);
                }
                let choice = declarations.enums.get(name).filter(|item| is_choice(item));
                match choice {
                    Some(_) => Self { choice: Some(name.to_owned()), ..Self::plain(name) },
                    None => replaced(),
                }
            }
            _ => replaced(),
        }
    }
}

fn is_choice(item: &ItemEnum) -> bool {
    !item.variants.is_empty() && item.variants.iter().all(|variant| matches!(variant.fields, Fields::Unit))
}

fn written(ty: &Type) -> String {
    ty.to_token_stream().to_string().replace(" < ", "<").replace(" >", ">").replace(" ,", ",").replace("& ", "&")
}

/// An enum as the type of a setting.
pub(super) fn choice(item: &ItemEnum) -> String {
    let mut text_ = String::new();
    let doc = doc_lines(&item.attrs);
    let name = item.ident.to_string();
    push_doc(&mut text_, "", if doc.is_empty() { vec![format!("Choices of `{name}`.")] } else { doc });
    let _ = write!(text_, "#[derive(Clone, Copy, Debug, PartialEq, ConfigChoice)]\npub enum {name} {{\n");
    let convention = convention(item);
    for variant in &item.variants {
        let doc = doc_lines(&variant.attrs);
        let ident = variant.ident.to_string();
        push_doc(&mut text_, "    ", if doc.is_empty() { vec![format!("`{ident}`.")] } else { doc });
        let given = variant.attrs.iter().flat_map(arguments).find_map(|meta| {
            let named = meta.path().is_ident("name") || meta.path().is_ident("rename");
            value(&meta).filter(|_| named).and_then(text)
        });
        if let Some(spelling) = given.or_else(|| convention.map(|convention| convention(&ident))) {
            let _ = writeln!(text_, "    #[config(name = \"{spelling}\")]");
        }
        let _ = writeln!(text_, "    {ident},");
    }
    text_.push_str("}\n");
    text_
}

/// How serde spells the variants, if that is not kebab case, which clap and kitbag have in common.
fn convention(item: &ItemEnum) -> Option<fn(&str) -> String> {
    let attributes: String = item.attrs.iter().map(|attribute| attribute.to_token_stream().to_string()).collect();
    if attributes.contains("ValueEnum") || !attributes.contains("Deserialize") {
        return None;
    }
    let all = item.attrs.iter().flat_map(arguments).find_map(|meta| {
        let is = meta.path().is_ident("rename_all");
        value(&meta).filter(|_| is).and_then(text)
    });
    match all.as_deref() {
        Some("kebab-case") => None,
        Some("lowercase") => Some(str::to_lowercase),
        Some("UPPERCASE") => Some(str::to_uppercase),
        Some("snake_case") => Some(snake),
        _ => Some(str::to_owned),
    }
}

fn snake(name: &str) -> String {
    let mut text = String::new();
    for (position, letter) in name.char_indices() {
        if letter.is_uppercase() && position > 0 {
            text.push('_');
        }
        text.extend(letter.to_lowercase());
    }
    text
}
