//! What attributes of a field say, in the languages of clap, structopt and serde.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Field, Lit, Meta, Token};

#[derive(Default)]
pub(super) struct Options {
    /// Long flag.
    pub(super) long: Option<String>,
    pub(super) env: Option<String>,
    pub(super) range: Option<String>,
    pub(super) default: Option<Given>,
    /// It is read from the command line.
    pub(super) is_flag: bool,
    /// A subcommand, or something that is never read from anywhere.
    pub(super) outside: bool,
}

/// A default in an attribute.
pub(super) enum Given {
    /// Text, as on the command line.
    Text(String),
    Value(Box<Expr>),
    /// The default of the type.
    OfType,
    /// The result of a function with this name.
    Function(String),
}

impl Options {
    pub(super) fn of(field: &Field) -> Self {
        let mut options = Self::default();
        for attribute in &field.attrs {
            let is = |names: &[&str]| names.iter().any(|name| attribute.path().is_ident(name));
            if is(&["arg", "clap", "command", "structopt"]) {
                options.is_flag = true;
                for meta in arguments(attribute) {
                    options.command_line(&meta);
                }
            } else if is(&["serde"]) {
                for meta in arguments(attribute) {
                    options.serde(&meta);
                }
            }
        }
        options
    }

    fn command_line(&mut self, meta: &Meta) {
        let name = meta.path().to_token_stream().to_string();
        let value = value(meta);
        match name.as_str() {
            "long" => self.long = value.and_then(text),
            "env" => {
                let usable =
                    |env: &String| env.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
                self.env = value.and_then(text).filter(usable);
            }
            "default_value" => {
                self.default = value.map(|value| match text(value) {
                    Some(text) => Given::Text(text),
                    None => Given::Value(Box::new(value.clone())),
                });
            }
            "default_value_t" | "default_values_t" => {
                self.default = Some(value.map_or(Given::OfType, |value| Given::Value(Box::new(value.clone()))));
            }
            "value_parser" => self.range = value.and_then(|value| range(value.to_token_stream())),
            "subcommand" | "skip" => self.outside = true,
            _ => {}
        }
    }

    fn serde(&mut self, meta: &Meta) {
        let name = meta.path().to_token_stream().to_string();
        match (name.as_str(), value(meta).and_then(text)) {
            ("default", None) if self.default.is_none() => self.default = Some(Given::OfType),
            ("default", Some(function)) if self.default.is_none() => self.default = Some(Given::Function(function)),
            ("skip" | "skip_deserializing", _) => self.outside = true,
            _ => {}
        }
    }
}

pub(super) fn arguments(attribute: &Attribute) -> Vec<Meta> {
    let Meta::List(list) = &attribute.meta else { return Vec::new() };
    let parsed = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
    parsed.map(|metas| metas.into_iter().collect()).unwrap_or_default()
}

pub(super) fn value(meta: &Meta) -> Option<&Expr> {
    match meta {
        Meta::NameValue(pair) => Some(&pair.value),
        _ => None,
    }
}

pub(super) fn text(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

/// The argument of `.range(…)` in a parser of values.
fn range(tokens: TokenStream) -> Option<String> {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let position = tokens.iter().position(|token| token.to_string() == "range")?;
    match tokens.get(position + 1)? {
        TokenTree::Group(group) => Some(group.stream().to_string().replace(' ', "")),
        _ => None,
    }
}
