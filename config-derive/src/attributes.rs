//! `#[config(...)]` as written, before it is understood.

use darling::util::{Flag, SpannedValue, parse_expr};
use darling::{FromDeriveInput, FromField, FromMeta};
use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Expr, ExprLit, Ident, Lit, LitStr, Meta, Path, Token, Type, Visibility};

use crate::model::Policy;

/// Names of a struct's attributes, for messages.
pub(crate) const STRUCT: &[&str] = &["ns", "env", "derived", "validate", "retired"];

/// Names of a field's attributes, the common ones first.
pub(crate) const FIELD: &[&str] = &[
    "ns",
    "default",
    "auto",
    "range",
    "hot",
    "load_time",
    "nested",
    "secret",
    "env",
    "flag",
    "alias",
    "deprecated",
    "validate",
    "cache_key",
    "bootstrap",
    "resolution_only",
];

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
    #[darling(default)]
    pub(crate) retired: Option<RetiredNames>,
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
    #[darling(default)]
    pub(crate) secret: Flag,
    #[darling(default)]
    pub(crate) env: Option<SpannedValue<String>>,
    #[darling(default)]
    pub(crate) alias: Option<Aliases>,
    #[darling(default)]
    pub(crate) deprecated: Option<Deprecation>,
    #[darling(default)]
    pub(crate) validate: Option<Path>,
    #[darling(default)]
    pub(crate) cache_key: Option<SpannedValue<bool>>,
    #[darling(default)]
    pub(crate) resolution_only: Flag,
    #[darling(default)]
    pub(crate) bootstrap: Flag,
}

/// Text stays text: without this, `default = "a/b"` would be parsed as the expression `a / b`.
fn expression(meta: &Meta) -> darling::Result<Option<Expr>> {
    parse_expr::preserve_str_literal(meta).map(Some)
}

/// `derived(pool.capacity: usize = capacity(pool.workers, pool.queue), …)`.
pub(crate) struct Derivations(pub(crate) Vec<Derivation>);

/// One derived value as written.
pub(crate) struct Derivation {
    /// Its doc comment.
    pub(crate) attrs: Vec<Attribute>,
    /// `#[cases(pool.workers = [1, 4], …)]`: values of leaves that the emitted test tries.
    pub(crate) cases: Vec<(Expr, Vec<Expr>)>,
    /// `#[twin = path]`: a function that must agree.
    pub(crate) twin: Option<Path>,
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
        let mut attrs = input.call(Attribute::parse_outer)?;
        let (mut cases, mut twin) = (Vec::new(), None);
        for attribute in attrs.extract_if(.., |attribute| !attribute.path().is_ident("doc")) {
            if attribute.path().is_ident("cases") {
                cases.extend(parse_cases(&attribute)?);
            } else if attribute.path().is_ident("twin") {
                twin = Some(parse_twin(&attribute)?);
            } else {
                let text =
                    "known here: a doc comment, `#[cases(namespace.input = [value, ...])]`, `#[twin = function]`";
                return Err(syn::Error::new(attribute.path().span(), text));
            }
        }
        // A second word makes the first one the policy: `at_launch pool.capacity: …`.
        let policy = if input.peek2(Ident) {
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
        Ok(Self { attrs, cases, twin, policy, path: path.into_iter().collect(), ty, function: input.parse()? })
    }
}

/// `#[cases(pool.workers = [1, 4], pool.queue = [8])]`.
fn parse_cases(attribute: &Attribute) -> syn::Result<Vec<(Expr, Vec<Expr>)>> {
    let usage = "write `#[cases(namespace.input = [value, ...], ...)]`";
    let explained = |error: syn::Error| syn::Error::new(error.span(), format!("{error}; {usage}"));
    let pairs = attribute.parse_args_with(Punctuated::<Expr, Token![,]>::parse_terminated).map_err(explained)?;
    let pairs = pairs.into_iter().map(|pair| match pair {
        Expr::Assign(assign) => match *assign.right {
            Expr::Array(values) if !values.elems.is_empty() => Ok((*assign.left, values.elems.into_iter().collect())),
            other => Err(syn::Error::new(other.span(), usage)),
        },
        other => Err(syn::Error::new(other.span(), usage)),
    });
    pairs.collect()
}

