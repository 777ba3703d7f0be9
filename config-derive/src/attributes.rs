//! `#[config(...)]` as written, before it is understood.

use darling::util::{Flag, SpannedValue, parse_expr};
use darling::{FromDeriveInput, FromField, FromMeta};
use proc_macro2::Span;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Ident, Meta, Token, Type, Visibility};

use crate::model::Policy;

/// Attributes of the struct.
#[derive(FromDeriveInput)]
#[darling(attributes(config), forward_attrs(doc))]
pub(crate) struct StructAttributes {
    pub(crate) ident: Ident,
    pub(crate) vis: Visibility,
    pub(crate) attrs: Vec<Attribute>,
    #[darling(default)]
    pub(crate) ns: Option<SpannedValue<String>>,
    #[darling(default)]
    pub(crate) env: Option<SpannedValue<String>>,
    #[darling(default)]
    pub(crate) derived: Option<Derivations>,
    #[darling(default)]
    pub(crate) validate: Option<Validations>,
}

/// Attributes of a field. All optional: what is missing is reported at the field, not at the derive.
#[derive(FromField)]
#[darling(attributes(config), forward_attrs(doc))]
pub(crate) struct FieldAttributes {
    pub(crate) ident: Option<Ident>,
    pub(crate) ty: Type,
    pub(crate) attrs: Vec<Attribute>,
    #[darling(default)]
    pub(crate) ns: Option<SpannedValue<String>>,
    #[darling(default, with = expression)]
    pub(crate) default: Option<Expr>,
    #[darling(default, with = expression)]
    pub(crate) auto: Option<Expr>,
    #[darling(default, with = expression)]
    pub(crate) range: Option<Expr>,
    #[darling(default)]
    pub(crate) flag: Option<SpannedValue<String>>,
    #[darling(default)]
    pub(crate) hot: Flag,
    #[darling(default)]
    pub(crate) load_time: Flag,
    #[darling(default)]
    pub(crate) nested: Flag,
}

/// Text stays text: without this, `default = "a/b"` would be parsed as the expression `a / b`.
fn expression(meta: &Meta) -> darling::Result<Option<Expr>> {
    parse_expr::preserve_str_literal(meta).map(Some)
}

/// `derived(pool.capacity: usize = capacity(pool.workers, pool.queue), …)`.
pub(crate) struct Derivations(pub(crate) Vec<Derivation>);

/// One derived value as written.
pub(crate) struct Derivation {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) policy: Policy,
    pub(crate) path: Vec<Ident>,
    pub(crate) ty: Type,
    pub(crate) function: Expr,
}

impl Derivation {
    pub(crate) fn span(&self) -> Span {
        self.path.last().map_or_else(Span::call_site, Ident::span)
    }
}

impl Parse for Derivation {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        // A second word makes the first one the policy: `at_launch pool.capacity: …`.
        let policy = if input.peek(Ident) && input.peek2(Ident) {
            let word: Ident = input.parse()?;
            match word.to_string().as_str() {
                "live" => Policy::Live,
                "at_publish" => Policy::AtPublish,
                "at_launch" => Policy::AtLaunch,
                _ => return Err(syn::Error::new(word.span(), "a policy is `live`, `at_publish` or `at_launch`")),
            }
        } else {
            Policy::Live
        };
        let path: Punctuated<Ident, Token![.]> = Punctuated::parse_separated_nonempty(input)?;
        input.parse::<Token![:]>()?;
        let ty = input.parse()?;
        input.parse::<Token![=]>()?;
        Ok(Self { attrs, policy, path: path.into_iter().collect(), ty, function: input.parse()? })
    }
}

impl FromMeta for Derivations {
    fn from_meta(meta: &Meta) -> darling::Result<Self> {
        let list = meta.require_list().map_err(|_| {
            let text = "write `derived(namespace.name: Type = function(namespace.input, ...))`";
            darling::Error::custom(text).with_span(meta)
        })?;
        let parsed = list.parse_args_with(Punctuated::<Derivation, Token![,]>::parse_terminated);
        parsed.map(|derivations| Self(derivations.into_iter().collect())).map_err(|error| {
            let text = format!("{error}; write `derived(namespace.name: Type = function(namespace.input, ...))`");
            darling::Error::custom(text).with_span(&error.span())
        })
    }
}

/// `validate(function(pool.workers, pool.queue), …)`.
pub(crate) struct Validations(pub(crate) Vec<Expr>);

impl FromMeta for Validations {
    fn from_meta(meta: &Meta) -> darling::Result<Self> {
        let list = meta
            .require_list()
            .map_err(|_| darling::Error::custom("write `validate(function(namespace.input, ...))`").with_span(meta))?;
        let parsed = list.parse_args_with(Punctuated::<Expr, Token![,]>::parse_terminated);
        Ok(Self(parsed.map_err(darling::Error::from)?.into_iter().collect()))
    }
}

/// The text of doc comments, one paragraph's lines joined as written.
pub(crate) fn doc_text(attrs: &[Attribute]) -> String {
    let lines = attrs.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                syn::Lit::Str(text) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}