/// `#[twin = module::function]`.
fn parse_twin(attribute: &Attribute) -> syn::Result<Path> {
    match &attribute.meta {
        Meta::NameValue(pair) => match &pair.value {
            Expr::Path(path) => Ok(path.path.clone()),
            other => Err(syn::Error::new(other.span(), "a twin is named by its path: `#[twin = module::function]`")),
        },
        other => Err(syn::Error::new(other.span(), "write `#[twin = module::function]`")),
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
            let mut text = error.to_string();
            // An attribute of a derived value has said what to write.
            if !text.contains("`#[") {
                text.push_str("; write `derived(namespace.name: Type = function(namespace.input, ...))`");
            }
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

/// `alias = "pool.places"` or `alias("pool.places", "queue.length")`.
pub(crate) struct Aliases(pub(crate) Vec<LitStr>);

impl FromMeta for Aliases {
    fn from_meta(meta: &Meta) -> darling::Result<Self> {
        let parsed = match meta {
            Meta::NameValue(pair) => match &pair.value {
                Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(vec![text.clone()]),
                _ => None,
            },
            Meta::List(list) => {
                let parsed = list.parse_args_with(Punctuated::<LitStr, Token![,]>::parse_terminated);
                parsed.ok().map(|names| names.into_iter().collect())
            }
            Meta::Path(_) => None,
        };
        let text = "write the former path: `alias = \"namespace.name\"`, or several: `alias(\"a.b\", \"a.c\")`";
        parsed.map(Self).ok_or_else(|| darling::Error::custom(text).with_span(meta))
    }
}

/// `deprecated(since = "0.3", use = "pool.queue", remove_in = "0.5", map = function)`.
#[derive(Default)]
pub(crate) struct Deprecation {
    pub(crate) since: Option<LitStr>,
    pub(crate) replacement: Option<LitStr>,
    pub(crate) remove_in: Option<LitStr>,
    pub(crate) map: Option<Path>,
}

impl Parse for Deprecation {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut deprecation = Self::default();
        while !input.is_empty() {
            // `use` is a keyword, so the usual parsing of attributes does not take it.
            let name = input.call(Ident::parse_any)?;
            input.parse::<Token![=]>()?;
            match name.to_string().as_str() {
                "since" => deprecation.since = Some(input.parse()?),
                "use" => deprecation.replacement = Some(input.parse()?),
                "remove_in" => deprecation.remove_in = Some(input.parse()?),
                "map" => deprecation.map = Some(input.parse()?),
                _ => return Err(syn::Error::new(name.span(), "known here: `since`, `use`, `remove_in`, `map`")),
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(deprecation)
    }
}

impl FromMeta for Deprecation {
    fn from_meta(meta: &Meta) -> darling::Result<Self> {
        let usage = "write `deprecated(since = \"0.3\", use = \"namespace.name\")`";
        let list = meta.require_list().map_err(|_| darling::Error::custom(usage).with_span(meta))?;
        list.parse_args().map_err(|error| darling::Error::custom(format!("{error}; {usage}")).with_span(&error.span()))
    }
}

/// `retired(pool.places = "removed in 0.4; use pool.queue")`.
pub(crate) struct RetiredNames(pub(crate) Vec<RetiredName>);

/// One retired name as written.
pub(crate) struct RetiredName {
    pub(crate) path: Vec<Ident>,
    pub(crate) note: LitStr,
}

impl Parse for RetiredName {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let path: Punctuated<Ident, Token![.]> = Punctuated::parse_separated_nonempty(input)?;
        input.parse::<Token![=]>()?;
        Ok(Self { path: path.into_iter().collect(), note: input.parse()? })
    }
}

impl FromMeta for RetiredNames {
    fn from_meta(meta: &Meta) -> darling::Result<Self> {
        let usage = "write `retired(namespace.name = \"what to do instead\")`";
        let list = meta.require_list().map_err(|_| darling::Error::custom(usage).with_span(meta))?;
        let parsed = list.parse_args_with(Punctuated::<RetiredName, Token![,]>::parse_terminated);
        parsed
            .map(|names| Self(names.into_iter().collect()))
            .map_err(|error| darling::Error::custom(format!("{error}; {usage}")).with_span(&error.span()))
    }
}

/// The text of attributes that are doc comments, one paragraph's lines joined as written.
pub(crate) fn doc_text(attrs: &[Attribute]) -> String {
    let lines = attrs.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) => match &pair.value {
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
